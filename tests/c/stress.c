/* stress: pushers and consumers of all kinds at one free-running engine, sessions coming and going, a stop in the middle,
 * outputs that are given back after the engine is gone.
 *
 * Promises that are checked: a chunk is whole and of one step, as long as it is held; a session's chunks come in order;
 * what began is told, and what was told to begin is told to end, once; what was lent is released, once. */
#include "rte.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PUSHERS = 8, CONSUMERS = 4, SESSIONS = 4, ALL = PUSHERS * SESSIONS, BYTES = 300, KEPT = 32 };

static rte_engine   *engine;
static int           rounds = 300;
static atomic_int    consumers_at_work, is_freed;
static atomic_int    failures;
static atomic_ullong begun, chunks, attached, rejected, already, detached, refused, releases, lent;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            atomic_fetch_add(&failures, 1); \
        } \
    } while (0)

static uint32_t next(uint32_t *random) { return *random = *random * 1664525u + 1013904223u; }

static void released(void *user)
{
    free(user);
    atomic_fetch_add(&releases, 1);
}

/* Pushes until it is taken, or the engine is closed. */
static int push(const rte_message *message)
{
    rte_status status;
    while ((status = rte_inbox_push(engine, message)) == RTE_AGAIN) {
        atomic_fetch_add(&refused, 1);
        (void)sched_yield();
    }
    CHECK(status == RTE_OK || status == RTE_ERR_STATE);
    return status == RTE_OK;
}

static int say(uint32_t kind, uint64_t session, uint32_t *random)
{
    char        prompt[BYTES];
    int64_t     number  = (int64_t)(next(random) >> 8);
    rte_value   value[] = {{.key = RTE_REFERENCE_ACTION, .data = &number, .size = sizeof number},
                           {.key = RTE_REFERENCE_PROMPT, .data = prompt, .size = next(random) % BYTES}};
    rte_message message = {.kind = kind, .session = session, .tag = next(random)};
    memset(prompt, (int)(next(random) % 255), sizeof prompt);
    if (kind == RTE_ATTACH || kind == RTE_RESET || kind == RTE_ACTION) {
        message.values      = value;
        message.value_count = 1 + next(random) % 2;
        message.flags       = kind == RTE_ACTION ? next(random) % 2 : 0;
    }
    if (kind == RTE_DETACH) message.flags = next(random) % 2 ? RTE_DRAIN : 0;
    if (message.value_count == 2 && next(random) % 2) { /* the prompt lent, not copied */
        char *copy = malloc(BYTES);
        memcpy(copy, prompt, BYTES);
        value[1].data        = copy;
        value[1].flags       = RTE_VALUE_BORROWED;
        message.release      = released;
        message.release_user = copy;
        if (push(&message)) {
            atomic_fetch_add(&lent, 1);
            return 1;
        }
        free(copy);
        return 0;
    }
    return push(&message);
}

static void *pusher(void *user)
{
    const uint64_t first  = (uint64_t)(uintptr_t)user * SESSIONS;
    uint32_t       random = (uint32_t)first + 1;
    for (int round = 0; round < rounds; ++round)
        for (uint64_t session = first; session < first + SESSIONS; ++session) {
            static const uint32_t kinds[] = {RTE_ATTACH, RTE_ACTION, RTE_ACTION, RTE_ACTION, RTE_PAUSE,
                                             RTE_RESUME, RTE_RESET,  RTE_ACTION, RTE_DETACH, RTE_ACTION};
            const uint32_t        kind    = kinds[next(&random) / 7 % 10];
            if (!say(kind, session, &random)) return NULL;
            if (kind == RTE_ATTACH || kind == RTE_RESET) atomic_fetch_add(&begun, 1);
        }
    return NULL;
}

static void check_whole(const rte_output *out)
{
    const uint8_t *bytes = out->data;
    for (size_t i = 1; i < out->size; ++i) CHECK(bytes[i] == bytes[0]);
}

static void look(const rte_output *out, uint64_t (*last)[2])
{
    switch (out->kind) {
    case RTE_CHUNK:
        atomic_fetch_add(&chunks, 1);
        CHECK(out->session < ALL && out->size == 64);
        check_whole(out);
        /* What one consumer sees of a session is in order: later lives after earlier ones, chunks ascending. */
        CHECK(out->generation >= last[out->session][0]);
        if (out->generation == last[out->session][0]) CHECK(out->index >= last[out->session][1]);
        last[out->session][0] = out->generation;
        last[out->session][1] = out->index + 1;
        break;
    case RTE_ATTACHED: atomic_fetch_add(out->flags & RTE_ALREADY ? &already : &attached, 1); break;
    case RTE_REJECTED:
        if (out->status != RTE_ERR_UNKNOWN) atomic_fetch_add(&rejected, 1);
        break;
    case RTE_DETACHED: atomic_fetch_add(&detached, 1); break;
    default: CHECK(0 && "no other notice");
    }
}

/* The first waits as long as it takes, the second for short times, the others only look. The last keeps its newest
 * outputs and gives them back while the engine is freed, and after; the others hold each until they have the next. */
static void *consumer(void *user)
{
    const int  kind         = (int)(uintptr_t)user;
    uint64_t   last[ALL][2] = {{0, 0}};
    rte_output kept[KEPT]   = {{0}}, out;
    rte_status status       = RTE_OK;
    size_t     popped       = 0;
    while (status != RTE_CLOSED) {
        if (kind == 0) CHECK(rte_outbox_wait(engine, UINT64_MAX) >= RTE_OK);
        if (kind == 1) CHECK(rte_outbox_wait(engine, 100000) >= RTE_OK);
        while ((status = rte_outbox_pop(engine, &out)) == RTE_OK) {
            rte_output *place = &kept[popped++ % (kind == 3 ? KEPT : 1)];
            look(&out, last);
            check_whole(place);
            rte_output_release(place, NULL);
            *place = out;
        }
        CHECK(status == RTE_AGAIN || status == RTE_CLOSED);
        if (kind >= 2) (void)sched_yield();
    }
    atomic_fetch_sub(&consumers_at_work, 1); /* our last use of the engine */
    for (size_t i = 0; i < KEPT; ++i) {
        /* Relaxed: what was done before is ordered with this by the library or not at all. */
        while (i > KEPT / 2 && !atomic_load_explicit(&is_freed, memory_order_relaxed)) (void)sched_yield();
        check_whole(&kept[i]);
        rte_output_release(&kept[i], NULL);
    }
    return NULL;
}

static void *watcher(void *user)
{
    rte_engine_info  info    = {.struct_size = sizeof info};
    rte_session_info session = {.struct_size = sizeof session};
    for (int i = 0; i < 2000; ++i) {
        CHECK(rte_engine_get_info(engine, &info) == RTE_OK && info.attached <= info.max_sessions);
        (void)rte_session_get_info(engine, (uint64_t)i % ALL, &session);
    }
    return user;
}

static void storm(uint32_t lanes, uint32_t pipeline, uint32_t encode_lanes)
{
    rte_model          model   = {.struct_size = sizeof model};
    rte_engine_options options = {.struct_size = sizeof options, .inbox_capacity = 64, .outbox_depth = 2};
    atomic_ullong     *all[]   = {&begun, &chunks, &attached, &rejected, &already, &detached, &refused, &releases, &lent};
    pthread_t          threads[PUSHERS + CONSUMERS + 1];
    uint64_t           lives, ends, answered;

    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) atomic_store(all[i], 0);
    options.lanes        = lanes;
    options.pipeline     = pipeline;
    options.encode_lanes = encode_lanes;
    options.trace_path   = pipeline == RTE_PIPELINE_OFF ? "stress.json" : NULL;
    CHECK(rte_reference_model(&model) == RTE_OK);
    model.rate_num = model.rate_den = 0;
    model.max_sessions              = ALL - 4; /* some find no room */
    CHECK(rte_engine_new(&model, &options, &engine, NULL) == RTE_OK && rte_engine_start(engine, NULL) == RTE_OK);
    atomic_store(&is_freed, 0);
    atomic_store(&consumers_at_work, CONSUMERS);
    for (uintptr_t i = 0; i < PUSHERS; ++i) pthread_create(&threads[i], NULL, pusher, (void *)i);
    for (uintptr_t i = 0; i < CONSUMERS; ++i) pthread_create(&threads[PUSHERS + i], NULL, consumer, (void *)i);
    pthread_create(&threads[PUSHERS + CONSUMERS], NULL, watcher, NULL);
    pthread_join(threads[0], NULL); /* the others are in the middle */
    CHECK(rte_engine_stop(engine, UINT64_MAX, NULL) == RTE_OK);
    for (size_t i = 1; i < PUSHERS; ++i) pthread_join(threads[i], NULL);
    pthread_join(threads[PUSHERS + CONSUMERS], NULL);
    while (atomic_load(&consumers_at_work) > 0) (void)sched_yield();
    rte_engine_free(engine);
    atomic_store_explicit(&is_freed, 1, memory_order_relaxed);
    for (size_t i = 0; i < CONSUMERS; ++i) pthread_join(threads[PUSHERS + i], NULL);

    lives    = atomic_load(&attached);
    ends     = atomic_load(&detached);
    answered = lives + atomic_load(&already) + atomic_load(&rejected);
    /* Each ATTACH and RESET is answered, but for lives that ended before they were seeded: those are only told to end. */
    CHECK(atomic_load(&begun) - answered == ends - lives);
    CHECK(atomic_load(&releases) == atomic_load(&lent));
    printf("%llu messages that begin a life, %llu attached, %llu rejected, %llu detached, %llu chunks, %llu pushes refused\n",
           (unsigned long long)begun, (unsigned long long)lives, (unsigned long long)rejected, (unsigned long long)ends,
           (unsigned long long)chunks, (unsigned long long)refused);
}

int main(int argc, char **argv)
{
    if (argc > 1) rounds = atoi(argv[1]);
    storm(RTE_LANES_INLINE, RTE_PIPELINE_OFF, 0);
    storm(RTE_LANES_INLINE, RTE_PIPELINE_ON, 0);
    storm(RTE_LANES_THREADS, RTE_PIPELINE_OFF, 3);
    storm(RTE_LANES_THREADS, RTE_PIPELINE_ON, 0);
    if (failures) return 1;
    puts("ok: stress");
    return 0;
}
