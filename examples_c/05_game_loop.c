/* game loop: 240 frames a second on the main thread, one rte_engine_tick a frame, never waiting for a model that takes longer
 * than a frame. Motion adds up until a step has seen it, so nothing a player did is lost however slow the model is.
 *
 *     frame: push input -> rte_engine_tick(engine, 0) -> pop what is there -> draw
 *
 * Ends with "ok: ..." and 0. */
#include "rte.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CROWD = 16, FRAMES = 720, FRAME_NS = 1000000000 / 240, STEP_NS = 7000000 };
enum { MOVE, BUTTONS, KEYS };

typedef struct npc { int64_t x; uint32_t jumps, mood; } npc;
typedef struct crowd { npc npc[CROWD], latent[2][CROWD]; } crowd;

static uint64_t now_ns(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static rte_status crowd_seed(void *user, rte_batch *b, rte_stream stream)
{
    crowd *c = user;
    (void)stream;
    for (uint32_t i = 0; i < b->count; ++i) memset(&c->npc[b->row[i]], 0, sizeof(npc));
    return RTE_OK;
}

/* HOT, on a thread of its own: slower than a frame. */
static rte_status crowd_think(void *user, rte_batch *b, rte_stream stream)
{
    crowd          *c       = user;
    const int64_t  *move    = b->column[MOVE];    /* [count], summed since the last step */
    const uint32_t *buttons = b->column[BUTTONS]; /* [count], bits of all taps since the last step */
    const uint64_t  begin   = now_ns();
    (void)stream;
    while (now_ns() - begin < STEP_NS) {} /* a model at work */
    for (uint32_t i = 0; i < b->count; ++i) {
        npc *n = &c->npc[b->row[i]];
        n->x += move[i];
        n->jumps += buttons[i] & 1u;
        c->latent[b->slot][b->row[i]] = *n;
    }
    return RTE_OK;
}

/* DEFERRED, beside the next HOT: what the player sees. */
static rte_status crowd_show(void *user, rte_batch *b, rte_stream stream)
{
    crowd *c = user;
    (void)stream;
    for (uint32_t i = 0; i < b->count; ++i) {
        memcpy(b->output[i], &c->latent[b->slot][b->row[i]], sizeof(npc));
        b->output_size[i] = sizeof(npc);
    }
    return RTE_OK;
}

static int draw(rte_engine *engine, npc *screen)
{
    rte_output out;
    int        drawn = 0;
    while (rte_outbox_pop(engine, &out) == RTE_OK) {
        if (out.kind == RTE_CHUNK) {
            memcpy(&screen[out.session], out.data, sizeof(npc));
            ++drawn;
        }
        rte_output_release(&out, NULL);
    }
    return drawn;
}

int main(void)
{
    static crowd             world;
    const rte_key            keys[KEYS] = {{.name = "move", .type = RTE_I64, .size = sizeof(int64_t), .merge = RTE_MERGE_SUM},
                                           {.name = "buttons", .type = RTE_U32, .size = sizeof(uint32_t), .merge = RTE_MERGE_OR}};
    const rte_stage          stages[]   = {{.name = "think", .lane = RTE_HOT, .run = crowd_think},
                                           {.name = "show", .lane = RTE_DEFERRED, .run = crowd_show}};
    const rte_model          model      = {.struct_size = sizeof model, .user = &world, .max_sessions = CROWD, .chunk_bytes = sizeof(npc),
                                           .keys = keys, .key_count = KEYS, .stages = stages, .stage_count = 2, .seed = crowd_seed};
    const rte_engine_options options    = {.struct_size = sizeof options, .lanes = RTE_LANES_THREADS, .log = rte_log_stderr};
    npc                      screen[CROWD] = {{0, 0, 0}};
    int64_t                  pushed[CROWD] = {0};
    rte_engine_info          info          = {.struct_size = sizeof info};
    rte_engine              *engine;
    rte_error                error;
    uint64_t                 worst = 0, begin;
    int                      busy = 0, drawn = 0, wrong = 0;

    if (rte_engine_new(&model, &options, &engine, &error)) return puts(error.message), 1;
    for (uint64_t id = 0; id < CROWD; ++id) {
        const rte_message join = {.kind = RTE_ATTACH, .session = id};
        if (rte_inbox_push(engine, &join) != RTE_OK) return puts("no room to join"), 1;
    }
    begin = now_ns();
    for (int frame = 0; frame < FRAMES; ++frame) {
        const uint64_t  id      = (uint64_t)frame % CROWD;
        const int64_t   mouse   = frame % 7 - 2;
        const uint32_t  pressed = frame % 10 == 0;
        const rte_value input[] = {{.key = MOVE, .data = &mouse, .size = sizeof mouse}, {.key = BUTTONS, .data = &pressed, .size = sizeof pressed}};
        rte_message     act     = {.kind = RTE_ACTION, .session = id, .values = input, .value_count = 2};
        uint64_t        entered;
        rte_status      status;
        if (rte_inbox_push(engine, &act) == RTE_OK) pushed[id] += mouse;
        entered = now_ns();
        status  = rte_engine_tick(engine, 0);
        if (status < 0) return puts(rte_status_message(status)), 1;
        busy += status == RTE_AGAIN; /* the model is still thinking: the next frame goes on with this tick */
        if (now_ns() - entered > worst) worst = now_ns() - entered;
        drawn += draw(engine, screen);
        while (now_ns() - begin < (uint64_t)(frame + 1) * FRAME_NS) {} /* the rest of the frame */
    }
    for (int last = 0; last < 4; ++last) { /* let the last input come out */
        if (rte_engine_tick(engine, UINT64_MAX) != RTE_OK) return puts("the last ticks"), 1;
        drawn += draw(engine, screen);
    }
    rte_engine_get_info(engine, &info);
    rte_engine_free(engine);
    for (int id = 0; id < CROWD; ++id) wrong += screen[id].x != pushed[id];
    printf("%d frames, in %d of them the model was still busy; %d ticks, %d chunks; longest rte_engine_tick %.3f ms of a frame of %.3f ms\n",
           FRAMES, busy, (int)info.ticks, drawn, (double)worst / 1e6, FRAME_NS / 1e6);
    if (wrong || busy == 0) return printf("%d of %d have lost motion, %d frames were busy\n", wrong, CROWD, busy), 1;
    printf("ok: %d sessions at 240 frames a second, no motion lost\n", CROWD);
    return 0;
}
