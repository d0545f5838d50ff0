/* struct_size of every descriptor: too small is refused; larger is fine as long as the tail that is not known is zero. */
#include "kit.h"

/* A struct of a newer header: two words more. */
#define NEWER(type) struct { type known; uint64_t tail[2]; }

static void models(void)
{
    NEWER(rte_model) newer = {0};

    REFUSED("a model of no size", RTE_ERR_VERSION, "model.struct_size: 0,", k.model.struct_size = 0);
    REFUSED("a model too small", RTE_ERR_VERSION, "model.struct_size: 136,", k.model.struct_size = sizeof(rte_model) - 8);
    REFUSED("a model without end", RTE_ERR_VERSION, "model.struct_size: 4294967295,", k.model.struct_size = UINT32_MAX);

    kit        k;
    rte_error  error  = {0};
    rte_engine *engine = NULL;
    kit_init(&k);
    newer.known = k.model;
    newer.known.struct_size = sizeof newer;
    EQUAL("a newer model", rte_engine_new(&newer.known, NULL, &engine, &error), RTE_OK);
    rte_engine_free(engine);
    newer.tail[1] = 1;
    EQUAL("a newer model that asks for more", rte_engine_new(&newer.known, NULL, &engine, &error), RTE_ERR_VERSION);
    CHECK("the message names the byte", strcmp(error.message, "model: byte 152 is set, and this library knows 144 bytes") == 0);
}

static void options(void)
{
    NEWER(rte_engine_options) newer = {0};

    REFUSED("options of no size", RTE_ERR_VERSION, "options.struct_size: 0,", k.options.struct_size = 0);
    REFUSED("options too small", RTE_ERR_VERSION, "options.struct_size: 8,", k.options.struct_size = 8);

    kit         k;
    rte_error   error  = {0};
    rte_engine *engine = NULL;
    kit_init(&k);
    newer.known.struct_size = sizeof newer;
    EQUAL("newer options", rte_engine_new(&k.model, &newer.known, &engine, &error), RTE_OK);
    rte_engine_free(engine);
    newer.tail[0] = UINT64_C(1) << 63;
    EQUAL("newer options that ask for more", rte_engine_new(&k.model, &newer.known, &engine, &error), RTE_ERR_VERSION);
    CHECK("options: the message", strncmp(error.message, "options: byte ", 14) == 0);
}

static void backends(void)
{
    NEWER(rte_backend) newer = {0};

    REFUSED("a backend of no size", RTE_ERR_VERSION, "options.backend.struct_size: 0,", kit_use_backend(&k), k.backend.struct_size = 0);
    REFUSED("a backend too small", RTE_ERR_VERSION, "options.backend.struct_size: 88,", kit_use_backend(&k), k.backend.struct_size = 88);

    kit        k;
    rte_error  error  = {0};
    rte_engine *engine = NULL;
    kit_init(&k);
    newer.known = k.backend;
    newer.known.struct_size = sizeof newer;
    kit_use_backend(&k);
    k.options.backend = &newer.known;
    EQUAL("a newer backend", rte_engine_new(&k.model, &k.options, &engine, &error), RTE_OK);
    rte_engine_free(engine);
    newer.tail[0] = 1;
    EQUAL("a newer backend that asks for more", rte_engine_new(&k.model, &k.options, &engine, &error), RTE_ERR_VERSION);
    CHECK("backend: the message", strncmp(error.message, "options.backend: byte ", 22) == 0);
}

static void clocks(void)
{
    NEWER(rte_clock) newer = {0};

    REFUSED("a clock of no size", RTE_ERR_VERSION, "options.clock.struct_size: 0,", k.options.clock = &k.clock, k.clock.struct_size = 0);
    REFUSED("a clock too small", RTE_ERR_VERSION, "options.clock.struct_size: 24,", k.options.clock = &k.clock, k.clock.struct_size = 24);

    kit        k;
    rte_error  error  = {0};
    rte_engine *engine = NULL;
    kit_init(&k);
    newer.known = k.clock;
    newer.known.struct_size = sizeof newer;
    k.options.clock = &newer.known;
    EQUAL("a newer clock", rte_engine_new(&k.model, &k.options, &engine, &error), RTE_OK);
    rte_engine_free(engine);
    newer.tail[1] = 1;
    EQUAL("a newer clock that asks for more", rte_engine_new(&k.model, &k.options, &engine, &error), RTE_ERR_VERSION);
    CHECK("clock: the message", strncmp(error.message, "options.clock: byte ", 20) == 0);
}

static void engine_info(rte_engine *engine)
{
    NEWER(rte_engine_info) info, untouched;

    poison(&info, sizeof info);
    poison(&untouched, sizeof untouched);
    info.known.struct_size = untouched.known.struct_size = sizeof info.known - 8;
    EQUAL("an engine info too small", rte_engine_get_info(engine, &info.known), RTE_ERR_VERSION);
    info.known.struct_size = untouched.known.struct_size = 0;
    EQUAL("an engine info of no size", rte_engine_get_info(engine, &info.known), RTE_ERR_VERSION);
    info.known.struct_size = untouched.known.struct_size = UINT32_MAX;
    EQUAL("an engine info without end", rte_engine_get_info(engine, &info.known), RTE_ERR_VERSION);
    CHECK("a refused engine info is not written", memcmp(&info, &untouched, sizeof info) == 0);
    info.known.struct_size = sizeof info.known;
    EQUAL("an engine info of this size", rte_engine_get_info(engine, &info.known), RTE_OK);
    CHECK("nothing behind it is written", is_poison(info.tail, sizeof info.tail));
    info.known.struct_size = sizeof info;
    EQUAL("a newer engine info", rte_engine_get_info(engine, &info.known), RTE_OK);
    CHECK("what is not known becomes zero", info.tail[0] == 0 && info.tail[1] == 0);
    CHECK("what is known is there", info.known.struct_size == sizeof info && info.known.max_sessions == 4);
}

static void session_info(rte_engine *engine)
{
    NEWER(rte_session_info) info, untouched;

    poison(&info, sizeof info);
    poison(&untouched, sizeof untouched);
    info.known.struct_size = untouched.known.struct_size = sizeof info.known - 8;
    EQUAL("a session info too small", rte_session_get_info(engine, 1, &info.known), RTE_ERR_VERSION);
    info.known.struct_size = untouched.known.struct_size = 0;
    EQUAL("a session info of no size", rte_session_get_info(engine, 1, &info.known), RTE_ERR_VERSION);
    EQUAL("a session info of no size, and no such session", rte_session_get_info(engine, 2, &info.known), RTE_ERR_VERSION);
    info.known.struct_size = untouched.known.struct_size = sizeof info.known;
    EQUAL("no such session", rte_session_get_info(engine, 2, &info.known), RTE_ERR_UNKNOWN);
    CHECK("a refused session info is not written", memcmp(&info, &untouched, sizeof info) == 0);
    EQUAL("a session info of this size", rte_session_get_info(engine, 1, &info.known), RTE_OK);
    CHECK("nothing behind that is written", is_poison(info.tail, sizeof info.tail));
    info.known.struct_size = sizeof info;
    EQUAL("a newer session info", rte_session_get_info(engine, 1, &info.known), RTE_OK);
    CHECK("what is not known of a session becomes zero", info.tail[0] == 0 && info.tail[1] == 0 && info.known.reserved0 == 0);
    CHECK("what is known of a session is there", info.known.struct_size == sizeof info && info.known.state == RTE_READY);
}

static void reference_model(void)
{
    NEWER(rte_model) model, untouched;

    poison(&model, sizeof model);
    poison(&untouched, sizeof untouched);
    model.known.struct_size = untouched.known.struct_size = sizeof model.known - 8;
    EQUAL("a reference model too small", rte_reference_model(&model.known), RTE_ERR_VERSION);
    model.known.struct_size = untouched.known.struct_size = UINT32_MAX;
    EQUAL("a reference model without end", rte_reference_model(&model.known), RTE_ERR_VERSION);
    CHECK("a refused reference model is not written", memcmp(&model, &untouched, sizeof model) == 0);
    model.known.struct_size = sizeof model;
    EQUAL("a newer reference model", rte_reference_model(&model.known), RTE_OK);
    CHECK("it is filled, with zero behind", model.known.max_sessions == 8 && model.tail[0] == 0 && model.tail[1] == 0
                                                && model.known.struct_size == sizeof model);
    model.known.destroy(model.known.user);
}

int main(void)
{
    kit         k;
    rte_engine *engine;
    rte_message attach = {.kind = RTE_ATTACH, .session = 1};

    models();
    options();
    backends();
    clocks();
    reference_model();
    kit_init(&k);
    engine = kit_engine(&k);
    if (engine == NULL) return 1;
    rte_inbox_push(engine, &attach);
    rte_engine_tick(engine, 0);
    engine_info(engine);
    session_info(engine);
    rte_engine_free(engine);
    return finish();
}
