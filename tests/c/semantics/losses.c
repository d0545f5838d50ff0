/* What a slow consumer loses, and what it is told of that. */
#include "world.h"

static void ticks(world *w, int count) { while (count-- > 0) tick(w); }

static void the_oldest(void)
{
    static world     w;
    rte_session_info session = {.struct_size = sizeof session};
    rte_engine_info  info    = {.struct_size = sizeof info};
    world_init(&w);
    w.options.outbox_depth  = 2;
    w.options.outbox_policy = RTE_DROP_OLDEST;
    world_begin(&w);
    push(&w, RTE_ATTACH, 0, 1, 0);
    ticks(&w, 5);
    rte_session_get_info(w.engine, 1, &session);
    CHECK("DROP_OLDEST: info counts what is queued and what was lost", session.queued == 2 && session.dropped == 3 && session.age == 5);
    rte_engine_get_info(w.engine, &info);
    CHECK("DROP_OLDEST: so it does for the engine", info.chunks == 5 && info.dropped == 3);
    next(&w);
    CHECK("DROP_OLDEST: the oldest that is left says how many are missing before it",
          next(&w) == RTE_CHUNK && w.out.index == 3 && w.out.dropped == 3);
    CHECK("DROP_OLDEST: the next follows it", next(&w) == RTE_CHUNK && w.out.index == 4 && w.out.dropped == 0);
    CHECK("DROP_OLDEST: its bytes are its own", *(const unsigned char *)w.out.data == 4 && w.out.size == CHUNK);
    EQUAL("DROP_OLDEST: that is all", next(&w), 0);
    world_end(&w);
}

static void the_newest(void)
{
    static world w;
    world_init(&w);
    w.options.outbox_depth  = 2;
    w.options.outbox_policy = RTE_DROP_NEWEST;
    world_begin(&w);
    push(&w, RTE_ATTACH, 0, 1, 0);
    ticks(&w, 5);
    next(&w);
    CHECK("DROP_NEWEST: the oldest is there", next(&w) == RTE_CHUNK && w.out.index == 0 && w.out.dropped == 0);
    CHECK("DROP_NEWEST: and the next", next(&w) == RTE_CHUNK && w.out.index == 1 && w.out.dropped == 0);
    EQUAL("DROP_NEWEST: not the ones after", next(&w), 0);
    tick(&w);
    CHECK("DROP_NEWEST: the first after the gap says how large it is", next(&w) == RTE_CHUNK && w.out.index == 5 && w.out.dropped == 3);
    world_end(&w);
}

static void only_the_newest_counts(void)
{
    static world w;
    world_init(&w);
    w.options.outbox_depth = 1;
    world_begin(&w);
    push(&w, RTE_ATTACH, 0, 1, 0);
    ticks(&w, 4);
    next(&w);
    CHECK("a depth of 1 keeps the newest alone", next(&w) == RTE_CHUNK && w.out.index == 3 && w.out.dropped == 3 && next(&w) == 0);
    world_end(&w);
}

/* Session 1 has a consumer that keeps everything, session 2 one that gives back at once. */
static void held_outputs(void)
{
    static world     w;
    rte_output       kept[8], out;
    int              held = 0, others = 0, gaps = 0, intact = 1;
    rte_session_info session = {.struct_size = sizeof session};
    world_init(&w);
    w.options.outbox_depth = 1;
    w.options.held_max     = 2;
    world_begin(&w);
    world_populate(&w, 2);
    for (int at = 0; at < 8; ++at) {
        tick(&w);
        while (rte_outbox_pop(w.engine, &out) == RTE_OK) {
            if (out.session == 1 && held < 8) {
                kept[held++] = out;
                continue;
            }
            gaps += (int)out.dropped;
            ++others;
            rte_output_release(&out, NULL);
        }
    }
    CHECK("a consumer may hold at least held_max outputs", held >= 2);
    CHECK("one that holds all its session's buffers gets no more", held <= 4 && held < 8);
    CHECK("nobody else loses anything by that", others == 8 && gaps == 0);
    rte_session_get_info(w.engine, 1, &session);
    CHECK("info tells what is held and lost", session.held == (uint64_t)held && session.dropped == (uint64_t)(8 - held));
    for (int at = 0; at < held; ++at) {
        const unsigned char *bytes = kept[at].data;
        intact &= bytes[0] == kept[at].index && bytes[CHUNK - 1] == kept[at].index;
    }
    CHECK("what is held stays as it was", intact);
    while (held > 0) rte_output_release(&kept[--held], NULL);
    tick(&w);
    CHECK("given back, the session goes on and says what is missing", next(&w) == RTE_CHUNK && w.out.session == 1 && w.out.dropped > 0);
    world_end(&w);
}

static void steps_without_a_chunk(void)
{
    static world     w;
    rte_session_info session = {.struct_size = sizeof session};
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 1);
    w.size[0] = 0;
    ticks(&w, 2);
    EQUAL("a step that writes nothing gives no chunk", next(&w), 0);
    w.size[0] = 5;
    tick(&w);
    CHECK("a step that writes some gives that much", next(&w) == RTE_CHUNK && w.out.size == 5);
    CHECK("steps without a chunk have a number, but are not missing", w.out.index == 3 && w.out.dropped == 0);
    rte_session_get_info(w.engine, 1, &session);
    EQUAL("nor lost", session.dropped, 0);
    world_end(&w);
}

int main(void)
{
    the_oldest();
    the_newest();
    only_the_newest_counts();
    held_outputs();
    steps_without_a_chunk();
    return finish();
}
