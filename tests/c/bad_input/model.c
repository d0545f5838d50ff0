/* Models that cannot be: each is refused with a message that names the field and its value. */
#include "kit.h"

static void shape(void)
{
    ACCEPTED("the model that the others spoil", (void)0);
    REFUSED("no rows", RTE_ERR_ARGUMENT, "model.max_sessions: 0 ", k.model.max_sessions = 0);
    REFUSED("one row more than there may be", RTE_ERR_ARGUMENT, "model.max_sessions: 65537 ", k.model.max_sessions = 65537);
    REFUSED("rows without end", RTE_ERR_ARGUMENT, "model.max_sessions: 4294967295 ", k.model.max_sessions = UINT32_MAX);
    REFUSED("chunks of no bytes", RTE_ERR_ARGUMENT, "model.chunk_bytes: 0 ", k.model.chunk_bytes = 0);
    REFUSED("chunks above 4 GiB", RTE_ERR_ARGUMENT, "model.chunk_bytes: 4294967297 ", k.model.chunk_bytes = ((size_t)1 << 32) + 1);
    REFUSED("chunks without end", RTE_ERR_ARGUMENT, "model.chunk_bytes: 18446744073709551615 ", k.model.chunk_bytes = SIZE_MAX);
    REFUSED("an unknown flag of the model", RTE_ERR_ARGUMENT, "model.flags: 0x80000001 has unknown bits 0x80000000",
            k.model.flags = 0x80000000u | RTE_MODEL_DENSE);
    REFUSED("a block of outputs that lie on a device", RTE_ERR_ARGUMENT, "model.flags: RTE_MODEL_OUTPUT_BLOCK, but",
            k.model.flags = RTE_MODEL_OUTPUT_BLOCK | RTE_MODEL_DEVICE_OUTPUT);
    ACCEPTED("a block of outputs", k.model.flags = RTE_MODEL_OUTPUT_BLOCK);
    REFUSED("a reserved field of the model", RTE_ERR_ARGUMENT, "model.reserved0: 3 ", k.model.reserved0 = 3);
}

static void rate(void)
{
    REFUSED("a rate over nothing", RTE_ERR_ARGUMENT, "model.rate_num/rate_den: 1/0 ", k.model.rate_num = 1);
    REFUSED("a rate of nothing", RTE_ERR_ARGUMENT, "model.rate_num/rate_den: 0/1 ", k.model.rate_den = 1);
    REFUSED("a rate above one a nanosecond", RTE_ERR_ARGUMENT, "model.rate_num/rate_den: 1000000001/1 ",
            k.model.rate_num = 1000000001, k.model.rate_den = 1);
    ACCEPTED("a rate of one a nanosecond", k.model.rate_num = 2000000000, k.model.rate_den = 2);
    ACCEPTED("a rate of one in decades", k.model.rate_num = 1, k.model.rate_den = UINT32_MAX);
}

static void keys(void)
{
    REFUSED("65 keys", RTE_ERR_ARGUMENT, "model.key_count: 65 ", k.model.key_count = RTE_MAX_KEYS + 1);
    ACCEPTED("64 keys", k.model.key_count = RTE_MAX_KEYS);
    REFUSED("keys without an array", RTE_ERR_ARGUMENT, "model.keys: NULL", k.model.keys = NULL);
    ACCEPTED("no keys, and no array of them", k.model.keys = NULL, k.model.key_count = 0);
    REFUSED("a key of no type", RTE_ERR_ARGUMENT, "model.keys[3].type: 5 ", k.keys[MODE].type = RTE_F64 + 1);
    REFUSED("a key of no merge rule", RTE_ERR_ARGUMENT, "model.keys[0].merge: 3 ", k.keys[STEER].merge = RTE_MERGE_OR + 1);
    REFUSED("an unknown flag of a key", RTE_ERR_ARGUMENT, "model.keys[2].flags: 0x3 has unknown bits 0x2", k.keys[PROMPT].flags |= 2);
    REFUSED("a reserved field of a key", RTE_ERR_ARGUMENT, "model.keys[4].reserved: 1 ", k.keys[NOTE].reserved = 1);
    REFUSED("half an element", RTE_ERR_ARGUMENT, "model.keys[3].size: 12 ", k.keys[MODE].size = 12);
    REFUSED("a key above 4 GiB", RTE_ERR_ARGUMENT, "model.keys[4].size: 4294967297 ", k.keys[NOTE].size = ((size_t)1 << 32) + 1);
    REFUSED("a key without end", RTE_ERR_ARGUMENT, "model.keys[4].size: 18446744073709551615 ", k.keys[NOTE].size = SIZE_MAX);
}

static void merging(void)
{
    REFUSED("a sum of bytes", RTE_ERR_ARGUMENT, "model.keys[4].merge: 1 ", k.keys[NOTE].merge = RTE_MERGE_SUM, k.keys[NOTE].size = 8);
    REFUSED("a sum of U32", RTE_ERR_ARGUMENT, "model.keys[0].merge: 1 ", k.keys[STEER].type = RTE_U32);
    REFUSED("a sum without a size", RTE_ERR_ARGUMENT, "model.keys[0].merge: 1 ", k.keys[STEER].size = 0);
    REFUSED("bits of a float", RTE_ERR_ARGUMENT, "model.keys[1].merge: 2 ", k.keys[BUTTONS].type = RTE_F32);
    REFUSED("bits without a size", RTE_ERR_ARGUMENT, "model.keys[1].merge: 2 ", k.keys[BUTTONS].size = 0);
    REFUSED("a heavy sum", RTE_ERR_ARGUMENT, "model.keys[0].merge: 1 ", k.keys[STEER].flags = RTE_KEY_HEAVY);
    REFUSED("heavy bits", RTE_ERR_ARGUMENT, "model.keys[1].merge: 2 ", k.keys[BUTTONS].flags = RTE_KEY_HEAVY);
    REFUSED("a heavy key without an ENCODE stage", RTE_ERR_ARGUMENT, "model.keys[2].flags: prompt is HEAVY", k.model.stage_count = 2);
    ACCEPTED("bits of bytes", k.keys[NOTE].merge = RTE_MERGE_OR, k.keys[NOTE].size = 3);
}

static void stages(void)
{
    REFUSED("no stages", RTE_ERR_ARGUMENT, "model.stages: none of 0 is RTE_HOT", k.model.stage_count = 0);
    REFUSED("no HOT stage", RTE_ERR_ARGUMENT, "model.stages: none of 3 is RTE_HOT", k.stages[0].lane = RTE_DEFERRED);
    REFUSED("stages without an array", RTE_ERR_ARGUMENT, "model.stages: NULL", k.model.stages = NULL);
    REFUSED("257 stages", RTE_ERR_ARGUMENT, "model.stage_count: 257 ", k.model.stage_count = 257);
    REFUSED("a stage of no lane", RTE_ERR_ARGUMENT, "model.stages[1].lane: 7 ", k.stages[1].lane = 7);
    REFUSED("a stage that does nothing", RTE_ERR_ARGUMENT, "model.stages[2].run: NULL", k.stages[2].run = NULL);
    REFUSED("a flag of a stage", RTE_ERR_ARGUMENT, "model.stages[0].flags: 1 ", k.stages[0].flags = 1);
    REFUSED("a reserved field of a stage", RTE_ERR_ARGUMENT, "model.stages[1].reserved: 9 ", k.stages[1].reserved = 9);
    ACCEPTED("stages and keys without names", k.stages[0].name = NULL, k.keys[NOTE].name = NULL, k.model.name = NULL);
}

static rte_status serve(void *user, rte_engine *engine) { (void)user; (void)engine; return RTE_OK; }
static rte_status init(void *user, const rte_stream *streams) { (void)user; (void)streams; return RTE_OK; }
static void       release_output(void *user, void *data) { (void)user; (void)data; }

/* The kit's model with a loop of its own in place of all that is the stages'. */
static void kit_serve(kit *k)
{
    k->model.serve       = serve;
    k->model.stage_count = 0;
    k->keys[0]           = k->keys[NOTE];
    k->model.key_count   = 1;
}

static void loops(void)
{
    ACCEPTED("a loop instead of stages", kit_serve(&k));
    ACCEPTED("a loop that loses nothing", kit_serve(&k), k.options.outbox_policy = RTE_HOLD);
    ACCEPTED("a loop with a rate is told of it", kit_serve(&k), k.model.rate_num = 60, k.model.rate_den = 1);
    REFUSED("a loop and stages", RTE_ERR_ARGUMENT, "model.stages: set, but the model has serve", kit_serve(&k), k.model.stage_count = 1);
    REFUSED("a loop and init", RTE_ERR_ARGUMENT, "model.init: set, ", kit_serve(&k), k.model.init = init);
    REFUSED("a loop and ready", RTE_ERR_ARGUMENT, "model.ready: set, ", kit_serve(&k), k.model.ready = kit_stage);
    REFUSED("a loop and seed", RTE_ERR_ARGUMENT, "model.seed: set, ", kit_serve(&k), k.model.seed = kit_stage);
    REFUSED("a loop and detach", RTE_ERR_ARGUMENT, "model.detach: set, ", kit_serve(&k), k.model.detach = kit_stage);
    REFUSED("a loop and finalize", RTE_ERR_ARGUMENT, "model.finalize: set, ", kit_serve(&k), k.model.finalize = kit_stage);
    REFUSED("a loop and release_output", RTE_ERR_ARGUMENT, "model.release_output: set, ", kit_serve(&k), k.model.release_output = release_output);
    REFUSED("a loop and a flag", RTE_ERR_ARGUMENT, "model.flags: 0x8, but the model has serve", kit_serve(&k), k.model.flags = RTE_MODEL_RETRY_SAFE);
    REFUSED("a loop and a heavy key", RTE_ERR_ARGUMENT, "model.keys[0]: note is HEAVY, but serve", kit_serve(&k), k.keys[0].flags = RTE_KEY_HEAVY);
    REFUSED("a loop and a merging key", RTE_ERR_ARGUMENT, "model.keys[0]: note merges, but serve",
            kit_serve(&k), k.keys[0].merge = RTE_MERGE_OR, k.keys[0].size = 4);
    REFUSED("a loop on threads lanes", RTE_ERR_ARGUMENT, "options.lanes: 2, but the model has serve", kit_serve(&k), k.options.lanes = RTE_LANES_THREADS);
    REFUSED("a loop on lanes of the host's", RTE_ERR_ARGUMENT, "options.lanes: 4, but the model has serve", kit_serve(&k), kit_use_backend(&k));
    REFUSED("a loop with a trace", RTE_ERR_ARGUMENT, "options.trace_path: set, but the model has serve", kit_serve(&k), k.options.trace_path = "trace");
    REFUSED("a loop with a pipeline", RTE_ERR_ARGUMENT, "options.pipeline: RTE_PIPELINE_ON, but the model has serve",
            kit_serve(&k), k.options.pipeline = RTE_PIPELINE_ON);
}

static void outputs(void)
{
    REFUSED("outputs of its own that nobody takes back", RTE_ERR_ARGUMENT, "model.release_output: NULL, but RTE_MODEL_OWN_OUTPUT",
            k.model.flags = RTE_MODEL_OWN_OUTPUT);
    REFUSED("a way back for outputs of ours", RTE_ERR_ARGUMENT, "model.release_output: set, but not RTE_MODEL_OWN_OUTPUT",
            k.model.release_output = release_output);
    ACCEPTED("outputs of its own", k.model.flags = RTE_MODEL_OWN_OUTPUT, k.model.release_output = release_output);
    REFUSED("outputs of ours on a device", RTE_ERR_UNAVAILABLE, "model.flags: RTE_MODEL_DEVICE_OUTPUT, but without RTE_MODEL_OWN_OUTPUT",
            k.model.flags = RTE_MODEL_DEVICE_OUTPUT, kit_use_backend(&k));
    REFUSED("outputs on a device of inline lanes", RTE_ERR_UNAVAILABLE, "model.flags: RTE_MODEL_DEVICE_OUTPUT, but the lanes have no device",
            k.model.flags = RTE_MODEL_OWN_OUTPUT | RTE_MODEL_DEVICE_OUTPUT, k.model.release_output = release_output);
    REFUSED("outputs on a device of threads", RTE_ERR_UNAVAILABLE, "model.flags: RTE_MODEL_DEVICE_OUTPUT, but the lanes have no device",
            k.model.flags = RTE_MODEL_OWN_OUTPUT | RTE_MODEL_DEVICE_OUTPUT, k.model.release_output = release_output,
            k.options.lanes = RTE_LANES_THREADS);
    ACCEPTED("outputs on a device of the host's own", k.model.flags = RTE_MODEL_OWN_OUTPUT | RTE_MODEL_DEVICE_OUTPUT,
             k.model.release_output = release_output, kit_use_backend(&k));
}

int main(void)
{
    shape();
    rate();
    keys();
    merging();
    stages();
    loops();
    outputs();
    return finish();
}
