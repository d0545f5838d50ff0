/* Calls in the wrong state: after a stop, twice, in two ways, on what was given back. */
#include "kit.h"

static rte_status push(rte_engine *engine, uint32_t kind)
{
    rte_message message = {.kind = kind, .session = 1};
    return rte_inbox_push(engine, &message);
}

/* Whether a cold call said `expected` and why. */
static int says(const rte_error *error, rte_status status, rte_status expected, const char *words)
{
    return status == expected && error->status == expected && strncmp(error->message, words, strlen(words)) == 0;
}

static void stopped_before_it_was_driven(void)
{
    kit         k;
    rte_error   error;
    rte_output  output, untouched;
    rte_engine *engine;
    rte_status  status;

    kit_init(&k);
    engine = kit_engine(&k);
    poison(&output, sizeof output);
    poison(&untouched, sizeof untouched);
    EQUAL("never driven: pop", rte_outbox_pop(engine, &output), RTE_AGAIN);
    EQUAL("never driven: wait", rte_outbox_wait(engine, 1), RTE_TIMEOUT);
    EQUAL("never driven: an ATTACH gets in", push(engine, RTE_ATTACH), RTE_OK);
    EQUAL("never driven: stop", rte_engine_stop(engine, UINT64_MAX, &error), RTE_OK);
    EQUAL("stop twice", rte_engine_stop(engine, UINT64_MAX, &error), RTE_OK);
    EQUAL("stopped: push", push(engine, RTE_ACTION), RTE_ERR_STATE);
    EQUAL("stopped: an ATTACH", push(engine, RTE_ATTACH), RTE_ERR_STATE);
    EQUAL("stopped: a bad message is still bad", push(engine, 99), RTE_ERR_ARGUMENT);
    EQUAL("stopped: tick", rte_engine_tick(engine, 0), RTE_CLOSED);
    status = rte_engine_start(engine, &error);
    CHECK("stopped: start", says(&error, status, RTE_ERR_STATE, "the engine was stopped"));
    status = rte_engine_run(engine, &error);
    CHECK("stopped: run", says(&error, status, RTE_ERR_STATE, "the engine was stopped"));
    EQUAL("stopped: wait finds the answer to the ATTACH", rte_outbox_wait(engine, UINT64_MAX), RTE_OK);
    EQUAL("stopped: pop gives it", rte_outbox_pop(engine, &output), RTE_OK);
    CHECK("it is REJECTED with CLOSED", output.kind == RTE_REJECTED && output.status == RTE_CLOSED && output.session == 1);
    rte_output_release(&output, NULL);
    poison(&output, sizeof output);
    EQUAL("stopped and empty: pop", rte_outbox_pop(engine, &output), RTE_CLOSED);
    CHECK("nothing is written by a pop of nothing", memcmp(&output, &untouched, sizeof output) == 0);
    EQUAL("stopped and empty: wait", rte_outbox_wait(engine, UINT64_MAX), RTE_CLOSED);
    rte_engine_free(engine);
}

static void driven_in_two_ways(void)
{
    kit         k;
    rte_error   error;
    rte_engine *engine;
    rte_status  status;
    uint64_t    due = 1;

    kit_init(&k);
    engine = kit_engine(&k);
    poison(&error, sizeof error);
    EQUAL("start", rte_engine_start(engine, &error), RTE_OK);
    CHECK("no error, no message", is_poison(&error, sizeof error));
    status = rte_engine_start(engine, &error);
    CHECK("start twice", says(&error, status, RTE_ERR_STATE, "the engine is driven already"));
    status = rte_engine_run(engine, &error);
    CHECK("run after start", says(&error, status, RTE_ERR_STATE, "the engine is driven already"));
    EQUAL("tick after start", rte_engine_tick(engine, 0), RTE_ERR_STATE);
    EQUAL("step after start", rte_engine_step(engine, &due, 1, 0), RTE_ERR_STATE);
    EQUAL("the engine lives on", push(engine, RTE_ATTACH), RTE_OK);
    EQUAL("and answers", rte_outbox_wait(engine, UINT64_MAX), RTE_OK);
    EQUAL("stop of a started engine", rte_engine_stop(engine, UINT64_MAX, &error), RTE_OK);
    EQUAL("tick after start and stop", rte_engine_tick(engine, 0), RTE_ERR_STATE);
    rte_engine_free(engine);
    EQUAL("a started model comes back once", k.destroyed, 1);

    kit_init(&k);
    engine = kit_engine(&k);
    EQUAL("tick", rte_engine_tick(engine, 0), RTE_OK);
    status = rte_engine_start(engine, &error);
    CHECK("start after tick", says(&error, status, RTE_ERR_STATE, "the engine is driven already"));
    status = rte_engine_run(engine, &error);
    CHECK("run after tick", says(&error, status, RTE_ERR_STATE, "the engine is driven already"));
    EQUAL("step after tick is the same way", rte_engine_step(engine, &due, 1, 0), RTE_OK);
    rte_engine_free(engine);
    EQUAL("free stops a ticked engine", k.destroyed, 1);
}

static rte_status init_refuses(void *user, const rte_stream *streams) { (void)user; (void)streams; return RTE_ERR_HOST - 7; }

/* An init that fails: the status is the model's own, in whichever way the engine is driven, and the engine is dead. */
static void init_that_fails(void)
{
    kit             k;
    rte_error       error;
    rte_engine     *engine;
    rte_status      status;
    rte_engine_info info = {.struct_size = sizeof info};

    kit_init(&k);
    k.model.init = init_refuses;
    engine = kit_engine(&k);
    status = rte_engine_start(engine, &error);
    CHECK("start: init failed", says(&error, status, RTE_ERR_HOST - 7, "model.init"));
    EQUAL("start: init failed: push", push(engine, RTE_ATTACH), RTE_ERR_DEAD);
    EQUAL("start: init failed: start again", rte_engine_start(engine, &error), RTE_ERR_DEAD);
    rte_engine_get_info(engine, &info);
    EQUAL("start: init failed: health", info.health, RTE_ERR_HOST - 7);
    EQUAL("start: init failed: stop", rte_engine_stop(engine, UINT64_MAX, &error), RTE_OK);
    rte_engine_free(engine);
    EQUAL("start: init failed: the model comes back", k.destroyed, 1);

    kit_init(&k);
    k.model.init = init_refuses;
    engine = kit_engine(&k);
    EQUAL("tick: init failed", rte_engine_tick(engine, 0), RTE_ERR_HOST - 7);
    EQUAL("tick: init failed: tick again", rte_engine_tick(engine, 0), RTE_ERR_DEAD);
    rte_engine_free(engine);
    EQUAL("tick: init failed: the model comes back", k.destroyed, 1);
}

static void outputs_given_back(void)
{
    kit         k;
    rte_engine *engine;
    rte_output  output, copy, zero = {0};
    int         first;

    kit_init(&k);
    engine = kit_engine(&k);
    push(engine, RTE_ATTACH);
    rte_engine_tick(engine, 0);
    rte_outbox_pop(engine, &output);
    EQUAL("a notice has nothing of ours", output.kind, RTE_ATTACHED);
    rte_output_release(&output, NULL);
    CHECK("a released notice is zero", memcmp(&output, &zero, sizeof output) == 0);

    rte_outbox_pop(engine, &output);
    EQUAL("a chunk", output.kind, RTE_CHUNK);
    rte_output_release(&output, NULL);
    CHECK("a released chunk is zero", memcmp(&output, &zero, sizeof output) == 0);
    rte_output_release(&output, NULL);
    CHECK("release twice", memcmp(&output, &zero, sizeof output) == 0);

    rte_engine_tick(engine, 0);
    rte_outbox_pop(engine, &output);
    copy = output;
    rte_engine_free(engine);
    EQUAL("free does not wait for a consumer, and not for the model", output.kind, RTE_CHUNK);
    first = ((const unsigned char *)copy.data)[0];
    EQUAL("a chunk can be read after free", first, 1);
    rte_output_release(&output, NULL);
    CHECK("release after free", memcmp(&output, &zero, sizeof output) == 0);
    EQUAL("the model comes back at free", k.destroyed, 1);
}

int main(void)
{
    stopped_before_it_was_driven();
    driven_in_two_ways();
    init_that_fails();
    outputs_given_back();
    return finish();
}
