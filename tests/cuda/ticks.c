/* What a tick costs beside the model on CUDA lanes: HOT and DEFERRED that enqueue nothing, pipelined, steady sessions, unpaced.
 * Prints a row of a table for each number of sessions, medians of 20 blocks; 77 and the reason where there is no device. */
#define _POSIX_C_SOURCE 200809L
#include "rte.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef QUICKLY /* the same, for a test of this program */
enum { BLOCKS = 1, TICKS = 1000 };
#else
enum { BLOCKS = 20, TICKS = 20000 }; /* as many ticks in a block, divided by the sessions */
#endif

static rte_status nothing(void *user, rte_batch *b, rte_stream stream)
{
    (void)user, (void)b, (void)stream;
    return RTE_OK;
}

static rte_status one_byte(void *user, rte_batch *b, rte_stream stream)
{
    (void)user, (void)stream;
    for (uint32_t i = 0; i < b->count; ++i) b->output_size[i] = 1;
    return RTE_OK;
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void must(rte_status status, const char *what)
{
    if (status == RTE_OK) return;
    printf("%s: %s\n", what, rte_status_message(status));
    exit(1);
}

static uint32_t turn(rte_engine *engine, uint32_t sessions, int with_actions)
{
    const float steer[2] = {1.0f, 2.0f};
    rte_output  out;
    uint32_t    chunks = 0;

    for (uint64_t session = 0; with_actions && session < sessions; ++session) {
        const rte_value   value  = {.data = steer, .size = sizeof steer};
        const rte_message action = {.kind = RTE_ACTION, .session = session, .values = &value, .value_count = 1};
        must(rte_inbox_push(engine, &action), "push");
    }
    must(rte_engine_tick(engine, UINT64_MAX), "tick");
    while (rte_outbox_pop(engine, &out) == RTE_OK) {
        chunks += out.kind == RTE_CHUNK;
        rte_output_release(&out, NULL);
    }
    return chunks;
}

static double median_us(uint32_t sessions, int with_chunks, int with_actions, uint64_t spin_ns)
{
    const rte_key   key       = {.name = "steer", .type = RTE_F32, .size = 2 * sizeof(float), .merge = RTE_MERGE_SUM};
    const rte_stage stages[2] = {{.name = "hot", .lane = RTE_HOT, .run = nothing},
                                 {.name = "deferred", .lane = RTE_DEFERRED, .run = with_chunks ? one_byte : nothing}};
    const rte_model model     = {.struct_size = sizeof model, .max_sessions = sessions, .chunk_bytes = 64, .keys = &key, .key_count = 1,
                                 .stages = stages, .stage_count = 2};
    const rte_engine_options options = {.struct_size = sizeof options, .lanes = RTE_LANES_CUDA, .pipeline = RTE_PIPELINE_ON,
                                        .inbox_capacity = 4096, .spin_ns = spin_ns};
    const int   ticks = TICKS / (int)(sessions < 8 ? 8 : sessions);
    rte_engine *engine;
    rte_error   error;
    rte_status  status;
    double      us[BLOCKS];
    uint32_t    chunks = 0;

    status = rte_engine_new(&model, &options, &engine, &error);
    if (status != RTE_OK) {
        printf("%s%s\n", status == RTE_ERR_UNAVAILABLE ? "skipped: " : "", error.message);
        exit(status == RTE_ERR_UNAVAILABLE ? 77 : 1);
    }
    for (uint64_t session = 0; session < sessions; ++session) {
        const rte_message attach = {.kind = RTE_ATTACH, .session = session};
        must(rte_inbox_push(engine, &attach), "push");
    }
    for (int warm = 0; warm < ticks; ++warm) turn(engine, sessions, with_actions);
    for (int block = 0; block < BLOCKS; ++block) {
        const double begin = now_us();
        for (int tick = 0; tick < ticks; ++tick) chunks += turn(engine, sessions, with_actions);
        us[block] = (now_us() - begin) / ticks;
    }
    if (chunks != (with_chunks ? (uint32_t)(BLOCKS * ticks) * sessions : 0)) {
        printf("%u chunks of %u sessions\n", chunks, sessions);
        exit(1);
    }
    rte_engine_free(engine);
    qsort(us, BLOCKS, sizeof *us, compare);
    return us[BLOCKS / 2];
}

int main(void)
{
    const uint32_t sessions[] = {1, 8, 64, 512};
    for (size_t i = 0; i < sizeof sessions / sizeof *sessions; ++i) {
        const uint32_t n = sessions[i];
        printf("| %u | %.1f us | %.1f us | %.1f us | %.1f us |\n", n, median_us(n, 0, 0, 0), median_us(n, 0, 0, 1000000),
               median_us(n, 1, 0, 1000000), median_us(n, 1, 1, 1000000));
        fflush(stdout);
    }
    return 0;
}
