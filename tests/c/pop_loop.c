/* Pops and releases all that 64 ticks of 64 sessions made. tests/cpp/pop_loop.cpp does the same with rte.hpp, and wrapper.rs
 * counts the instructions of pop_all in both. */
#include "rte.h"
#include <stdio.h>

uint64_t pop_all(rte_engine *engine);

__attribute__((noinline)) uint64_t pop_all(rte_engine *engine)
{
    uint64_t   sum = 0;
    rte_output out;
    while (rte_outbox_pop(engine, &out) == RTE_OK) {
        if (out.kind == RTE_CHUNK) sum += out.session + out.index + *(const uint8_t *)out.data;
        rte_output_release(&out, NULL);
    }
    return sum;
}

int main(void)
{
    rte_model          model   = {.struct_size = sizeof model};
    rte_engine_options options = {.struct_size = sizeof options, .lanes = RTE_LANES_INLINE, .outbox_depth = 64};
    rte_engine        *engine;
    if (rte_reference_model(&model) != RTE_OK) return 1;
    model.max_sessions = 64;
    if (rte_engine_new(&model, &options, &engine, NULL) != RTE_OK) return 1;
    for (uint64_t session = 0; session < 64; ++session) {
        const rte_message attach = {.kind = RTE_ATTACH, .session = session};
        if (rte_inbox_push(engine, &attach) != RTE_OK) return 1;
    }
    for (int tick = 0; tick < 64; ++tick)
        if (rte_engine_tick(engine, 0) != RTE_OK) return 1;
    printf("%llu\n", (unsigned long long)pop_all(engine));
    rte_engine_info info = {.struct_size = sizeof info};
    if (rte_engine_get_info(engine, &info) != RTE_OK || info.chunks != 4096 || info.dropped != 0) return 1;
    rte_engine_free(engine);
    return 0;
}
