// Nothing in rte.hpp allocates once the engine is made: pushes, ticks, pops, both infos.
#include "rte.hpp"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int> allocated{0};

constexpr rte::key<float[2]>     steer{0, "steer"};
constexpr rte::key<std::int64_t> wheel{1, "wheel", rte::sum};
constexpr rte::key<rte::bytes>   prompt{2, "prompt", rte::heavy};

} // namespace

// Of the program and the wrapper: the library has an allocator of its own.
void *operator new(std::size_t size)
{
    ++allocated;
    if (void *const memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

int main()
{
    std::size_t seen = 0;
    rte::model  model("steady");
    model.sessions(2).chunk_bytes(16).keys(steer, wheel, prompt)
        .hot("hot", [](rte::batch batch) { for (rte::row row : batch) row.finish(row.get(wheel) == nullptr ? 1 : 2); })
        .encode("encode", [&](rte::batch batch) { for (rte::row row : batch) seen += row.text(prompt).size(); });
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    const int   made   = allocated;
    (void)engine.push(rte::attach(1));
    for (int i = 0; i < 10; ++i) {
        (void)engine.push(rte::action(1), steer({1, 2}), wheel(3), prompt("mist"));
        (void)engine.tick();
        for (const rte::output &out : engine.outputs()) seen += out.data().size();
        seen += engine.info(1)->age + engine.info().ticks;
    }
    std::printf("%d allocated by then, %d more\n", made, allocated - made);
    return made > 0 && allocated == made && seen > 10 ? 0 : 1;
}
