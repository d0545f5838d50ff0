/* What a stage that fails costs, and whom. */
#include "world.h"

static void one_row(void)
{
    static world     w;
    rte_session_info session = {.struct_size = sizeof session};
    rte_engine_info  info    = {.struct_size = sizeof info};
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 3);

    w.row_status[1] = RTE_ERR_HOST - 7;
    EQUAL("a tick with a row that fails is a tick", tick(&w), RTE_OK);
    CHECK("a row that fails is told with the model's own status",
          next(&w) == RTE_ROW_FAILED && w.out.session == 2 && w.out.status == RTE_ERR_HOST - 7 && w.out.stage == 0 && w.out.row == 1);
    CHECK("the others get their chunks", next(&w) == RTE_CHUNK && w.out.session == 1 && next(&w) == RTE_CHUNK && w.out.session == 3);
    EQUAL("it gets none", next(&w), 0);
    rte_session_get_info(w.engine, 2, &session);
    CHECK("info says why", session.state == RTE_QUARANTINED && session.status == RTE_ERR_HOST - 7);
    rte_engine_get_info(w.engine, &info);
    EQUAL("and how many", info.quarantined, 1);
    w.row_status[1] = RTE_OK;
    tick(&w);
    CHECK("it steps no more", next(&w) == RTE_CHUNK && next(&w) == RTE_CHUNK && next(&w) == 0);
    push(&w, RTE_RESET, 0, 2, 0);
    tick(&w);
    CHECK("until RESET", next(&w) == RTE_DETACHED && next(&w) == RTE_ATTACHED && w.out.session == 2);
    EQUAL("for which the model is told why that life ended", w.farewell, RTE_ERR_HOST - 7);
    skip(&w);

    w.row_status[0] = 5;
    tick(&w);
    CHECK("a row status that is none counts as CALLBACK", next(&w) == RTE_ROW_FAILED && w.out.session == 1 && w.out.status == RTE_ERR_CALLBACK);
    w.row_status[0] = RTE_OK;
    w.size[2] = CHUNK + 1;
    skip(&w);
    tick(&w);
    CHECK("so does a chunk larger than its buffer", next(&w) == RTE_ROW_FAILED && w.out.session == 3 && w.out.status == RTE_ERR_CALLBACK);
    CHECK("which is not delivered", next(&w) == RTE_CHUNK && w.out.session == 2 && next(&w) == 0);
    world_end(&w);
}

static void whole_batches(void)
{
    static world w;
    world_init(&w);
    world_begin(&w);
    world_populate(&w, 2);

    steer(&w, 1, 1, 4);
    w.returns = 17;
    EQUAL("a tick with a batch that fails is a tick", tick(&w), RTE_OK);
    CHECK("a stage that returns what is no status: CALLBACK",
          next(&w) == RTE_TICK_FAILED && w.out.status == RTE_ERR_CALLBACK && w.out.stage == 0 && w.out.dropped == 1);
    EQUAL("nobody gets a chunk", next(&w), 0);
    w.returns = RTE_OK;
    tick(&w);
    CHECK("what failed is a gap", next(&w) == RTE_CHUNK && w.out.session == 1 && w.out.index == 2 && w.out.dropped == 1);
    EQUAL("its input is gone", w.hot[0].steer, 0);
    skip(&w);
    w.returns = RTE_ERR_HOST - 7;
    tick(&w);
    CHECK("a stage that returns a status of its own", next(&w) == RTE_TICK_FAILED && w.out.status == RTE_ERR_HOST - 7);
    w.returns = -500;
    tick(&w);
    CHECK("a negative number that is no status: CALLBACK", next(&w) == RTE_TICK_FAILED && w.out.status == RTE_ERR_CALLBACK);
    world_end(&w);
}

static void batches_that_may_be_run_again(void)
{
    static world w;
    world_init(&w);
    w.model.flags = RTE_MODEL_RETRY_SAFE;
    world_begin(&w);
    world_populate(&w, 1);
    steer(&w, 1, 1, 4);
    w.returns = RTE_ERR_HOST;
    tick(&w);
    EQUAL("RETRY_SAFE: a batch that fails is told", next(&w), RTE_TICK_FAILED);
    w.returns = RTE_OK;
    steer(&w, 1, 2, 3);
    tick(&w);
    CHECK("RETRY_SAFE: the next tick is the same chunk again, no gap", next(&w) == RTE_CHUNK && w.out.index == 1 && w.out.dropped == 0);
    EQUAL("RETRY_SAFE: its input is seen again, with what came since", w.hot[0].steer, 7);
    world_end(&w);
}

static void the_end_of_the_engine(void)
{
    static world    w;
    rte_engine_info info = {.struct_size = sizeof info};
    world_init(&w);
    world_begin(&w);
    push(&w, RTE_ATTACH, 0, 1, 0);
    push(&w, RTE_ATTACH, 0, 2, 0);
    tick(&w);
    w.returns = RTE_ERR_DEAD;
    EQUAL("DEAD from a stage ends the engine", tick(&w), RTE_ERR_DEAD);
    EQUAL("DEAD: tick", tick(&w), RTE_ERR_DEAD);
    EQUAL("DEAD: push", push(&w, RTE_ATTACH, 0, 3, 0), RTE_ERR_DEAD);
    EQUAL("DEAD: start", rte_engine_start(w.engine, NULL), RTE_ERR_DEAD);
    EQUAL("DEAD: info works", rte_engine_get_info(w.engine, &info), RTE_OK);
    EQUAL("DEAD: health says so", info.health, RTE_ERR_DEAD);
    EQUAL("DEAD: a wait finds what was delivered", rte_outbox_wait(w.engine, UINT64_MAX), RTE_OK);
    CHECK("DEAD: the notices come", next(&w) == RTE_ATTACHED && next(&w) == RTE_ATTACHED);
    CHECK("DEAD: the chunks of the ticks before come", next(&w) == RTE_CHUNK && w.out.session == 1 && next(&w) == RTE_CHUNK && w.out.session == 2);
    CHECK("DEAD: the last output says which stage and why",
          next(&w) == RTE_DEAD && w.out.status == RTE_ERR_DEAD && w.out.stage == 0 && w.out.session == 0);
    next(&w);
    EQUAL("DEAD: then there is nothing", w.popped, RTE_ERR_DEAD);
    EQUAL("DEAD: nor will be", rte_outbox_wait(w.engine, UINT64_MAX), RTE_ERR_DEAD);
    EQUAL("DEAD: stop works", rte_engine_stop(w.engine, UINT64_MAX, NULL), RTE_OK);
    world_end(&w);
    EQUAL("DEAD: the model comes back", w.destroyed, 1);
}

static void dense_batches(void)
{
    static world w;
    world_init(&w);
    w.model.flags = RTE_MODEL_DENSE;
    world_begin(&w);
    push_value(&w, RTE_ATTACH, 0, 1, 0, PROMPT, "dawn", 4);
    push_value(&w, RTE_ATTACH, 0, 2, 0, PROMPT, "dusk", 4);
    tick(&w);
    steer(&w, 1, 0, 5);
    push(&w, RTE_DETACH, 0, 1, 0);
    tick(&w);
    EQUAL("DENSE: a batch is the whole arena", w.count, ROWS);
    CHECK("DENSE: who has left is padding", w.hot[0].is_masked && w.hot[0].session == 0 && w.hot[0].user == 0 && w.hot[0].generation == 0);
    CHECK("DENSE: padding has no values", !w.hot[0].has[PROMPT] && w.hot[0].steer == 0 && w.hot[0].changed == 0);
    CHECK("DENSE: nor a place for output", !w.hot[0].has_output && !w.hot[3].has_output);
    CHECK("DENSE: who is there stands at its row", !w.hot[1].is_masked && w.hot[1].session == 2 && strcmp(w.hot[1].prompt, "dusk") == 0);
    CHECK("DENSE: with a place for output", w.hot[1].has_output);
    CHECK("DENSE: a row that never was is padding too", w.hot[2].is_masked && w.hot[2].session == 0);
    world_end(&w);
}

int main(void)
{
    one_row();
    whole_batches();
    batches_that_may_be_run_again();
    the_end_of_the_engine();
    dense_batches();
    return finish();
}
