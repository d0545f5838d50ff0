/* The likeliest mistakes of the first day. Each prints a row of the table in README.md: the mistake, what comes back of
 * which call, and the words that the library has for it: of an rte_error, or of the log at DEBUG. */
#include "rte.h"
#include <stdio.h>
#include <string.h>

enum { STEER, PROMPT, KEYS };

static char        line[512]; /* the newest of the log */
static rte_engine *engine;
static int         leaves_size, ticks_inside;
static rte_status  inside;

static void take_line(void *user, uint32_t level, const char *text)
{
    (void)user;
    if (level == RTE_LOG_INFO) return; /* that the engine begins and ends: on its own thread */
    snprintf(line, sizeof line, "%s", text);
}

static rte_status generate(void *user, rte_batch *batch, rte_stream stream)
{
    (void)user, (void)stream;
    if (ticks_inside) inside = rte_engine_tick(engine, 0);
    for (uint32_t i = 0; i < batch->count && !leaves_size; ++i) {
        memset(batch->output[i], 1, 8);
        batch->output_size[i] = 8;
    }
    return RTE_OK;
}

static const rte_key   keys[KEYS] = {[STEER] = {.name = "steer", .type = RTE_F32, .size = 8}, [PROMPT] = {.name = "prompt"}};
static const rte_stage stage      = {.name = "generate", .lane = RTE_HOT, .run = generate};

static rte_model a_model(void)
{
    const rte_model model = {.struct_size = sizeof model, .max_sessions = 4, .chunk_bytes = 8, .rate_num = 60, .rate_den = 1,
                             .keys = keys, .key_count = KEYS, .stages = &stage, .stage_count = 1};
    return model;
}

static const char *name_of(rte_status status)
{
    switch (status) {
    case RTE_OK: return "RTE_OK";
    case RTE_ERR_ARGUMENT: return "RTE_ERR_ARGUMENT";
    case RTE_ERR_VERSION: return "RTE_ERR_VERSION";
    case RTE_ERR_STATE: return "RTE_ERR_STATE";
    case RTE_ERR_DEADLOCK: return "RTE_ERR_DEADLOCK";
    case RTE_ERR_UNKNOWN: return "RTE_ERR_UNKNOWN";
    case RTE_ERR_STALE: return "RTE_ERR_STALE";
    default: return "another";
    }
}

static void row(const char *mistake, const char *call, rte_status status, const char *words)
{
    printf("| %s | %s: `%s` | `%s` |\n", mistake, call, name_of(status), words);
}

/* What rte_engine_new says to it. */
static void no_engine(const char *mistake, const rte_model *model)
{
    rte_error  error  = {0};
    rte_status status = rte_engine_new(model, NULL, &engine, &error);
    row(mistake, "`rte_engine_new`", status, error.message);
}

static void begin(void)
{
    const rte_model          model   = a_model();
    const rte_engine_options options = {.struct_size = sizeof options, .lanes = RTE_LANES_INLINE, .log = take_line, .log_level = RTE_LOG_DEBUG};
    if (rte_engine_new(&model, &options, &engine, NULL) != RTE_OK) printf("no engine\n");
    leaves_size = ticks_inside = 0;
    line[0] = 0;
}

static rte_status push(uint32_t kind, uint64_t generation, const rte_value *value)
{
    const rte_message message = {.kind = kind, .session = 700, .generation = generation, .values = value, .value_count = value != NULL};
    return rte_inbox_push(engine, &message);
}

/* What a push of it says. */
static void no_push(const char *mistake, const rte_message *message)
{
    rte_status status = rte_inbox_push(engine, message);
    row(mistake, "`rte_inbox_push`", status, line);
}

/* The notice that it brings. */
static void notice(const char *mistake, uint32_t kind)
{
    rte_output output;
    rte_status status = RTE_OK;
    rte_engine_tick(engine, 0);
    for (; rte_outbox_pop(engine, &output) == RTE_OK; rte_output_release(&output, NULL))
        if (output.kind == kind) status = output.status;
    row(mistake, "`RTE_REJECTED`", status, line);
}

int main(void)
{
    rte_model   model = a_model();
    rte_key     heavy = {.name = "prompt", .flags = RTE_KEY_HEAVY};
    float       number = 1;
    rte_value   value  = {.key = STEER, .data = &number, .size = sizeof number};
    rte_message message;
    rte_output  kept[64];
    int         count = 0;
    rte_status  status;

    model.struct_size = 0;
    no_engine("`struct_size` is not set", &model);
    model = a_model(), model.rate_den = 0;
    no_engine("`rate_num` without `rate_den`", &model);
    model = a_model(), model.keys = &heavy, model.key_count = 1;
    no_engine("a HEAVY key, and no ENCODE stage", &model);

    begin();
    status = push(RTE_ATTACH, 0, NULL);
    row("nobody drives the engine", "`rte_inbox_push`", status, line);
    rte_engine_free(engine);

    begin();
    rte_engine_tick(engine, 0);
    push(RTE_ACTION, 0, NULL);
    notice("an ACTION before its ATTACH", RTE_REJECTED);
    push(RTE_ATTACH, 0, NULL);
    rte_engine_tick(engine, 0);
    rte_engine_free(engine);

    begin();
    push(RTE_ATTACH, 0, NULL);
    rte_engine_tick(engine, 0);
    push(RTE_ACTION, 700, NULL);
    notice("the session's id where its generation belongs", RTE_REJECTED);

    memset(&message, 0xa5, sizeof message); /* as a variable of main is that was not initialised */
    message.kind = RTE_ACTION, message.session = 700, message.generation = 0, message.values = NULL, message.value_count = 0;
    message.flags = 0;
    no_push("a message that was not zeroed", &message);
    memset(&message, 0, sizeof message);
    message.kind = RTE_ACTION, message.session = 700, message.values = &value, message.value_count = 1;
    no_push("a value of another size than its key's", &message);
    value.key = 7;
    no_push("a key that the model does not declare", &message);
    leaves_size = 1;
    status = rte_engine_tick(engine, 0);
    row("a stage never sets `output_size`", "`rte_engine_tick`", status, line);
    ticks_inside = 1;
    rte_engine_tick(engine, 0);
    row("`rte_engine_tick` in a stage", "`rte_engine_tick`", inside, line);
    rte_engine_free(engine);

    begin();
    rte_engine_tick(engine, 0);
    push(RTE_ATTACH, 0, NULL);
    for (int ticks = 0; ticks < 20; ++ticks) {
        rte_engine_tick(engine, 0);
        while (count < 64 && rte_outbox_pop(engine, &kept[count]) == RTE_OK) ++count;
        status = RTE_OK;
    }
    row("outputs are popped, and never released", "`rte_outbox_pop`", status, line);
    rte_engine_free(engine);
    while (count > 0) rte_output_release(&kept[--count], NULL);

    begin();
    rte_engine_start(engine, NULL);
    status = rte_engine_tick(engine, 0);
    row("`rte_engine_tick` after `rte_engine_start`", "`rte_engine_tick`", status, line);
    rte_engine_free(engine);
    return 0;
}
