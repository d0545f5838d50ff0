// A C++ exception that leaves a callback of a plain rte_model ends the process, with a message, wherever that is: nothing of
// the engine's is then in doubt. The argument says which callback throws.
#include "rte.h"
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <sys/resource.h>

namespace {

const char      *thrower = "";
std::uint64_t    queries = 0;
std::atomic<int> chunks{0};

void reach(const char *name)
{
    if (std::strcmp(name, thrower) == 0) throw std::runtime_error(name);
}

rte_status hot(void *, rte_batch *, rte_stream) { reach("hot"); return RTE_OK; }
rte_status encode(void *, rte_batch *, rte_stream) { reach("encode"); return RTE_OK; }
rte_status ready(void *, rte_batch *, rte_stream) { reach("ready"); return RTE_OK; }
rte_status seed(void *, rte_batch *, rte_stream) { reach("seed"); return RTE_OK; }
rte_status detach(void *, rte_batch *, rte_stream) { reach("detach"); return RTE_OK; }
rte_status finalize(void *, rte_batch *, rte_stream) { reach("finalize"); return RTE_OK; }
rte_status deferred(void *, rte_batch *batch, rte_stream)
{
    static char own;
    reach("deferred");
    for (std::uint32_t i = 0; i < batch->count; ++i) {
        batch->output[i]      = &own;
        batch->output_size[i] = 1;
    }
    ++chunks;
    return RTE_OK;
}
rte_status init(void *, const rte_stream *) { reach("init"); return RTE_OK; }
void       release_output(void *, void *) { reach("release_output"); }
void       destroy(void *) { reach("destroy"); }
void       release(void *) { reach("release"); }
void       log(void *, std::uint32_t, const char *) { reach("log"); }
void       on_output(void *, rte_output *output)
{
    rte_output_release(output, nullptr);
    reach("on_output");
}

std::uint64_t time_now = 0;
std::uint64_t now(void *) { reach("now"); return ++time_now; }
void          sleep_until(void *, std::uint64_t at)
{
    reach("sleep_until");
    time_now = at;
}

rte_status stream_new(void *user, std::uint32_t, rte_stream *out) { reach("stream_new"); *out = static_cast<rte_stream>(user); return RTE_OK; }
void       stream_free(void *, rte_stream) { reach("stream_free"); }
rte_status event_new(void *user, rte_event *out) { reach("event_new"); *out = static_cast<rte_event>(user); return RTE_OK; }
void       event_free(void *, rte_event) { reach("event_free"); }
rte_status record(void *, rte_event, rte_stream) { reach("record"); return RTE_OK; }
rte_status wait(void *, rte_stream, rte_event) { reach("wait"); return RTE_OK; }
rte_status query(void *, rte_event) { reach("query"); return queries++ % 3 < 2 ? RTE_AGAIN : RTE_OK; }
rte_status sync(void *, rte_event, std::uint64_t) { reach("sync"); return RTE_OK; }
void       set_wake(void *, void (*)(void *), void *) { reach("set_wake"); }
void       destroy_backend(void *) { reach("destroy_backend"); }

bool is(const char *name) { return std::strcmp(thrower, name) == 0; }

void live(std::uint32_t lanes)
{
    rte_stage stages[3] = {};
    stages[0].run = hot; stages[0].lane = RTE_HOT;
    stages[1].run = deferred; stages[1].lane = RTE_DEFERRED;
    stages[2].run = encode; stages[2].lane = RTE_ENCODE;
    rte_key keys[1] = {};
    keys[0].flags = RTE_KEY_HEAVY;

    rte_model model{};
    model.struct_size = sizeof model;
    model.flags = RTE_MODEL_OWN_OUTPUT;
    model.user = &model;
    model.max_sessions = 2;
    model.chunk_bytes = 8;
    model.rate_num = 1000; model.rate_den = 1;
    model.keys = keys; model.key_count = 1;
    model.stages = stages; model.stage_count = 3;
    model.init = init; model.ready = ready; model.seed = seed; model.detach = detach; model.finalize = finalize;
    model.release_output = release_output; model.destroy = destroy;

    rte_backend backend{};
    backend.struct_size = sizeof backend;
    backend.user = &model;
    backend.stream_new = stream_new; backend.stream_free = stream_free;
    backend.event_new = event_new; backend.event_free = event_free; backend.record = record;
    backend.wait = wait; backend.query = query; backend.sync = sync; backend.set_wake = set_wake;
    backend.destroy = destroy_backend;

    rte_clock clock{};
    clock.struct_size = sizeof clock;
    clock.now = now; clock.sleep_until = sleep_until;

    rte_engine_options options{};
    options.struct_size = sizeof options;
    options.lanes = lanes;
    if (lanes == RTE_LANES_HOST) options.backend = &backend;
    options.clock = &clock;
    options.log = log; options.log_level = RTE_LOG_DEBUG;
    if (is("on_output")) options.on_output = on_output;

    rte_engine *engine = nullptr;
    if (rte_engine_new(&model, &options, &engine, nullptr) != RTE_OK) std::puts("no engine");

    static const char text[] = "lent";
    rte_value         value{};
    value.data = text; value.size = sizeof text; value.flags = RTE_VALUE_BORROWED;
    rte_message message{};
    message.kind = RTE_ATTACH; message.session = 1;
    message.values = &value; message.value_count = 1;
    message.release = release;
    (void)rte_inbox_push(engine, &message);
    message.kind = RTE_ACTION;
    value.size -= 1;
    (void)rte_inbox_push(engine, &message);

    if (is("sleep_until")) {
        (void)rte_engine_start(engine, nullptr);
        while (rte_outbox_wait(engine, UINT64_MAX) == RTE_OK) {}
    }
    while (chunks < 4) { // on threads an encode goes first
        rte_output output;
        (void)rte_engine_tick(engine, UINT64_MAX);
        while (rte_outbox_pop(engine, &output) == RTE_OK) rte_output_release(&output, nullptr);
    }
    rte_engine_free(engine);
}

} // namespace

int main(int argc, char **argv)
{
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (argc != 3) return 1;
    thrower = argv[1];
    try {
        live(static_cast<std::uint32_t>(argv[2][0] - '0'));
    } catch (...) {
        std::puts("the exception came through");
    }
    std::puts("the process lives");
    return 0;
}
