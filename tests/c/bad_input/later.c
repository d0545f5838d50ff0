/* What is declared and not there yet answers RTE_ERR_UNAVAILABLE, with a message where there is an rte_error. */
#include "kit.h"

static void release(void *user) { ++*(int *)user; }

static void engines(void)
{
    REFUSED("outputs on a device", RTE_ERR_UNAVAILABLE, "model.flags: RTE_MODEL_DEVICE_OUTPUT, but the lanes have no device", k.model.flags = RTE_MODEL_DEVICE_OUTPUT);
}

static void messages(rte_engine *engine)
{
    int         released = 0;
    rte_value   value    = {.key = PROMPT, .data = "a castle", .size = 8, .revision = 1, .flags = RTE_VALUE_DEVICE};
    rte_message message  = {.kind = RTE_ATTACH, .session = 1, .values = &value, .value_count = 1,
                            .release = release, .release_user = &released};

    EQUAL("a value on a device", rte_inbox_push(engine, &message), RTE_ERR_UNAVAILABLE);
    value.flags |= RTE_VALUE_BORROWED;
    EQUAL("a borrowed value on a device", rte_inbox_push(engine, &message), RTE_ERR_UNAVAILABLE);
    value.flags   = 0;
    message.ready = (rte_event)(void *)&released;
    EQUAL("a message that waits for an event", rte_inbox_push(engine, &message), RTE_ERR_UNAVAILABLE);
    EQUAL("a refused message is not released", released, 0);
    EQUAL("after all that the engine ticks", rte_engine_tick(engine, 0), RTE_OK);
    EQUAL("and has nothing to say", drain(engine), 0);
}

int main(void)
{
    kit         k;
    rte_engine *engine;

    engines();
    kit_init(&k);
    engine = kit_engine(&k);
    if (engine == NULL) return 1;
    messages(engine);
    rte_engine_free(engine);
    return finish();
}
