/* In a forked child every call returns RTE_ERR_FORKED, says so, and touches nothing of the parent's. */
#define _POSIX_C_SOURCE 200809L
#include "kit.h"
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether a cold call said that this is a child. */
static int is_told(rte_status status, const rte_error *error)
{
    return status == RTE_ERR_FORKED && error->status == RTE_ERR_FORKED && memchr(error->message, 0, sizeof error->message) != NULL;
}

static void in_the_child(kit *k, rte_engine *engine, rte_output *held)
{
    rte_engine      *made, *untouched;
    rte_error        error;
    rte_model        model   = {.struct_size = sizeof model};
    rte_message      message = {.kind = RTE_ATTACH, .session = 2};
    rte_engine_info  info    = {.struct_size = sizeof info};
    rte_session_info session = {.struct_size = sizeof session};
    rte_output       output;

    poison(&made, sizeof made);
    poison(&untouched, sizeof untouched);
    poison(&error, sizeof error);
    CHECK("fork: new", is_told(rte_engine_new(&k->model, NULL, &made, &error), &error) && made == untouched);
    poison(&error, sizeof error);
    CHECK("fork: start", is_told(rte_engine_start(engine, &error), &error));
    poison(&error, sizeof error);
    CHECK("fork: run", is_told(rte_engine_run(engine, &error), &error));
    poison(&error, sizeof error);
    CHECK("fork: stop", is_told(rte_engine_stop(engine, UINT64_MAX, &error), &error));
    poison(&error, sizeof error);
    CHECK("fork: replay", is_told(rte_engine_replay(engine, "record", &error), &error));
    EQUAL("fork: new without an rte_error", rte_engine_new(&k->model, NULL, &made, NULL), RTE_ERR_FORKED);
    EQUAL("fork: tick", rte_engine_tick(engine, 0), RTE_ERR_FORKED);
    EQUAL("fork: step", rte_engine_step(engine, NULL, 0, 0), RTE_ERR_FORKED);
    EQUAL("fork: push", rte_inbox_push(engine, &message), RTE_ERR_FORKED);
    EQUAL("fork: engine info", rte_engine_get_info(engine, &info), RTE_ERR_FORKED);
    EQUAL("fork: session info", rte_session_get_info(engine, 1, &session), RTE_ERR_FORKED);
    EQUAL("fork: pop", rte_outbox_pop(engine, &output), RTE_ERR_FORKED);
    EQUAL("fork: wait", rte_outbox_wait(engine, UINT64_MAX), RTE_ERR_FORKED);
    EQUAL("fork: fd", rte_outbox_fd(engine), RTE_ERR_FORKED);
    EQUAL("fork: inbox pop", rte_inbox_pop(engine, &message), RTE_ERR_FORKED);
    EQUAL("fork: inbox wait", rte_inbox_wait(engine, 0), RTE_ERR_FORKED);
    EQUAL("fork: outbox push", rte_outbox_push(engine, &output), RTE_ERR_FORKED);
    EQUAL("fork: reference model", rte_reference_model(&model), RTE_ERR_FORKED);
    EQUAL("fork: replica model", rte_replica_model(&model, 1, NULL, NULL), RTE_ERR_FORKED);
    rte_output_release(held, NULL);
    rte_engine_free(engine);
    EQUAL("fork: release and free return, and the model is left alone", k->destroyed, 0);
    CHECK("fork: what needs no state still works", rte_abi_version() == RTE_ABI_VERSION && rte_status_message(0) != NULL);
}

int main(void)
{
    kit         k;
    rte_engine *engine;
    rte_message attach = {.kind = RTE_ATTACH, .session = 1};
    rte_output  held   = {0};
    int         status = -1;
    pid_t       child;

    kit_init(&k);
    engine = kit_engine(&k);
    if (engine == NULL || rte_engine_start(engine, NULL) != RTE_OK) return 1;
    rte_inbox_push(engine, &attach);
    while (held.kind != RTE_CHUNK && rte_outbox_wait(engine, UINT64_MAX) == RTE_OK) {
        rte_output_release(&held, NULL);
        rte_outbox_pop(engine, &held);
    }

    fflush(stdout);
    child = fork();
    if (child == 0) {
        checks = 0;
        in_the_child(&k, engine, &held);
        fflush(stdout);
        _exit(failures == 0 ? checks : 255);
    }
    CHECK("the child ended by itself", child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (CHECK("all was well in it", WEXITSTATUS(status) != 255)) checks += WEXITSTATUS(status);
    attach.session = 3;
    EQUAL("the parent goes on: push", rte_inbox_push(engine, &attach), RTE_OK);
    EQUAL("the parent goes on: wait", rte_outbox_wait(engine, UINT64_MAX), RTE_OK);
    EQUAL("the parent's chunk is still there", *(const unsigned char *)held.data, 1);
    rte_output_release(&held, NULL);
    rte_engine_free(engine);
    EQUAL("the parent's model comes back", k.destroyed, 1);
    return finish();
}
