/* Calls from inside a callback of the same engine: what would dead-lock says so, the rest works. */
#include "kit.h"

/* What one stage is to try, and what it saw. */
typedef struct inside {
    kit         kit;
    rte_engine *engine, *other;
    int         tries;
    rte_status  tick, step, start, run, stop, stop_now, wait, wait_now, push, pop, info, session, made;
    rte_error   stop_error, start_error;
    int         logged;
    char        line[256];
} inside;

static void on_log(void *user, uint32_t level, const char *text)
{
    inside *it = user;
    if (level == RTE_LOG_ERROR) {
        ++it->logged;
        snprintf(it->line, sizeof it->line, "%s", text);
    }
}

static void make(inside *it, rte_stage_fn stage)
{
    memset(it, 0, sizeof *it);
    kit_init(&it->kit);
    it->kit.model.user     = it;            /* the kit comes first */
    it->kit.stages[0].run  = stage;
    it->kit.options.log    = on_log;
    it->kit.options.log_user = it;
    it->engine = kit_engine(&it->kit);
}

static rte_status attach(rte_engine *engine)
{
    rte_message message = {.kind = RTE_ATTACH, .session = 1};
    return rte_inbox_push(engine, &message);
}

static rte_status try_everything(void *user, rte_batch *batch, rte_stream stream)
{
    inside          *it      = user;
    uint64_t         due     = 1;
    rte_message      pause   = {.kind = RTE_PAUSE, .session = 1};
    rte_output       output;
    rte_engine_info  info    = {.struct_size = sizeof info};
    rte_session_info session = {.struct_size = sizeof session};

    if (it->tries++ > 0) return kit_stage(user, batch, stream);
    it->tick     = rte_engine_tick(it->engine, 0);
    it->step     = rte_engine_step(it->engine, &due, 1, 0);
    it->start    = rte_engine_start(it->engine, &it->start_error);
    it->run      = rte_engine_run(it->engine, NULL);
    it->stop     = rte_engine_stop(it->engine, 1, &it->stop_error);
    it->wait     = rte_outbox_wait(it->engine, 1);
    it->wait_now = rte_outbox_wait(it->engine, 0);
    it->push     = rte_inbox_push(it->engine, &pause);
    it->pop      = rte_outbox_pop(it->engine, &output);
    rte_output_release(&output, NULL);
    it->info     = rte_engine_get_info(it->engine, &info);
    it->session  = rte_session_get_info(it->engine, 9, &session);
    it->made     = rte_engine_new(&it->kit.model, NULL, &it->other, NULL);
    if (it->made == RTE_OK) it->made = rte_engine_tick(it->other, 0);
    rte_engine_free(it->other);
    return kit_stage(user, batch, stream);
}

static void calls_in_a_stage(void)
{
    static inside it;

    make(&it, try_everything);
    attach(it.engine);
    EQUAL("the tick around it", rte_engine_tick(it.engine, 0), RTE_OK);
    EQUAL("tick in a stage", it.tick, RTE_ERR_DEADLOCK);
    EQUAL("step in a stage", it.step, RTE_ERR_DEADLOCK);
    EQUAL("start in a stage", it.start, RTE_ERR_DEADLOCK);
    CHECK("start in a stage says why", it.start_error.status == RTE_ERR_DEADLOCK && it.start_error.message[0] != 0);
    EQUAL("run in a stage", it.run, RTE_ERR_DEADLOCK);
    EQUAL("stop in a stage, with time", it.stop, RTE_ERR_DEADLOCK);
    CHECK("stop in a stage says why", it.stop_error.status == RTE_ERR_DEADLOCK
                                          && strncmp(it.stop_error.message, "rte_engine_stop in a callback", 29) == 0);
    EQUAL("wait in a stage, with time", it.wait, RTE_ERR_DEADLOCK);
    EQUAL("a look in a stage: ATTACHED is there", it.wait_now, RTE_OK);
    EQUAL("push in a stage", it.push, RTE_OK);
    EQUAL("pop in a stage", it.pop, RTE_OK);
    EQUAL("info in a stage", it.info, RTE_OK);
    EQUAL("info of a session in a stage", it.session, RTE_ERR_UNKNOWN);
    EQUAL("another engine in a stage", it.made, RTE_OK);
    EQUAL("and its model comes back", it.kit.destroyed, 1);
    EQUAL("none of it stopped the engine", rte_engine_tick(it.engine, 0), RTE_OK);
    EQUAL("the PAUSE that was pushed there holds", it.tries, 1);
    rte_engine_free(it.engine);
    EQUAL("nothing was logged as an error", it.logged, 0);
}

static rte_status stop_now(void *user, rte_batch *batch, rte_stream stream)
{
    inside *it = user;
    it->stop_now = rte_engine_stop(it->engine, 0, &it->stop_error);
    return kit_stage(user, batch, stream);
}

/* The engine that was asked to stop in its own callback ends as any other. */
static void ask_for_the_stop(void)
{
    static inside it;
    rte_output    output;
    rte_error     error;

    make(&it, stop_now);
    attach(it.engine);
    EQUAL("the tick in which the stop is asked for goes on", rte_engine_tick(it.engine, 0), RTE_OK);
    EQUAL("stop in a stage, without time, only asks", it.stop_now, RTE_TIMEOUT);
    EQUAL("after it pushes are refused", attach(it.engine), RTE_ERR_STATE);
    EQUAL("after it the next tick is none", rte_engine_tick(it.engine, 0), RTE_CLOSED);
    EQUAL("the stop", rte_engine_stop(it.engine, UINT64_MAX, &error), RTE_OK);
    EQUAL("ATTACHED came", rte_outbox_pop(it.engine, &output) == RTE_OK ? output.kind : 0, RTE_ATTACHED);
    EQUAL("the chunk came", rte_outbox_pop(it.engine, &output) == RTE_OK ? output.kind : 0, RTE_CHUNK);
    rte_output_release(&output, NULL);
    EQUAL("DETACHED came", rte_outbox_pop(it.engine, &output) == RTE_OK ? output.kind : 0, RTE_DETACHED);
    EQUAL("and that was all", rte_outbox_pop(it.engine, &output), RTE_CLOSED);
    rte_engine_free(it.engine);
    EQUAL("its model comes back", it.kit.destroyed, 1);

    make(&it, stop_now);
    attach(it.engine);
    EQUAL("the tick of one that is then freed", rte_engine_tick(it.engine, 0), RTE_OK);
    rte_engine_free(it.engine);
    EQUAL("free after a stop that was only asked for does all of it", it.kit.destroyed, 1);

    make(&it, stop_now);
    EQUAL("the same, started", rte_engine_start(it.engine, NULL), RTE_OK);
    attach(it.engine);
    while (rte_outbox_wait(it.engine, UINT64_MAX) == RTE_OK) drain(it.engine);
    EQUAL("a started engine ends by itself", rte_outbox_pop(it.engine, &output), RTE_CLOSED);
    rte_engine_free(it.engine);
    EQUAL("free of it gives the model back", it.kit.destroyed, 1);
}

static rte_status free_it(void *user, rte_batch *batch, rte_stream stream)
{
    inside *it = user;
    rte_engine_free(it->engine);
    return kit_stage(user, batch, stream);
}

static void free_in_a_callback(void)
{
    static inside it;

    make(&it, free_it);
    attach(it.engine);
    EQUAL("free in a stage lets the tick end", rte_engine_tick(it.engine, 0), RTE_OK);
    CHECK("free in a stage is logged as an error", it.logged == 1 && strncmp(it.line, "rte_engine_free in a callback", 29) == 0);
    EQUAL("and only asks for the stop", it.kit.destroyed, 0);
    EQUAL("which holds", rte_engine_tick(it.engine, 0), RTE_CLOSED);
    rte_engine_free(it.engine);
    EQUAL("a free outside is the real one", it.kit.destroyed, 1);
}

int main(void)
{
    calls_in_a_stage();
    ask_for_the_stop();
    free_in_a_callback();
    return finish();
}
