// A stage must not throw. One that does ends the process, with a message: nothing of the engine's is then in doubt.
#include "rte.h"
#include <cstdio>
#include <stdexcept>
#include <sys/resource.h>

namespace {

rte_status stage(void *, rte_batch *, rte_stream) { throw std::runtime_error("not caught by the model"); }

} // namespace

int main()
{
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);

    rte_stage stages[1] = {};
    stages[0].name = "throw"; stages[0].lane = RTE_HOT; stages[0].run = stage;

    rte_model model{};
    model.struct_size = sizeof model;
    model.max_sessions = 1;
    model.chunk_bytes = 1;
    model.stages = stages; model.stage_count = 1;

    rte_engine *engine = nullptr;
    if (rte_engine_new(&model, nullptr, &engine, nullptr) != RTE_OK) return 1;
    rte_message attach{};
    attach.kind = RTE_ATTACH;
    if (rte_inbox_push(engine, &attach) != RTE_OK) return 1;
    try {
        rte_engine_tick(engine, 0);
    } catch (...) {
        std::puts("the exception came through");
    }
    std::puts("the process lives");
    return 0;
}
