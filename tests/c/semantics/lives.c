/* Who gets in, who leaves, and what is told of it. */
#include "world.h"

static void getting_in(void)
{
    static world w;
    uint64_t     generation;
    rte_engine_info info = {.struct_size = sizeof info};
    world_init(&w);
    world_begin(&w);
    push(&w, RTE_ATTACH, 0, 1, 5);
    tick(&w);
    CHECK("who gets in is told so", next(&w) == RTE_ATTACHED && w.out.session == 1 && w.out.tag == 5 && w.out.user == 101);
    CHECK("and gets a generation", w.out.generation != 0 && w.out.flags == 0);
    generation = w.out.generation;
    CHECK("the first chunk comes in the same tick, of that generation",
          next(&w) == RTE_CHUNK && w.out.generation == generation && w.out.index == 0 && w.out.user == 101 && w.out.size == CHUNK);

    push_value(&w, RTE_ATTACH, 0, 1, 6, PROMPT, "dusk", 4);
    tick(&w);
    CHECK("who is in already is told that", next(&w) == RTE_ATTACHED && (w.out.flags & RTE_ALREADY) != 0 && w.out.tag == 6);
    EQUAL("it is the same life", w.out.generation, generation);
    CHECK("and it goes on as it was", next(&w) == RTE_CHUNK && w.out.index == 1 && w.out.heavy_tag == 0);

    for (uint64_t session = 2; session <= ROWS + 1; ++session) push(&w, RTE_ATTACH, 0, session, session);
    tick(&w);
    CHECK("one more than there are rows is told FULL", next(&w) == RTE_REJECTED && w.out.status == RTE_ERR_FULL);
    CHECK("with its name, tag and user, and no generation",
          w.out.session == ROWS + 1 && w.out.tag == ROWS + 1 && w.out.user == 101 + ROWS && w.out.generation == 0);
    rte_engine_get_info(w.engine, &info);
    EQUAL("the others are in", info.attached, ROWS);
    skip(&w);

    push(&w, RTE_DETACH, 0, 2, 7);
    push(&w, RTE_ATTACH, 0, 9, 8);
    tick(&w);
    CHECK("who leaves is told", next(&w) == RTE_DETACHED && w.out.session == 2 && w.out.tag == 7 && w.out.status == RTE_OK);
    CHECK("the row is free in the same tick", next(&w) == RTE_ATTACHED && w.out.session == 9 && w.out.row == 1);
    EQUAL("the model was told to let go", w.detached, 1);
    EQUAL("for no other reason than that it was asked to", w.farewell, RTE_OK);
    push(&w, RTE_DETACH, 0, 77, 0);
    skip(&w);
    tick(&w);
    EQUAL("a DETACH of nobody is not answered", next(&w), RTE_CHUNK);
    world_end(&w);
}

static void messages_to_nobody(void)
{
    static world w;
    uint64_t     generation;
    rte_message  late = {.kind = RTE_ACTION, .session = 1, .tag = 4};
    world_init(&w);
    world_begin(&w);
    steer(&w, 5, 1, 0);
    steer(&w, 6, 2, 0);
    push(&w, RTE_PAUSE, 0, 7, 3);
    tick(&w);
    CHECK("messages to nobody are told together", next(&w) == RTE_REJECTED && w.out.status == RTE_ERR_UNKNOWN && w.out.dropped == 3);
    CHECK("by the newest", w.out.session == 7 && w.out.tag == 3 && w.out.generation == 0);
    EQUAL("once", next(&w), 0);

    push(&w, RTE_ATTACH, 0, 1, 0);
    tick(&w);
    next(&w);
    generation = w.out.generation;
    push(&w, RTE_RESET, 0, 1, 0);
    late.generation = generation;
    rte_inbox_push(w.engine, &late);
    late.kind = RTE_DETACH;
    late.tag  = 5;
    rte_inbox_push(w.engine, &late);
    tick(&w);
    CHECK("RESET ends the life", next(&w) == RTE_DETACHED && w.out.generation == generation);
    CHECK("and begins another", next(&w) == RTE_ATTACHED && w.out.generation > generation);
    generation = w.out.generation;
    CHECK("messages to the old one are STALE, told together",
          next(&w) == RTE_REJECTED && w.out.status == RTE_ERR_STALE && w.out.dropped == 2 && w.out.tag == 5);
    CHECK("the new one is untouched by them", next(&w) == RTE_CHUNK && w.out.tag == 0 && w.out.generation == generation);
    late.kind       = RTE_ACTION;
    late.generation = generation;
    late.tag        = 6;
    rte_inbox_push(w.engine, &late);
    tick(&w);
    CHECK("a message to the living one by its generation arrives", next(&w) == RTE_CHUNK && w.out.tag == 6);
    world_end(&w);
}

static void resetting(void)
{
    static world w;
    uint64_t     generation;
    world_init(&w);
    world_begin(&w);
    push_value(&w, RTE_ATTACH, 0, 1, 0, PROMPT, "dawn", 4);
    tick(&w);
    next(&w);
    generation = w.out.generation;
    choose(&w, 1, 1, 5);
    tick(&w);
    tick(&w);
    push(&w, RTE_RESET, 0, 1, 2);
    tick(&w);
    EQUAL("RESET: the old life is told", next(&w), RTE_DETACHED);
    EQUAL("RESET: the new one too", next(&w), RTE_ATTACHED);
    CHECK("RESET: what the old life had queued is gone, the new one counts from 0",
          next(&w) == RTE_CHUNK && w.out.index == 0 && w.out.generation == generation + 1);
    EQUAL("RESET: chunks of the old life are not missing from the new one", w.out.dropped, 0);
    EQUAL("RESET: its user is kept", w.out.user, 101);
    EQUAL("RESET: and that was all", next(&w), 0);
    CHECK("RESET without values: the seed sees the last context", w.seed[0].calls == 2 && strcmp(w.seed[0].prompt, "dawn") == 0);
    EQUAL("RESET: conditioning is cleared", w.hot[0].has[MODE], 0);
    EQUAL("RESET: the model let go of the old life", w.detached, 1);
    push_value(&w, RTE_RESET, 0, 1, 3, PROMPT, "dusk", 4);
    tick(&w);
    CHECK("RESET with values: the seed sees those", strcmp(w.seed[0].prompt, "dusk") == 0);
    push(&w, RTE_PAUSE, 0, 1, 0);
    push(&w, RTE_RESET, 0, 1, 4);
    skip(&w);
    tick(&w);
    CHECK("RESET of a paused session seeds it", next(&w) == RTE_DETACHED && next(&w) == RTE_ATTACHED);
    EQUAL("and leaves it paused", next(&w), 0);
    push(&w, RTE_RESET, 0, 2, 5);
    tick(&w);
    CHECK("RESET of nobody is an ATTACH", next(&w) == RTE_ATTACHED && w.out.session == 2 && w.out.user == 102 && w.out.flags == 0);
    world_end(&w);
}

static void draining(void)
{
    static world     w;
    int              calls;
    rte_session_info info = {.struct_size = sizeof info};
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 1);
    tick(&w);
    tick(&w);
    calls = w.hot[0].calls;
    push(&w, RTE_DETACH, RTE_DRAIN, 1, 9);
    tick(&w);
    EQUAL("DRAIN: no more steps", w.hot[0].calls, calls);
    EQUAL("DRAIN: it still counts as attached", rte_session_get_info(w.engine, 1, &info), RTE_OK);
    CHECK("DRAIN: what was queued comes", next(&w) == RTE_CHUNK && w.out.index == 1);
    CHECK("DRAIN: all of it", next(&w) == RTE_CHUNK && w.out.index == 2);
    CHECK("DRAIN: then DETACHED", next(&w) == RTE_DETACHED && w.out.tag == 9 && w.out.status == RTE_OK);
    EQUAL("DRAIN: then it is gone", rte_session_get_info(w.engine, 1, &info), RTE_ERR_UNKNOWN);
    tick(&w);
    EQUAL("DRAIN: and the model lets go", w.detached, 1);

    world_populate(&w, 1);
    tick(&w);
    tick(&w);
    push(&w, RTE_DETACH, RTE_DRAIN, 1, 9);
    push(&w, RTE_RESET, 0, 1, 10);
    push(&w, RTE_ATTACH, 0, 1, 11);
    tick(&w);
    CHECK("DRAIN: a RESET meanwhile is refused", next(&w) == RTE_REJECTED && w.out.status == RTE_ERR_STATE && w.out.tag == 10);
    CHECK("DRAIN: an ATTACH meanwhile finds it attached", next(&w) == RTE_ATTACHED && w.out.flags == RTE_ALREADY && w.out.tag == 11);
    push(&w, RTE_DETACH, 0, 1, 12);
    tick(&w);
    CHECK("DRAIN: a plain DETACH ends it at once", next(&w) == RTE_DETACHED && w.out.tag == 12);
    EQUAL("DRAIN: and drops what was queued", next(&w), 0);
    world_end(&w);
}

static void without_joining_midrun(void)
{
    static world w;
    world_init(&w);
    w.model.flags = RTE_MODEL_NO_MIDRUN;
    world_begin(&w);
    push(&w, RTE_ATTACH, 0, 1, 0);
    push(&w, RTE_ATTACH, 0, 2, 0);
    tick(&w);
    CHECK("NO_MIDRUN: who comes together gets in together",
          next(&w) == RTE_ATTACHED && next(&w) == RTE_ATTACHED && w.out.session == 2);
    skip(&w);
    push(&w, RTE_ATTACH, 0, 3, 7);
    tick(&w);
    CHECK("NO_MIDRUN: who comes later does not", next(&w) == RTE_REJECTED && w.out.status == RTE_ERR_STATE && w.out.tag == 7);
    skip(&w);
    push(&w, RTE_RESET, 0, 2, 8);
    tick(&w);
    CHECK("NO_MIDRUN: nor a RESET beside another", next(&w) == RTE_REJECTED && w.out.status == RTE_ERR_STATE && w.out.tag == 8);
    CHECK("NO_MIDRUN: which names the life that goes on", w.out.generation == 2 && w.out.user == 102);
    skip(&w);
    push(&w, RTE_DETACH, 0, 1, 0);
    push(&w, RTE_RESET, 0, 2, 9);
    push(&w, RTE_DETACH, 0, 2, 0);
    push(&w, RTE_ATTACH, 0, 3, 10);
    tick(&w);
    skip(&w);
    EQUAL("NO_MIDRUN: when all have left the next one gets in", w.hot[0].session, 3);
    world_end(&w);
}

static void only_who_is_due(void)
{
    static world   w;
    const uint64_t due[2] = {2, 99};
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 3);
    EQUAL("a step of some", rte_engine_step(w.engine, due, 2, 0), RTE_OK);
    CHECK("who is due steps, unknown names are passed over", next(&w) == RTE_CHUNK && w.out.session == 2);
    EQUAL("nobody else does", next(&w), 0);
    push(&w, RTE_PAUSE, 0, 2, 0);
    EQUAL("a step of a paused one", rte_engine_step(w.engine, due, 2, 0), RTE_OK);
    EQUAL("is none", next(&w), 0);
    world_end(&w);
}

static void seeds_that_fail(void)
{
    static world w;
    world_init(&w);
    world_begin(&w);
    w.seed_status[1] = RTE_ERR_HOST - 7;
    push(&w, RTE_ATTACH, 0, 1, 1);
    push(&w, RTE_ATTACH, 0, 2, 2);
    tick(&w);
    CHECK("a seed that succeeds", next(&w) == RTE_ATTACHED && w.out.session == 1);
    CHECK("beside one that fails: rejected with the model's own status",
          next(&w) == RTE_REJECTED && w.out.session == 2 && w.out.status == RTE_ERR_HOST - 7 && w.out.tag == 2);
    EQUAL("that life has no DETACHED", next(&w), RTE_CHUNK);
    EQUAL("and the model is not asked to let go of it", w.detached, 0);
    world_end(&w);
    EQUAL("the other is let go at the stop", w.detached, 1);
    EQUAL("because of the stop", w.farewell, RTE_CLOSED);
}

int main(void)
{
    getting_in();
    messages_to_nobody();
    resetting();
    draining();
    without_joining_midrun();
    only_who_is_due();
    seeds_that_fail();
    return finish();
}
