// tests/c/pop_loop.c with rte.hpp.
#include "rte.hpp"
#include <cstdio>

extern "C" std::uint64_t pop_all(rte::engine &engine);

extern "C" __attribute__((noinline)) std::uint64_t pop_all(rte::engine &engine)
{
    std::uint64_t sum = 0;
    for (const rte::output &out : engine.outputs())
        if (out.is_chunk()) sum += out.session() + out.index() + out.data_as<std::uint8_t>()[0];
    return sum;
}

int main()
{
    rte_model model{};
    model.struct_size = sizeof model;
    if (rte_reference_model(&model) != RTE_OK) return 1;
    model.max_sessions = 64;
    rte::options options;
    options.lanes        = RTE_LANES_INLINE;
    options.outbox_depth = 64;
    rte::engine engine   = rte::engine::make(model, options).or_throw();
    for (std::uint64_t session = 0; session < 64; ++session)
        if (engine.push(rte::attach(session)) != RTE_OK) return 1;
    for (int tick = 0; tick < 64; ++tick)
        if (engine.tick() != RTE_OK) return 1;
    std::printf("%llu\n", static_cast<unsigned long long>(pop_all(engine)));
    return engine.info().chunks == 4096 && engine.info().dropped == 0 ? 0 : 1;
}
