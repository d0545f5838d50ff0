/* A small model that remembers what its stages saw, and does as the test tells it; and short words to drive it with. */
#ifndef WORLD_H
#define WORLD_H

#include "../check.h"

enum { STEER, BUTTONS, MODE, PROMPT, KEYS };
enum { ROWS = 4, CHUNK = 16 };

/* What a stage saw of one row. */
typedef struct sight {
    int      calls;
    uint64_t session, user, generation, age, tick, changed;
    int      has[KEYS];
    int64_t  steer, mode;
    uint32_t buttons;
    char     prompt[32];
    int      is_masked, has_output;
} sight;

typedef struct world {
    rte_model          model;
    rte_engine_options options;
    rte_engine        *engine;
    rte_output         out;                     /* popped last */
    rte_status         popped;                  /* what that pop returned */

    sight              seed[ROWS], hot[ROWS], encode[ROWS];
    uint32_t           count;                   /* of the last HOT batch */
    int                hot_calls, detached, destroyed;
    rte_status         farewell;                /* the status that `detach` saw last */

    rte_status         returns;                 /* of HOT */
    rte_status         row_status[ROWS];        /* of HOT */
    rte_status         seed_status[ROWS];
    size_t             size[ROWS];              /* of the chunks; CHUNK at first */
} world;

/* ---- the model */

static inline void look(sight *sights, const rte_batch *b)
{
    for (uint32_t i = 0; i < b->count; ++i) {
        sight *s = &sights[b->row[i]];
        ++s->calls;
        s->session = b->session[i]; s->user = b->user[i]; s->generation = b->generation[i];
        s->age = b->age[i]; s->tick = b->tick; s->changed = b->changed[i];
        for (uint32_t key = 0; key < KEYS; ++key) s->has[key] = b->value[i][key].size != 0;
        s->steer   = ((const int64_t *)b->column[STEER])[i];
        s->buttons = ((const uint32_t *)b->column[BUTTONS])[i];
        s->mode    = ((const int64_t *)b->column[MODE])[i];
        memset(s->prompt, 0, sizeof s->prompt);
        if (s->has[PROMPT]) memcpy(s->prompt, b->value[i][PROMPT].data, b->value[i][PROMPT].size);
        s->is_masked  = b->mask[b->row[i]] == 0;
        s->has_output = b->output != NULL && b->output[i] != NULL;
    }
}

static inline rte_status world_seed(void *user, rte_batch *b, rte_stream stream)
{
    world *w = user;
    (void)stream;
    look(w->seed, b);
    for (uint32_t i = 0; i < b->count; ++i) b->status[i] = w->seed_status[b->row[i]];
    return RTE_OK;
}

static inline rte_status world_hot(void *user, rte_batch *b, rte_stream stream)
{
    world *w = user;
    (void)stream;
    look(w->hot, b);
    w->count = b->count;
    ++w->hot_calls;
    for (uint32_t i = 0; i < b->count; ++i) {
        const uint32_t row = b->row[i];
        if (b->mask[row] == 0) continue;
        memset(b->output[i], (int)b->age[i], CHUNK);
        b->output_size[i] = w->size[row];
        b->status[i]      = w->row_status[row];
    }
    return w->returns;
}

static inline rte_status world_encode(void *user, rte_batch *b, rte_stream stream)
{
    world *w = user;
    (void)stream;
    look(w->encode, b);
    return RTE_OK;
}

static inline rte_status world_detach(void *user, rte_batch *b, rte_stream stream)
{
    world *w = user;
    (void)stream;
    ++w->detached;
    w->farewell = b->status[0];
    b->status[0] = RTE_OK;
    return RTE_OK;
}

static inline void world_destroy(void *user) { ++((world *)user)->destroyed; }

static inline void world_init(world *w)
{
    static const rte_key keys[KEYS] = {
        {.name = "steer", .type = RTE_I64, .size = 8, .merge = RTE_MERGE_SUM},
        {.name = "buttons", .type = RTE_U32, .size = 4, .merge = RTE_MERGE_OR},
        {.name = "mode", .type = RTE_I64, .size = 8},
        {.name = "prompt", .flags = RTE_KEY_HEAVY},
    };
    static const rte_stage stages[2] = {
        {.name = "step", .lane = RTE_HOT, .run = world_hot},
        {.name = "read", .lane = RTE_ENCODE, .run = world_encode},
    };
    const rte_model model = {
        .struct_size = sizeof model, .name = "world", .user = w, .max_sessions = ROWS, .chunk_bytes = CHUNK,
        .keys = keys, .key_count = KEYS, .stages = stages, .stage_count = 2,
        .seed = world_seed, .detach = world_detach, .destroy = world_destroy,
    };
    const rte_engine_options options = {.struct_size = sizeof options, .lanes = RTE_LANES_INLINE};

    memset(w, 0, sizeof *w);
    w->model   = model;
    w->options = options;
    for (int row = 0; row < ROWS; ++row) w->size[row] = CHUNK;
}

static inline void world_begin(world *w)
{
    rte_error error = {0};
    if (rte_engine_new(&w->model, &w->options, &w->engine, &error) != RTE_OK) CHECK(error.message, 0);
}

/* Frees the engine, and what was popped last. */
static inline void world_end(world *w)
{
    rte_output_release(&w->out, NULL);
    rte_engine_free(w->engine);
}

/* ---- driving it */

static inline rte_status tick(world *w) { return rte_engine_tick(w->engine, 0); }

static inline rte_status push(world *w, uint32_t kind, uint32_t flags, uint64_t session, uint64_t tag)
{
    const rte_message message = {.kind = kind, .flags = flags, .session = session, .tag = tag, .user = 100 + session};
    return rte_inbox_push(w->engine, &message);
}

static inline rte_status push_value(world *w, uint32_t kind, uint32_t flags, uint64_t session, uint64_t tag,
                                    uint32_t key, const void *data, size_t size)
{
    const rte_value   value   = {.key = key, .data = data, .size = size};
    const rte_message message = {.kind = kind, .flags = flags, .session = session, .tag = tag, .user = 100 + session,
                                 .values = &value, .value_count = 1};
    return rte_inbox_push(w->engine, &message);
}

static inline rte_status steer(world *w, uint64_t session, uint64_t tag, int64_t by)
{
    return push_value(w, RTE_ACTION, RTE_PARTIAL, session, tag, STEER, &by, sizeof by);
}

static inline rte_status press(world *w, uint64_t session, uint64_t tag, uint32_t buttons)
{
    return push_value(w, RTE_ACTION, RTE_PARTIAL, session, tag, BUTTONS, &buttons, sizeof buttons);
}

static inline rte_status choose(world *w, uint64_t session, uint64_t tag, int64_t mode)
{
    return push_value(w, RTE_ACTION, RTE_PARTIAL, session, tag, MODE, &mode, sizeof mode);
}

static inline rte_status prompt(world *w, uint64_t session, uint64_t tag, const char *text)
{
    return push_value(w, RTE_ACTION, RTE_PARTIAL, session, tag, PROMPT, text, strlen(text));
}

/* Gives back what was popped last and pops the next: its kind, or 0 if there is none. */
static inline uint32_t next(world *w)
{
    rte_output_release(&w->out, NULL);
    w->popped = rte_outbox_pop(w->engine, &w->out);
    return w->popped == RTE_OK ? w->out.kind : 0;
}

/* Gives back all that is there. */
static inline void skip(world *w) { while (next(w) != 0) {} }

/* Sessions 1 to `count` are attached and have made their chunk 0; nothing of that is left to pop. */
static inline void world_populate(world *w, uint64_t count)
{
    for (uint64_t session = 1; session <= count; ++session) push(w, RTE_ATTACH, 0, session, 0);
    tick(w);
    skip(w);
}

#endif
