/* world: eight players, each in a generated land of their own, flown at 60 pictures a second from one engine.
 *
 *     keys, mouse, buttons --ACTION--> [ HOT: the flight goes on, all sessions at once  -> latent[slot] ]
 *                                      [ DEFERRED, meanwhile: latent of chunk N-1 -> a picture of 128 x 128 ] --> CHUNK
 *     "volcano at night"   --ACTION--> [ ENCODE: words -> heights, worn by rain, lit by the sun; a tenth of a second and more ]
 *
 * A prompt changes one land; its session sits out until the new one is made, and nobody else waits for it. Then what was seen is
 * held against the same sessions flown alone, and a viewer who looks away for half a second is back in the present at once.
 * Everything is counted in ticks: late ticks and missed deadlines are printed, and nothing depends on them. TRACE.json shows them,
 * and the long encode beside them: open it in Perfetto, or make a picture of it with timeline.py.
 *
 *     make bin/03_world && ./bin/03_world [TICKS [FILE.png [TRACE.json]]]
 *
 * Ends with "ok: ..." and 0, with 1 when a check failed. Fewer than 200 ticks fly over a coarser land, for the very patient tools. */
#define _POSIX_C_SOURCE 200809L
#include "rte.h"
#include "03_world_picture.h"
#include "03_world_png.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <time.h>

enum { PLAYERS = 8, COLUMNS = 8, RATE = 60, LIKELY_TICKS = 360, MOST_TICKS = 1000 };
enum { STEER, MOUSE, BUTTONS, PROMPT, KEYS };
enum { JOINED = 1, FIRST_TAG }; /* tags: of ATTACH, of a session's first ACTION */
enum { CHANGING = 2 };          /* the player whose prompt changes */

static const char *const new_prompt = "volcano at night";

static const struct player {
    const char *prompt;
    vec         paper; /* what the plane is made of */
} players[PLAYERS] = {
    {"desert at dusk", {.90f, .88f, .92f}},          {"frozen sea in the morning", {.95f, .14f, .07f}},
    {"emerald valley at noon", {.97f, .93f, .80f}},  {"misty mountains at dawn", {.95f, .55f, .10f}},
    {"coral islands at noon", {.97f, .95f, .95f}},   {"red canyon in the morning", {.20f, .68f, .86f}},
    {"autumn hills at sunset", {.92f, .90f, .85f}},  {"aurora over the tundra", {.98f, .42f, .62f}},
};

/* ---- checks ------------------------------------------------------------------------------------------------------------ */

static unsigned failures;

static void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("FAILED: ", stdout);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    exit(1);
}

static void check(int holds, const char *format, ...)
{
    va_list arguments;
    if (holds || ++failures > 20) return;
    va_start(arguments, format);
    fputs("FAILED: ", stdout);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) fatal("out of memory");
    return memory;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void rest(void) /* a few milliseconds */
{
    const struct timespec t = {0, 3000000};
    nanosleep(&t, NULL);
}

/* ---- the model --------------------------------------------------------------------------------------------------------- */

typedef struct world {
    rte_engine *engine; /* to ask for the time in ticks */
    uint32_t    rows;
    /* ENCODE's, by row. HOT and DEFERRED look at it: no encode of a row runs while they have work of that row. */
    land   *land;
    ground *grounds;
    /* HOT's, by row */
    flight *flight;
    /* by slot and row: HOT of one chunk writes one slot while DEFERRED of the chunk before reads the other */
    flight *latent[2];
    /* DEFERRED's */
    canvas canvas;
    /* of the last encode */
    uint64_t encode_ns, encode_begun, encode_ended; /* the latter two: ticks run by then */
} world;

static void make_land(world *w, const rte_batch *b, uint32_t i)
{
    const rte_value *prompt = &b->value[i][PROMPT];
    land_make(&w->land[b->row[i]], prompt->data, prompt->size, w->grounds);
}

/* On the ENCODE lane too (RTE_MODEL_SEED_ASIDE): who joins takes as long as a prompt, and the others fly on. */
static rte_status seed(void *user, rte_batch *b, rte_stream stream)
{
    world *w = user;
    (void)stream;
    for (uint32_t i = 0; i < b->count; ++i) {
        make_land(w, b, i);
        flight_begin(&w->flight[b->row[i]], b->session[i], &w->land[b->row[i]]);
    }
    return RTE_OK;
}

static uint64_t ticks_run(const rte_engine *engine)
{
    rte_engine_info info = {.struct_size = sizeof info};
    if (rte_engine_get_info(engine, &info) != RTE_OK) fatal("no info");
    return info.ticks;
}

static rte_status encode(void *user, rte_batch *b, rte_stream stream)
{
    world         *w     = user;
    const uint64_t begin = now_ns();
    (void)stream;
    w->encode_begun = ticks_run(w->engine);
    for (uint32_t i = 0; i < b->count; ++i) make_land(w, b, i);
    w->encode_ns    = (now_ns() - begin) / b->count;
    w->encode_ended = ticks_run(w->engine);
    return RTE_OK;
}

static rte_status simulate(void *user, rte_batch *b, rte_stream stream)
{
    world          *w       = user;
    const float    *steer   = b->column[STEER];   /* [count][2], the newest */
    const int64_t  *mouse   = b->column[MOUSE];   /* [count][2], summed since the last step */
    const uint32_t *buttons = b->column[BUTTONS]; /* [count], bits of all taps since the last step */
    (void)stream;
    for (uint32_t i = 0; i < b->count; ++i) {
        const uint32_t row = b->row[i];
        flight_step(&w->flight[row], &w->land[row], steer + 2 * i, mouse + 2 * i, buttons[i]);
        w->latent[b->slot][row] = w->flight[row];
    }
    return RTE_OK;
}

static rte_status render(void *user, rte_batch *b, rte_stream stream)
{
    world *w = user;
    (void)stream;
    for (uint32_t i = 0; i < b->count; ++i) {
        const uint32_t row = b->row[i];
        picture(&w->latent[b->slot][row], &w->land[row], players[b->session[i] % PLAYERS].paper, &w->canvas, b->output[i]);
        b->output_size[i] = PICTURE_BYTES;
    }
    return RTE_OK;
}

static world *world_new(uint32_t rows, int side)
{
    world *w = allocate(1, sizeof *w);
    w->rows    = rows;
    w->land    = allocate(rows, sizeof *w->land);
    w->grounds = allocate((size_t)side * (size_t)side, sizeof *w->grounds);
    w->flight  = allocate(rows, sizeof *w->flight);
    for (int slot = 0; slot < 2; ++slot) w->latent[slot] = allocate(rows, sizeof *w->latent[slot]);
    for (uint32_t row = 0; row < rows; ++row)
        if (!land_new(&w->land[row], side)) fatal("out of memory");
    return w;
}

static void world_free(void *user)
{
    world *w = user;
    for (uint32_t row = 0; row < w->rows; ++row) land_free(&w->land[row]);
    for (int slot = 0; slot < 2; ++slot) free(w->latent[slot]);
    free(w->flight);
    free(w->grounds);
    free(w->land);
    free(w);
}

/* With an engine, which owns it. */
static world *world_begin(uint32_t rows, int side, const rte_engine_options *options)
{
    const rte_key keys[KEYS] = {{.name = "steer", .type = RTE_F32, .size = 2 * sizeof(float)},
                                {.name = "mouse", .type = RTE_I64, .size = 2 * sizeof(int64_t), .merge = RTE_MERGE_SUM},
                                {.name = "buttons", .type = RTE_U32, .size = sizeof(uint32_t), .merge = RTE_MERGE_OR},
                                {.name = "prompt", .type = RTE_BYTES, .flags = RTE_KEY_HEAVY}};
    const rte_stage stages[] = {{.name = "simulate", .lane = RTE_HOT, .run = simulate},
                                {.name = "render", .lane = RTE_DEFERRED, .run = render},
                                {.name = "encode", .lane = RTE_ENCODE, .run = encode}};
    world          *w        = world_new(rows, side);
    const rte_model model    = {.struct_size = sizeof model, .name = "world", .user = w, .flags = RTE_MODEL_SEED_ASIDE, .max_sessions = rows,
                                .chunk_bytes = PICTURE_BYTES, .rate_num = RATE, .rate_den = 1, .keys = keys, .key_count = KEYS,
                                .stages = stages, .stage_count = 3, .seed = seed, .destroy = world_free};
    rte_error       error;
    if (rte_engine_new(&model, options, &w->engine, &error) != RTE_OK) fatal("%s", error.message);
    return w;
}

/* ---- what players do: the same every time --------------------------------------------------------------------------------- */

typedef struct act {
    float       steer[2];
    int64_t     mouse[2];
    uint32_t    buttons;
    rte_value   value[3];
    rte_message message;
} act;

/* A player's n-th ACTION; two of them are meant for each tick. `prompt_at`: the one that is a prompt. */
static void act_new(act *a, uint32_t player, uint64_t n, uint64_t prompt_at)
{
    const float t = (float)n * 0.5f, p = (float)player;
    a->message    = (rte_message){.kind = RTE_ACTION, .session = player, .tag = FIRST_TAG + n, .values = a->value};
    if (player == CHANGING && n == prompt_at) {
        a->value[0]            = (rte_value){.key = PROMPT, .data = new_prompt, .size = strlen(new_prompt)};
        a->message.flags       = RTE_PARTIAL; /* whoever types lets go of nothing */
        a->message.value_count = 1;
        return;
    }
    a->steer[0] = 0.85f * sinf(t * 0.023f + p * 1.1f);
    a->steer[1] = 0.8f * sinf(t * 0.017f + p * 2.3f);
    a->mouse[0] = (int64_t)(3.0f * sinf(t * 0.031f + p * 1.7f));
    a->mouse[1] = (int64_t)(2.0f * sinf(t * 0.027f + p));
    a->buttons  = (n % 170 == 40 + 7 * player ? FLARE : 0u) | (n % 310 == 170 + 13 * player ? BOOST : 0u);
    a->value[0] = (rte_value){.key = STEER, .data = a->steer, .size = sizeof a->steer};
    a->value[1] = (rte_value){.key = MOUSE, .data = a->mouse, .size = sizeof a->mouse};
    a->value[2] = (rte_value){.key = BUTTONS, .data = &a->buttons, .size = sizeof a->buttons};
    a->message.value_count = 3;
}

static void join(rte_engine *engine, uint32_t player)
{
    const rte_value   prompt  = {.key = PROMPT, .data = players[player].prompt, .size = strlen(players[player].prompt)};
    const rte_message message = {.kind = RTE_ATTACH, .session = player, .tag = JOINED, .values = &prompt, .value_count = 1};
    const rte_status  status  = rte_inbox_push(engine, &message);
    if (status != RTE_OK) fatal("player %u cannot join: %s", player, rte_status_message(status));
}

typedef struct driver {
    rte_engine *engine;
    uint64_t    ticks, prompt_at;
    rte_status  failed;
} driver;

/* A thread: plays for all of them, two ACTIONs a tick, whenever it is scheduled. */
static void *drive(void *user)
{
    driver        *d     = user;
    const uint64_t begin = ticks_run(d->engine);
    uint64_t       done[PLAYERS] = {0}, run = 0;
    for (; run < d->ticks; rest()) {
        run = ticks_run(d->engine) - begin;
        for (uint32_t player = 0; player < PLAYERS; ++player)
            while (done[player] < 2 * run) {
                act        a;
                rte_status status;
                act_new(&a, player, done[player], d->prompt_at);
                status = rte_inbox_push(d->engine, &a.message);
                if (status < 0) return d->failed = status, NULL;
                if (status == RTE_AGAIN) break; /* later */
                ++done[player];
            }
    }
    return NULL;
}

/* ---- what viewers see --------------------------------------------------------------------------------------------------- */

enum { BLOCKS = 16 };

typedef struct frame {
    uint64_t tick, tag, heavy_tag, digest;
    uint32_t change; /* against the picture before */
} frame;

typedef struct viewer {
    frame   *frame;
    uint64_t count, most;               /* frames seen, and looked at at most */
    uint64_t changed;                   /* the first frame with the new prompt; 0: none */
    uint8_t  blocks[BLOCKS][BLOCKS][3]; /* of the last picture, coarsely */
    uint8_t *kept[COLUMNS];             /* the newest picture at the time of each column; NULL: as in the column before */
} viewer;

typedef struct show {
    rte_engine *engine;
    viewer      viewer[PLAYERS];
    uint64_t    ticks, begin; /* of the flight; the first picture's */
    uint64_t    first_ns, last_ns;
} show;

static uint64_t digest(const uint8_t *bytes)
{
    uint64_t sum = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < PICTURE_BYTES; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        sum = (sum ^ word) * 0xff51afd7ed558ccdu;
        sum ^= sum >> 32;
    }
    return sum;
}

/* How much differs from the last picture: 0 to 255 in the mean, in sixteenths. */
static uint32_t change(viewer *v, const uint8_t *pixels)
{
    uint32_t sum = 0;
    for (int y = 0; y < BLOCKS; ++y)
        for (int x = 0; x < BLOCKS; ++x)
            for (int c = 0; c < 3; ++c) {
                uint32_t mean = 0;
                for (int i = 0; i < 64; ++i) mean += pixels[((y * 8 + i / 8) * EDGE + x * 8 + i % 8) * 3 + c];
                mean /= 64;
                sum += mean > v->blocks[y][x][c] ? mean - v->blocks[y][x][c] : v->blocks[y][x][c] - mean;
                v->blocks[y][x][c] = (uint8_t)mean;
            }
    return sum * 16 / (BLOCKS * BLOCKS * 3);
}

static uint64_t column_tick(const show *s, uint32_t column) { return s->begin + column * (s->ticks - 1) / (COLUMNS - 1); }

static void see(show *s, const rte_output *out)
{
    const unsigned player = (unsigned)out->session;
    viewer        *v      = &s->viewer[player];
    const frame   *before = v->count ? &v->frame[v->count - 1] : NULL;
    frame         *f      = &v->frame[v->count];
    if (v->count == v->most) return; /* seen enough */
    check(out->size == PICTURE_BYTES, "player %u: a picture of %u bytes", player, (unsigned)out->size);
    check(out->index == v->count && out->dropped == 0, "player %u: picture %u is missing", player, (unsigned)v->count);
    *f = (frame){out->tick, out->tag, out->heavy_tag, digest(out->data), change(v, out->data)};
    if (before) {
        check(out->tick > before->tick && out->tag >= before->tag, "player %u: picture %u is older than the last", player, (unsigned)v->count);
        check(out->heavy_tag >= before->heavy_tag, "player %u: picture %u has the old prompt again", player, (unsigned)v->count);
        if (out->heavy_tag != before->heavy_tag) {
            check(!v->changed, "player %u: the prompt changed twice", player);
            v->changed = v->count;
        }
    }
    ++v->count;
    if (!s->first_ns) s->first_ns = out->start_ns, s->begin = out->tick;
    s->last_ns = out->done_ns;
    for (uint32_t i = 0; i < COLUMNS; ++i)
        if (out->tick <= column_tick(s, i)) {
            if (!v->kept[i]) v->kept[i] = allocate(PICTURE_BYTES, 1);
            memcpy(v->kept[i], out->data, PICTURE_BYTES);
            break;
        }
}

/* To the last column, and the new prompt. */
static int seen_all(const show *s)
{
    for (uint32_t i = 0; i < PLAYERS; ++i) {
        const viewer *v = &s->viewer[i];
        if (!v->count || v->frame[v->count - 1].tick < column_tick(s, COLUMNS - 1)) return 0;
    }
    return s->viewer[CHANGING].changed || s->viewer[CHANGING].count == s->viewer[CHANGING].most;
}

/* The next output; waits for it, but not for ever. Returns 0 where it was a notice that somebody is in. */
static int next(rte_engine *engine, rte_output *out)
{
    rte_status status;
    while ((status = rte_outbox_pop(engine, out)) == RTE_AGAIN)
        if ((status = rte_outbox_wait(engine, UINT64_C(600000000000))) != RTE_OK) break;
    if (status != RTE_OK) fatal("waiting for a picture: %s", rte_status_message(status));
    if (out->kind != RTE_CHUNK && out->kind != RTE_ATTACHED)
        fatal("player %u, notice %u of stage %u: %s", (unsigned)out->session, out->kind, out->stage, rte_status_message(out->status));
    return out->kind == RTE_CHUNK;
}

/* ---- all together ------------------------------------------------------------------------------------------------------- */

static void check_player(const show *s, uint32_t player, const world *w)
{
    const viewer    *v    = &s->viewer[player];
    rte_session_info info = {.struct_size = sizeof info};
    uint64_t         out  = 0;
    for (uint64_t i = 1; i < v->count; ++i) out += v->frame[i].tick - v->frame[i - 1].tick - 1;
    if (rte_session_get_info(s->engine, player, &info) != RTE_OK) fatal("player %u is gone", player);
    check(out == info.ticks_out, "player %u: %u ticks without a picture, but %u sat out", player, (unsigned)out, (unsigned)info.ticks_out);
    check(info.encodes == (player == CHANGING), "player %u: %u encodes", player, (unsigned)info.encodes);
    if (player != CHANGING) {
        check(out == 0 && !v->changed, "player %u: has nothing to do with the prompt, but missed %u ticks", player, (unsigned)out);
    } else if (!v->changed) {
        check(0, "player %u: the prompt never came", player);
    } else {
        const frame *new = &v->frame[v->changed], *old = new - 1;
        check(old->tick < w->encode_begun && w->encode_ended <= new->tick, "pictures of ticks %u and %u, an encode from tick %u to tick %u",
              (unsigned)old->tick, (unsigned)new->tick, (unsigned)w->encode_begun, (unsigned)w->encode_ended);
        for (uint64_t i = 1; i < v->count; ++i) /* and it is to be seen */
            check(i == v->changed || 2 * v->frame[i].change < new->change, "picture %u changes more than the new prompt's", (unsigned)i);
        printf("player %u: \"%s\" took %.0f ms; %u ticks sat out; in the picture of %u ticks after the encode ended\n", player,
               new_prompt, (double)w->encode_ns / 1e6, (unsigned)out, (unsigned)(new->tick - w->encode_ended));
    }
}

static void report(const show *s)
{
    rte_engine_info info = {.struct_size = sizeof info};
    uint64_t        count = 0;
    if (rte_engine_get_info(s->engine, &info) != RTE_OK) fatal("no info");
    for (uint32_t i = 0; i < PLAYERS; ++i) count += s->viewer[i].count;
    printf("%u pictures, %.0f a second; %u deadlines missed, %u of %u ticks late\n", (unsigned)count,
           (double)count * 1e9 / (double)(s->last_ns - s->first_ns), (unsigned)info.missed_deadlines, (unsigned)info.late_ticks,
           (unsigned)info.ticks);
    printf("action to picture: %.1f ms in the median, %.1f ms at 99 %%; a player's step %.3f ms, their picture %.2f ms\n",
           (double)info.action_ns_p50 / 1e6, (double)info.action_ns_p99 / 1e6, (double)info.lane_ns_p50[RTE_HOT] / 1e6 / PLAYERS,
           (double)info.lane_ns_p50[RTE_DEFERRED] / 1e6 / PLAYERS);
}

static void together(show *s, int side, uint64_t prompt_at, const char *trace)
{
    /* So deep that no check here depends on when this thread is scheduled. A live viewer wants 1 to 4. */
    const rte_engine_options options = {.struct_size = sizeof options, .lanes = RTE_LANES_THREADS, .log = rte_log_stderr,
                                        .outbox_depth = (uint32_t)s->ticks, .outbox_policy = RTE_DROP_NEWEST, .trace_path = trace};
    world      *w      = world_begin(PLAYERS, side, &options);
    rte_engine *engine = s->engine = w->engine;
    driver      d = {.engine = engine, .ticks = s->ticks, .prompt_at = prompt_at};
    pthread_t   thread;
    rte_output  out;
    rte_error   error;
    unsigned    attached = 0;

    for (uint32_t i = 0; i < PLAYERS; ++i) join(engine, i);
    if (rte_engine_start(engine, &error) != RTE_OK) fatal("%s", error.message);
    do {
        if (next(engine, &out)) see(s, &out);
        else if (++attached == PLAYERS && pthread_create(&thread, NULL, drive, &d)) fatal("no thread");
        rte_output_release(&out, NULL);
    } while (!seen_all(s));
    pthread_join(thread, NULL);
    if (d.failed) fatal("push: %s", rte_status_message(d.failed));
    for (uint32_t i = 0; i < PLAYERS; ++i) check_player(s, i, w);
    report(s);
    rte_engine_free(engine);
}

/* ---- a player alone ------------------------------------------------------------------------------------------------------ */

/* The tags say which ACTIONs each picture took into account: the same ones again, before the same steps, and no company. */
static void alone(const viewer *v, uint32_t player, int side, uint64_t prompt_at)
{
    const rte_engine_options options = {.struct_size = sizeof options, .lanes = RTE_LANES_INLINE};
    rte_engine              *engine  = world_begin(1, side, &options)->engine;
    rte_session_info         info    = {.struct_size = sizeof info};
    uint64_t                 n = 0, same = 0;
    rte_output               out;
    join(engine, player);
    for (uint64_t i = 0, ticks = 0; i < v->count && ticks < 2 * v->count + 100; ++ticks) {
        act a;
        for (; FIRST_TAG + n <= v->frame[i].tag; ++n) {
            act_new(&a, player, n, prompt_at);
            while (rte_inbox_push(engine, &a.message) == RTE_AGAIN)
                if (rte_engine_step(engine, NULL, 0, UINT64_MAX) != RTE_OK) fatal("step"); /* takes them in, and steps nobody */
        }
        if (rte_engine_tick(engine, UINT64_MAX) != RTE_OK) fatal("tick");
        while (rte_outbox_pop(engine, &out) == RTE_OK) {
            if (out.kind == RTE_CHUNK && i < v->count) {
                const frame *f = &v->frame[i];
                same += out.index == i && out.tag == f->tag && out.heavy_tag == f->heavy_tag && digest(out.data) == f->digest;
                ++i;
            }
            rte_output_release(&out, NULL);
        }
    }
    if (rte_session_get_info(engine, player, &info) != RTE_OK) fatal("player %u alone is gone", player);
    check(same == v->count, "player %u: only %u of %u pictures are the same alone", player, (unsigned)same, (unsigned)v->count);
    check(info.ticks_out == (player == CHANGING), "player %u: sat out %u ticks on inline lanes", player, (unsigned)info.ticks_out);
    rte_engine_free(engine);
}

/* ---- a viewer who looks away --------------------------------------------------------------------------------------------- */

/* The next picture; returns how many ticks had run before it was looked for. */
static uint64_t watch(rte_engine *engine, rte_output *out)
{
    for (;;) {
        const uint64_t ticks = ticks_run(engine);
        if (next(engine, out)) return ticks;
        rte_output_release(out, NULL);
    }
}

static unsigned ticks_old(uint64_t ticks, const rte_output *out) { return ticks > out->tick ? (unsigned)(ticks - out->tick) : 0; }

static void look_away(int side)
{
    const rte_engine_options options = {.struct_size = sizeof options, .lanes = RTE_LANES_THREADS, .outbox_depth = 4,
                                        .outbox_policy = RTE_DROP_OLDEST};
    rte_engine              *engine  = world_begin(1, side, &options)->engine;
    rte_engine_info          info    = {.struct_size = sizeof info};
    uint64_t                 ticks, last = 0;
    unsigned                 lost, old, oldest = 0;
    rte_output               out;
    rte_error                error;
    join(engine, 0);
    if (rte_engine_start(engine, &error) != RTE_OK) fatal("%s", error.message);
    if (rte_engine_get_info(engine, &info) != RTE_OK) fatal("no info");
    for (int i = 0; i < 10; ++i) {
        watch(engine, &out);
        last = out.index;
        rte_output_release(&out, NULL);
    }
    for (ticks = ticks_run(engine); ticks_run(engine) < ticks + RATE / 2;) rest(); /* half a second, as the engine counts */

    old  = ticks_old(watch(engine, &out), &out);
    lost = (unsigned)out.dropped;
    check(lost > 0 && out.index == last + 1 + lost, "picture %u, then %u lost, then %u", (unsigned)last, lost, (unsigned)out.index);
    check(old <= options.outbox_depth + info.pipeline_depth_chunks, "the first picture after a look away is %u ticks old", old);
    rte_output_release(&out, NULL);
    for (int i = 0; i < 10; ++i) {
        for (ticks = ticks_run(engine); rte_outbox_pop(engine, &out) == RTE_OK; ticks = ticks_run(engine)) rte_output_release(&out, NULL);
        next(engine, &out); /* all that was there when `ticks` had run is taken: this one is of now */
        if (ticks_old(ticks, &out) > oldest) oldest = ticks_old(ticks, &out);
        rte_output_release(&out, NULL);
    }
    check(oldest < info.pipeline_depth_chunks, "long after a look away a picture is still %u ticks old", oldest);
    printf("a look away of %d ticks: %u pictures lost, the first one seen %u ticks old, the next ones at most %u\n", RATE / 2, lost, old, oldest);
    rte_engine_free(engine);
}

/* ---- the sheet ------------------------------------------------------------------------------------------------------------ */

static void write_sheet(const show *s, const char *path)
{
    enum { GAP = 4, TOP = 34, LABEL = 18, MARGIN = 14, STEP = EDGE + GAP, LINE = LABEL + EDGE + 8 };
    static const uint8_t back[3] = {15, 16, 20}, ink[3] = {176, 180, 190}, faint[3] = {104, 108, 120}, mark[3] = {255, 140, 40};
    sheet                to      = sheet_new(2 * MARGIN + COLUMNS * STEP - GAP, TOP + PLAYERS * LINE + 6, back);
    char                 text[32];
    if (!to.pixels) fatal("out of memory");
    for (uint32_t i = 0; i < COLUMNS; ++i) {
        snprintf(text, sizeof text, "%.1f s", (double)(column_tick(s, i) - s->begin) / RATE);
        sheet_text(&to, MARGIN + i * STEP, MARGIN, text, faint);
    }
    for (uint32_t player = 0; player < PLAYERS; ++player) {
        const viewer  *v      = &s->viewer[player];
        const uint32_t y      = TOP + player * LINE + LABEL;
        const uint8_t *kept   = NULL;
        int            marked = 0;
        sheet_text(&to, MARGIN, y - 14, players[player].prompt, ink);
        for (uint32_t i = 0; i < COLUMNS; ++i) {
            const uint32_t x = MARGIN + i * STEP;
            if (v->kept[i]) kept = v->kept[i];
            for (uint32_t row = 0; kept && row < EDGE; ++row) memcpy(sheet_at(&to, x, y + row), kept + row * EDGE * 3, EDGE * 3);
            if (marked || !v->changed || v->frame[v->changed].tick > column_tick(s, i)) continue;
            marked = 1; /* where the prompt landed */
            sheet_box(&to, x - GAP + 1, y - 14, 2, EDGE + 14, mark);
            sheet_text(&to, x, y - 14, new_prompt, mark);
        }
    }
    if (sheet_write(&to, path)) fatal("cannot write %s", path);
    printf("%s: %u x %u\n", path, to.width, to.height);
    free(to.pixels);
}

int main(int argc, char **argv)
{
    const long     wanted = argc > 1 ? strtol(argv[1], NULL, 10) : LIKELY_TICKS;
    const int      side   = wanted < 100 ? 64 : wanted < 200 ? 128 : 512;
    static show    s;
    uint64_t       prompt_at, pictures = 0;

    if (wanted < 20 || wanted > MOST_TICKS) fatal("ticks: %ld is not 20 to %d", wanted, MOST_TICKS);
    if (rte_abi_version() != RTE_ABI_VERSION) fatal("rte.h and librte do not belong together");
    picture_begin();
    s.ticks   = (uint64_t)wanted;
    prompt_at = s.ticks * 9 / 10; /* at two ACTIONs a tick: not quite in the middle */
    for (uint32_t i = 0; i < PLAYERS; ++i) {
        s.viewer[i].most  = i == CHANGING ? 8 * s.ticks : s.ticks; /* however late the prompt is */
        s.viewer[i].frame = allocate(s.viewer[i].most + 1, sizeof(frame));
    }
    together(&s, side, prompt_at, argc > 3 ? argv[3] : NULL);
    alone(&s.viewer[CHANGING], CHANGING, side, prompt_at);
    alone(&s.viewer[CHANGING + 1], CHANGING + 1, side, prompt_at);
    look_away(side);
    if (argc > 2) write_sheet(&s, argv[2]);

    for (uint32_t i = 0; i < PLAYERS; ++i) {
        pictures += s.viewer[i].count;
        free(s.viewer[i].frame);
        for (uint32_t c = 0; c < COLUMNS; ++c) free(s.viewer[i].kept[c]);
    }
    if (failures) return printf("%u checks failed\n", failures), 1;
    printf("ok: %d players, %u pictures, none missed for another's prompt, two of them alone bit for bit the same\n", PLAYERS, (unsigned)pictures);
    return 0;
}
