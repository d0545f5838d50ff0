/* NULL for every parameter of every function: refused, or fine where the header says so. */
#include "kit.h"

static void making(void)
{
    kit         k;
    rte_engine *engine, *untouched;
    rte_error   error;

    kit_init(&k);
    poison(&engine, sizeof engine);
    poison(&untouched, sizeof untouched);

    EQUAL("new: no model", rte_engine_new(NULL, &k.options, &engine, &error), RTE_ERR_ARGUMENT);
    CHECK("new: no model: the message", error.status == RTE_ERR_ARGUMENT && strcmp(error.message, "model: NULL") == 0);
    CHECK("new: no model: nothing stored", engine == untouched);
    EQUAL("new: no place for the engine", rte_engine_new(&k.model, &k.options, NULL, &error), RTE_ERR_ARGUMENT);
    CHECK("new: no place for the engine: the message", error.status == RTE_ERR_ARGUMENT && strcmp(error.message, "out: NULL") == 0);
    EQUAL("new: nothing at all", rte_engine_new(NULL, NULL, NULL, NULL), RTE_ERR_ARGUMENT);
    EQUAL("nothing was taken", k.destroyed, 0);
    EQUAL("new: no options are the defaults, no rte_error is fine", rte_engine_new(&k.model, NULL, &engine, NULL), RTE_OK);
    rte_engine_free(engine);
    EQUAL("the model comes back once", k.destroyed, 1);
    rte_engine_free(NULL);
    EQUAL("free: no engine is fine", k.destroyed, 1);
    EQUAL("reference model: NULL", rte_reference_model(NULL), RTE_ERR_ARGUMENT);
    EQUAL("replica model: all NULL", rte_replica_model(NULL, 0, NULL, NULL), RTE_ERR_ARGUMENT);
}

/* What a cold call says of an engine that is NULL. */
static void check_cold(const char *name, rte_status status, rte_status without_error, const rte_error *error)
{
    CHECK(name, status == RTE_ERR_ARGUMENT && without_error == RTE_ERR_ARGUMENT && error->status == RTE_ERR_ARGUMENT
                && strcmp(error->message, "engine: NULL") == 0);
}

static void without_an_engine(void)
{
    rte_error        error;
    rte_output       output, untouched;
    rte_message      message = {.kind = RTE_ATTACH};
    rte_engine_info  info    = {.struct_size = sizeof info};
    rte_session_info session = {.struct_size = sizeof session};
    uint64_t         due     = 1;
    rte_status       status;

    poison(&output, sizeof output);
    poison(&untouched, sizeof untouched);
    poison(&error, sizeof error);
    status = rte_engine_start(NULL, &error);
    check_cold("start: no engine", status, rte_engine_start(NULL, NULL), &error);
    poison(&error, sizeof error);
    status = rte_engine_run(NULL, &error);
    check_cold("run: no engine", status, rte_engine_run(NULL, NULL), &error);
    poison(&error, sizeof error);
    status = rte_engine_stop(NULL, UINT64_MAX, &error);
    check_cold("stop: no engine", status, rte_engine_stop(NULL, 0, NULL), &error);
    poison(&error, sizeof error);
    status = rte_engine_replay(NULL, "record", &error);
    check_cold("replay: no engine", status, rte_engine_replay(NULL, NULL, NULL), &error);

    EQUAL("tick: no engine", rte_engine_tick(NULL, 0), RTE_ERR_ARGUMENT);
    EQUAL("step: no engine", rte_engine_step(NULL, &due, 1, 0), RTE_ERR_ARGUMENT);
    EQUAL("push: no engine", rte_inbox_push(NULL, &message), RTE_ERR_ARGUMENT);
    EQUAL("engine info: no engine", rte_engine_get_info(NULL, &info), RTE_ERR_ARGUMENT);
    EQUAL("session info: no engine", rte_session_get_info(NULL, 1, &session), RTE_ERR_ARGUMENT);
    CHECK("no info was written", info.max_sessions == 0 && session.state == 0);
    EQUAL("pop: no engine", rte_outbox_pop(NULL, &output), RTE_ERR_ARGUMENT);
    EQUAL("wait: no engine", rte_outbox_wait(NULL, 0), RTE_ERR_ARGUMENT);
    EQUAL("fd: no engine", rte_outbox_fd(NULL), RTE_ERR_ARGUMENT);
    EQUAL("inbox pop: no engine", rte_inbox_pop(NULL, &message), RTE_ERR_ARGUMENT);
    EQUAL("inbox wait: no engine", rte_inbox_wait(NULL, 0), RTE_ERR_ARGUMENT);
    EQUAL("outbox push: no engine", rte_outbox_push(NULL, &output), RTE_ERR_ARGUMENT);
    CHECK("no output was written", memcmp(&output, &untouched, sizeof output) == 0);
    CHECK("no message was written", message.kind == RTE_ATTACH && message.session == 0);
}

static char line[256]; /* the last of the log */

static void take_line(void *user, uint32_t level, const char *text)
{
    (void)user;
    if (level == RTE_LOG_WARN) snprintf(line, sizeof line, "%s", text);
}

#define SAYS(name, words) CHECK(name, strcmp(line, words) == 0)

static void other_parameters(rte_engine *engine)
{
    rte_message message = {.kind = RTE_ATTACH, .session = 1};
    rte_value   value   = {.key = NOTE, .size = 1};
    rte_output  output;

    EQUAL("pop: no place, and nothing there", rte_outbox_pop(engine, NULL), RTE_ERR_ARGUMENT);
    SAYS("pop: no place: the words", "rte_outbox_pop: out: NULL");
    EQUAL("push: no message", rte_inbox_push(engine, NULL), RTE_ERR_ARGUMENT);
    message.value_count = 1;
    EQUAL("push: no values, but a count", rte_inbox_push(engine, &message), RTE_ERR_ARGUMENT);
    message.values = &value;
    EQUAL("push: no bytes, but a size", rte_inbox_push(engine, &message), RTE_ERR_ARGUMENT);
    value.flags = RTE_VALUE_BORROWED;
    EQUAL("push: no borrowed bytes, but a size", rte_inbox_push(engine, &message), RTE_ERR_ARGUMENT);
    value.flags = 0;
    value.size  = 0;
    EQUAL("push: no bytes and no size is a value", rte_inbox_push(engine, &message), RTE_OK);
    EQUAL("step: no due, but a count", rte_engine_step(engine, NULL, 1, 0), RTE_ERR_ARGUMENT);
    SAYS("step: no due: the words", "rte_engine_step: due: NULL, but due_count is 1");
    EQUAL("step: nobody is due", rte_engine_step(engine, NULL, 0, 0), RTE_OK);
    EQUAL("engine info: no place", rte_engine_get_info(engine, NULL), RTE_ERR_ARGUMENT);
    EQUAL("session info: no place", rte_session_get_info(engine, 1, NULL), RTE_ERR_ARGUMENT);
    EQUAL("session info: no place, no session", rte_session_get_info(engine, 2, NULL), RTE_ERR_ARGUMENT);
    SAYS("session info: no place: the words", "rte_session_get_info: info: NULL");
    EQUAL("pop: no place", rte_outbox_pop(engine, NULL), RTE_ERR_ARGUMENT);
    CHECK("pop: no place loses nothing", rte_outbox_pop(engine, &output) == RTE_OK && output.kind == RTE_ATTACHED);
    rte_output_release(&output, NULL);
    rte_output_release(NULL, NULL);
    EQUAL("inbox pop: no place", rte_inbox_pop(engine, NULL), RTE_ERR_ARGUMENT);
    EQUAL("outbox push: no output", rte_outbox_push(engine, NULL), RTE_ERR_ARGUMENT);
    EQUAL("replay: no path", rte_engine_replay(engine, NULL, NULL), RTE_ERR_ARGUMENT);
    EQUAL("stop: no rte_error", rte_engine_stop(engine, UINT64_MAX, NULL), RTE_OK);
    EQUAL("start: no rte_error", rte_engine_start(engine, NULL), RTE_ERR_STATE);
    EQUAL("run: no rte_error", rte_engine_run(engine, NULL), RTE_ERR_STATE);
}

static void texts(void)
{
    int all = 1;
    for (rte_status status = -2000; status <= 2000; ++status) all &= rte_status_message(status) != NULL && *rte_status_message(status) != 0;
    CHECK("every number has a message", all && rte_status_message(INT32_MIN) != NULL && rte_status_message(INT32_MAX) != NULL);
    rte_log_stderr(NULL, RTE_LOG_WARN, NULL);
    rte_log_stderr(NULL, 0, "a line of no level");
    CHECK("a log line may be NULL", 1);
}

int main(void)
{
    kit         k;
    rte_engine *engine;

    making();
    without_an_engine();
    kit_init(&k);
    k.options.log = take_line;
    engine        = kit_engine(&k);
    if (engine == NULL) return 1;
    other_parameters(engine);
    rte_engine_free(engine);
    texts();
    return finish();
}
