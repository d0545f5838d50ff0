// Who has an installed library and nothing else, from C++.
#include <rte.hpp>
#include <cstdio>

int main()
{
    rte::model model("count");
    model.sessions(4).chunk_bytes(1).hot("count", [](rte::batch batch) {
        for (rte::row row : batch) row.finish(1);
    });
    auto engine = rte::engine::make(std::move(model));
    if (!engine) return std::puts(engine.error().message.c_str()), 1;
    if (rte_abi_version() != RTE_ABI_VERSION || engine->push(rte::attach(7)) != RTE_OK) return 1;
    int chunks = 0;
    for (int tick = 0; tick < 8 && engine->tick(rte::forever) == RTE_OK; ++tick)
        for (rte::output &out : engine->outputs()) chunks += out.kind() == RTE_CHUNK;
    std::printf("C++ %ld: %s, %d chunks\n", __cplusplus, rte_version_string(), chunks);
    return chunks == 0;
}
