/* A model, options, a backend and a clock that are in order: each case spoils one thing. */
#ifndef KIT_H
#define KIT_H

#include "../check.h"

enum { STEER, BUTTONS, PROMPT, MODE, NOTE, KEYS };

typedef struct kit {
    rte_key            keys[RTE_MAX_KEYS + 1];
    rte_stage          stages[3];
    rte_model          model;
    rte_backend        backend;
    rte_clock          clock;
    rte_engine_options options;
    int                destroyed;
    uint64_t           now;
} kit;

static inline rte_status kit_stage(void *user, rte_batch *batch, rte_stream stream)
{
    (void)user; (void)stream;
    for (uint32_t i = 0; batch->output && i < batch->count; ++i) {
        memset(batch->output[i], 1, 8);
        batch->output_size[i] = 8;
    }
    return RTE_OK;
}

static inline void kit_destroy(void *user) { ++((kit *)user)->destroyed; }

/* Streams and events that are always done: any address serves as one. */
static inline rte_status kit_stream_new(void *user, uint32_t lane, rte_stream *out) { (void)lane; *out = user; return RTE_OK; }
static inline void       kit_stream_free(void *user, rte_stream stream) { (void)user; (void)stream; }
static inline rte_status kit_event_new(void *user, rte_event *out) { *out = user; return RTE_OK; }
static inline void       kit_event_free(void *user, rte_event event) { (void)user; (void)event; }
static inline rte_status kit_record(void *user, rte_event event, rte_stream stream) { (void)user; (void)event; (void)stream; return RTE_OK; }
static inline rte_status kit_wait(void *user, rte_stream stream, rte_event event) { (void)user; (void)stream; (void)event; return RTE_OK; }
static inline rte_status kit_query(void *user, rte_event event) { (void)user; (void)event; return RTE_OK; }
static inline rte_status kit_sync(void *user, rte_event event, uint64_t timeout) { (void)user; (void)event; (void)timeout; return RTE_OK; }

static inline uint64_t kit_now(void *user) { return ++((kit *)user)->now; }
static inline void     kit_sleep_until(void *user, uint64_t at) { ((kit *)user)->now = at; }

static inline void kit_init(kit *k)
{
    static const rte_key keys[KEYS] = {
        {.name = "steer", .type = RTE_I64, .size = 8, .merge = RTE_MERGE_SUM},
        {.name = "buttons", .type = RTE_U32, .size = 4, .merge = RTE_MERGE_OR},
        {.name = "prompt", .flags = RTE_KEY_HEAVY},
        {.name = "mode", .type = RTE_I64, .size = 8},
        {.name = "note"},
    };
    static const rte_stage stages[3] = {
        {.name = "generate", .lane = RTE_HOT, .run = kit_stage},
        {.name = "decode", .lane = RTE_DEFERRED, .run = kit_stage},
        {.name = "encode", .lane = RTE_ENCODE, .run = kit_stage},
    };
    const rte_model model = {
        .struct_size = sizeof model, .name = "kit", .user = k, .max_sessions = 4, .chunk_bytes = 64,
        .keys = k->keys, .key_count = KEYS, .stages = k->stages, .stage_count = 3, .destroy = kit_destroy,
    };
    const rte_backend backend = {
        .struct_size = sizeof backend, .user = k, .stream_new = kit_stream_new, .stream_free = kit_stream_free,
        .event_new = kit_event_new, .event_free = kit_event_free, .record = kit_record, .wait = kit_wait,
        .query = kit_query, .sync = kit_sync,
    };
    const rte_clock          clock   = {.struct_size = sizeof clock, .user = k, .now = kit_now, .sleep_until = kit_sleep_until};
    const rte_engine_options options = {.struct_size = sizeof options, .lanes = RTE_LANES_INLINE};

    memset(k, 0, sizeof *k);
    memcpy(k->keys, keys, sizeof keys);
    memcpy(k->stages, stages, sizeof stages);
    k->model = model;
    k->backend = backend;
    k->clock = clock;
    k->options = options;
}

/* Selects the kit's own lanes. */
static inline void kit_use_backend(kit *k)
{
    k->options.lanes = RTE_LANES_HOST;
    k->options.backend = &k->backend;
}

/* An engine of the kit; the test cannot go on without. */
static inline rte_engine *kit_engine(kit *k)
{
    rte_engine *engine = NULL;
    rte_error   error  = {0};
    if (rte_engine_new(&k->model, &k->options, &engine, &error) != RTE_OK)
        printf("no engine: FAILED: %s\n", error.message);
    return engine;
}

/* rte_engine_new must return `expected`, say `words` first, write nothing else, and not take the model. */
static inline void refused(const char *name, rte_status expected, const char *words, kit *k, const char *file, int line)
{
    rte_engine *engine, *untouched;
    rte_error   error;
    char        text[512];
    rte_status  status, without_error;
    int         says_so;

    poison(&engine, sizeof engine);
    poison(&untouched, sizeof untouched);
    poison(&error, sizeof error);
    status = rte_engine_new(&k->model, &k->options, &engine, &error);
    if (status == RTE_OK) {
        rte_engine_free(engine);
        check_that(name, 0, file, line, "an engine was made");
        return;
    }
    says_so = error.status == expected && memchr(error.message, 0, sizeof error.message) != NULL
              && strncmp(error.message, words, strlen(words)) == 0;
    without_error = rte_engine_new(&k->model, &k->options, &engine, NULL);
    snprintf(text, sizeof text, "status %d (%d without an rte_error), not %d; message \"%.200s\", not \"%s\"; %d destroyed",
             (int)status, (int)without_error, (int)expected, error.message, words, k->destroyed);
    check_that(name, status == expected && without_error == expected && says_so && engine == untouched && k->destroyed == 0,
               file, line, text);
}

/* One case: what is spoilt comes last, with the kit as `k`. */
#define REFUSED(name, expected, words, ...)                          \
    do {                                                             \
        kit k;                                                       \
        kit_init(&k);                                                \
        __VA_ARGS__;                                                 \
        refused(name, expected, words, &k, __FILE__, __LINE__);      \
    } while (0)

/* The same for what is no mistake: an engine is made, and the model given back when it is freed. */
static inline void accepted(const char *name, kit *k, const char *file, int line)
{
    rte_engine *engine = NULL;
    rte_error   error;
    char        text[512];
    rte_status  status;

    poison(&error, sizeof error);
    status = rte_engine_new(&k->model, &k->options, &engine, &error);
    if (status != RTE_OK) {
        check_that(name, 0, file, line, error.message);
        return;
    }
    rte_engine_free(engine);
    snprintf(text, sizeof text, "destroyed %d times; rte_error %s", k->destroyed,
             is_poison(&error, sizeof error) ? "untouched" : "written");
    check_that(name, k->destroyed == 1 && is_poison(&error, sizeof error), file, line, text);
}

#define ACCEPTED(name, ...)                           \
    do {                                              \
        kit k;                                        \
        kit_init(&k);                                 \
        __VA_ARGS__;                                  \
        accepted(name, &k, __FILE__, __LINE__);       \
    } while (0)

#endif
