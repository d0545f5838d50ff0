/* Options, backends and clocks that cannot be. */
#include "kit.h"

static void choices(void)
{
    REFUSED("lanes that are none", RTE_ERR_ARGUMENT, "options.lanes: 5 ", k.options.lanes = RTE_LANES_HOST + 1);
    REFUSED("a pipeline that is none", RTE_ERR_ARGUMENT, "options.pipeline: 3 ", k.options.pipeline = RTE_PIPELINE_OFF + 1);
    REFUSED("a loss policy that is none", RTE_ERR_ARGUMENT, "options.outbox_policy: 3 ", k.options.outbox_policy = RTE_HOLD + 1);
    REFUSED("an overrun that is none", RTE_ERR_ARGUMENT, "options.overrun: 2 ", k.options.overrun = RTE_CATCH_UP + 1);
    REFUSED("a log level that is none", RTE_ERR_ARGUMENT, "options.log_level: 5 ", k.options.log_level = RTE_LOG_DEBUG + 1);
    REFUSED("nine encode lanes", RTE_ERR_ARGUMENT, "options.encode_lanes: 9 ", k.options.encode_lanes = 9);
    REFUSED("a priority that is none", RTE_ERR_ARGUMENT, "options.priority: 100 ", k.options.priority = 100);
    REFUSED("an unknown flag of options", RTE_ERR_ARGUMENT, "options.flags: 0x6 has unknown bits 0x6", k.options.flags = 6);
    REFUSED("a trace that cannot be made", RTE_ERR_ARGUMENT, "options.trace_path: /nowhere/at/all: No such file", k.options.trace_path = "/nowhere/at/all");
    ACCEPTED("one encode lane", k.options.encode_lanes = 1);
    REFUSED("two encodes at once where nothing overlaps", RTE_ERR_ARGUMENT, "options.encode_lanes: 2", k.options.lanes = RTE_LANES_INLINE, k.options.encode_lanes = 2);
    REFUSED("two encodes at once on one stream", RTE_ERR_ARGUMENT, "options.encode_lanes: 2", kit_use_backend(&k), k.options.encode_lanes = 2,
            k.options.streams[RTE_ENCODE] = (rte_stream)(void *)&k);
    ACCEPTED("two encodes at once on streams of a backend", kit_use_backend(&k), k.options.encode_lanes = 2);
    ACCEPTED("a device that no CUDA lane looks at", k.options.device = -5);
}

static void amounts(void)
{
    REFUSED("an inbox of too many messages", RTE_ERR_ARGUMENT, "options.inbox_capacity: 65537 ", k.options.inbox_capacity = 65537);
    REFUSED("an inbox of too many bytes", RTE_ERR_ARGUMENT, "options.inbox_bytes: 536870913 ", k.options.inbox_bytes = (512u << 20) + 1);
    REFUSED("messages of too many bytes", RTE_ERR_ARGUMENT, "options.message_bytes: 4294967295 ", k.options.message_bytes = UINT32_MAX);
    REFUSED("an outbox too deep", RTE_ERR_ARGUMENT, "options.outbox_depth: 4097 ", k.options.outbox_depth = 4097);
    REFUSED("too many outputs to hold", RTE_ERR_ARGUMENT, "options.held_max: 4097 ", k.options.held_max = 4097);
    ACCEPTED("an inbox of one message becomes one of eight", k.options.inbox_capacity = 1);
    ACCEPTED("buffers of every row at once", k.options.flags = RTE_PREFAULT);
}

/* Nothing of this can be had; the process lives on. */
static void no_memory(void)
{
    REFUSED("values that no machine has room for", RTE_ERR_MEMORY, "no memory", k.keys[NOTE].size = (size_t)1 << 32, k.model.max_sessions = 65536);
    REFUSED("chunks that no machine has room for", RTE_ERR_MEMORY, "no memory", k.model.chunk_bytes = (size_t)1 << 32, k.model.max_sessions = 65536,
            k.options.flags = RTE_PREFAULT, k.options.outbox_depth = 4096, k.options.held_max = 4096);
}

static void backends(void)
{
    ACCEPTED("a backend that is in order", kit_use_backend(&k));
    REFUSED("host lanes without a backend", RTE_ERR_ARGUMENT, "options.backend: NULL", k.options.lanes = RTE_LANES_HOST);
    REFUSED("a backend without host lanes", RTE_ERR_ARGUMENT, "options.backend: set", k.options.backend = &k.backend);
    REFUSED("a stream without host lanes", RTE_ERR_ARGUMENT, "options.streams[1]: set", k.options.streams[1] = (rte_stream)(void *)&k);
    REFUSED("a reserved field of a backend", RTE_ERR_ARGUMENT, "options.backend.reserved: 1 ", kit_use_backend(&k), k.backend.reserved = 1);
    REFUSED("a backend without stream_new", RTE_ERR_ARGUMENT, "options.backend.stream_new: NULL", kit_use_backend(&k), k.backend.stream_new = NULL);
    REFUSED("a backend without stream_free", RTE_ERR_ARGUMENT, "options.backend.stream_free: NULL", kit_use_backend(&k), k.backend.stream_free = NULL);
    REFUSED("a backend without event_new", RTE_ERR_ARGUMENT, "options.backend.event_new: NULL", kit_use_backend(&k), k.backend.event_new = NULL);
    REFUSED("a backend without event_free", RTE_ERR_ARGUMENT, "options.backend.event_free: NULL", kit_use_backend(&k), k.backend.event_free = NULL);
    REFUSED("a backend without record", RTE_ERR_ARGUMENT, "options.backend.record: NULL", kit_use_backend(&k), k.backend.record = NULL);
    REFUSED("a backend without wait", RTE_ERR_ARGUMENT, "options.backend.wait: NULL", kit_use_backend(&k), k.backend.wait = NULL);
    REFUSED("a backend without query", RTE_ERR_ARGUMENT, "options.backend.query: NULL", kit_use_backend(&k), k.backend.query = NULL);
    REFUSED("a backend without sync", RTE_ERR_ARGUMENT, "options.backend.sync: NULL", kit_use_backend(&k), k.backend.sync = NULL);
    REFUSED("a refused backend is not destroyed", RTE_ERR_ARGUMENT, "options.backend.sync: NULL",
            kit_use_backend(&k), k.backend.destroy = kit_destroy, k.backend.sync = NULL);
    REFUSED("nor is one of a refused model", RTE_ERR_ARGUMENT, "model.max_sessions: 0 ",
            kit_use_backend(&k), k.backend.destroy = kit_destroy, k.model.max_sessions = 0);
}

static void clocks(void)
{
    ACCEPTED("a clock that is in order", k.options.clock = &k.clock);
    REFUSED("a reserved field of a clock", RTE_ERR_ARGUMENT, "options.clock.reserved: 1 ", k.options.clock = &k.clock, k.clock.reserved = 1);
    REFUSED("a clock that tells nothing", RTE_ERR_ARGUMENT, "options.clock.now: NULL", k.options.clock = &k.clock, k.clock.now = NULL);
    REFUSED("a clock that cannot wait", RTE_ERR_ARGUMENT, "options.clock.sleep_until: NULL", k.options.clock = &k.clock, k.clock.sleep_until = NULL);
}

int main(void)
{
    choices();
    amounts();
    no_memory();
    backends();
    clocks();
    return finish();
}
