// What throws through rte.hpp beside stages and hooks: releases of outputs, and serve.
#include "rte.hpp"
#include <cstdio>

namespace {

int failures = 0;

void check(const char *name, bool holds)
{
    failures += !holds;
    std::printf("%s: %s\n", name, holds ? "ok" : "FAILED");
}

void releases()
{
    static char storage[64];
    int         made = 0, released = 0, chunks = 0;
    {
        rte::model model("releases");
        model.sessions(2).chunk_bytes(8).flags(RTE_MODEL_OWN_OUTPUT)
            .hot("hot", [&](rte::batch batch) {
                for (rte::row row : batch) {
                    batch.raw()->output[row.position()] = &storage[made++ % 64];
                    row.finish(1);
                }
            })
            .release_output([&](void *) {
                ++released;
                throw 1;
            });
        rte::engine engine = rte::engine::make(std::move(model)).or_throw();
        (void)engine.push(rte::attach(1));
        for (int i = 0; i < 20; ++i) {
            check("a tick in which outputs are lost", engine.tick() == RTE_OK);
            if (i % 7 != 6) continue;
            for (const rte::output &out : engine.outputs()) chunks += out.is_chunk();
        }
        check("the engine is well", engine.info().health == RTE_OK);
    }
    check("some were popped, some lost", chunks > 0 && chunks < made);
    check("each was given back once", made == 20 && released == made);
}

void serve()
{
    rte::model model;
    model.sessions(1).chunk_bytes(1).serve([](rte_engine *) { throw 1; });
    rte::engine engine = rte::engine::make(std::move(model)).or_throw();
    check("an engine whose loop throws begins", static_cast<bool>(engine.start()));
    check("and is dead of it", engine.wait() == RTE_OK || engine.wait() == RTE_ERR_DEAD);
    rte::output last;
    check("its last output says why", engine.pop(last) == RTE_OK && last.kind() == RTE_DEAD && last.status() == RTE_ERR_CALLBACK);
    check("nothing comes after it", engine.pop(last) == RTE_ERR_DEAD);
}

} // namespace

int main()
{
    releases();
    serve();
    if (failures == 0) std::puts("ok: wrapped");
    return failures != 0;
}
