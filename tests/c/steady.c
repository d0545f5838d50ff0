/* Ticks of so many sessions in an engine of so many rows, each with a chunk that is popped and released: cost.rs counts the
 * instructions of steady. */
#include "rte.h"
#include <stdio.h>
#include <stdlib.h>

uint64_t steady(rte_engine *engine, long ticks);

static rte_status hot(void *user, rte_batch *batch, rte_stream stream)
{
    (void)user, (void)batch, (void)stream;
    return RTE_OK;
}

static rte_status deferred(void *user, rte_batch *batch, rte_stream stream)
{
    (void)user, (void)stream;
    for (uint32_t at = 0; at < batch->count; ++at) batch->output_size[at] = 1;
    return RTE_OK;
}

__attribute__((noinline)) uint64_t steady(rte_engine *engine, long ticks)
{
    uint64_t   chunks = 0;
    rte_output out;
    for (; ticks > 0; --ticks) {
        if (rte_engine_tick(engine, 0) != RTE_OK) exit(1);
        while (rte_outbox_pop(engine, &out) == RTE_OK) {
            chunks += out.kind == RTE_CHUNK;
            rte_output_release(&out, NULL);
        }
    }
    return chunks;
}

static void run(rte_engine *engine, long ticks)
{
    rte_output out;
    for (; ticks > 0; --ticks) {
        if (rte_engine_tick(engine, 0) != RTE_OK) exit(1);
        while (rte_outbox_pop(engine, &out) == RTE_OK) rte_output_release(&out, NULL);
    }
}

int main(int count, char **words)
{
    const long               rows     = count == 4 ? atol(words[1]) : 0;
    const long               sessions = count == 4 ? atol(words[2]) : 0;
    const long               ticks    = count == 4 ? atol(words[3]) : 0;
    const rte_stage          stages[] = {{.lane = RTE_HOT, .run = hot}, {.lane = RTE_DEFERRED, .run = deferred}};
    const rte_model          model    = {.struct_size = sizeof model, .max_sessions = (uint32_t)rows, .chunk_bytes = 64,
                                         .stages = stages, .stage_count = 2};
    const rte_engine_options options  = {.struct_size = sizeof options, .lanes = RTE_LANES_INLINE, .pipeline = RTE_PIPELINE_ON};
    rte_engine              *engine;
    if (rte_engine_new(&model, &options, &engine, NULL) != RTE_OK) return 1;
    for (long session = 0; session < sessions; ++session) {
        const rte_message attach = {.kind = RTE_ATTACH, .session = (uint64_t)session};
        while (rte_inbox_push(engine, &attach) == RTE_AGAIN) run(engine, 1);
    }
    run(engine, 8);
    if (steady(engine, ticks) != (uint64_t)(sessions * ticks)) return 1;
    rte_engine_free(engine);
    return 0;
}
