// An engine of 06_cuda and short words to drive it with; and checks.
#ifndef CUDA_SESSION_H
#define CUDA_SESSION_H

#include "06_cuda_model.h"
#include <cstdio>
#include <cstdlib>

static unsigned failures;

[[noreturn]] inline void fatal(const char *what)
{
    std::printf("FAILED: %s\n", what);
    std::fflush(stdout);
    std::_Exit(1); // what is under way on the device may still use our memory
}

inline void expect(bool holds, const char *what)
{
    if (!holds && ++failures <= 20) std::printf("FAILED: %s\n", what);
}

inline rte_engine_options default_options()
{
    rte_engine_options options = rte_engine_options();
    options.struct_size  = sizeof options;
    options.lanes        = RTE_LANES_CUDA; // not AUTO: without a GPU this is refused, and says why
    options.outbox_depth = 16;
    options.log          = rte_log_stderr;
    return options;
}

class Engine {
public:
    Engine(const rte_model &model, const rte_engine_options &options)
    {
        rte_error error;
        if (rte_engine_new(&model, &options, &engine_, &error) != RTE_OK) fatal(error.message);
    }
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;
    ~Engine() { rte_engine_free(engine_); }

    void start()
    {
        rte_error error;
        if (rte_engine_start(engine_, &error) != RTE_OK) fatal(error.message);
    }
    void tick()
    {
        if (rte_engine_tick(engine_, UINT64_MAX) != RTE_OK) fatal("a tick");
    }
    void stop()
    {
        rte_error error;
        if (rte_engine_stop(engine_, UINT64_MAX, &error) != RTE_OK) fatal(error.message);
    }

    bool pop(rte_output &output) { return rte_outbox_pop(engine_, &output) == RTE_OK; }
    void wait(uint64_t timeout_ns) { (void)rte_outbox_wait(engine_, timeout_ns); }

    void attach(uint64_t session, const char *prompt) { push(RTE_ATTACH, 0, session, 0, nullptr, prompt); }
    void detach(uint64_t session) { push(RTE_DETACH, RTE_DRAIN, session, 0, nullptr, nullptr); }
    void act(uint64_t session, uint64_t tag, const float *steers, const char *prompt)
    {
        push(RTE_ACTION, steers ? 0 : RTE_PARTIAL, session, tag, steers, prompt);
    }

    // Chunks that a session has made.
    uint64_t age_of(uint64_t session) const { return about(session).age; }
    rte_session_info about(uint64_t session) const
    {
        rte_session_info info = rte_session_info();
        info.struct_size      = sizeof info;
        if (rte_session_get_info(engine_, session, &info) != RTE_OK) info.age = 0;
        return info;
    }
    rte_engine_info info() const
    {
        rte_engine_info info = rte_engine_info();
        info.struct_size     = sizeof info;
        if (rte_engine_get_info(engine_, &info) != RTE_OK) fatal("info");
        return info;
    }

private:
    void push(uint32_t kind, uint32_t flags, uint64_t session, uint64_t tag, const float *steers, const char *prompt)
    {
        rte_value   values[KEYS] = {rte_value(), rte_value()};
        rte_message message      = rte_message();
        message.kind = kind; message.flags = flags; message.session = session; message.tag = tag;
        message.values = values;
        if (steers) {
            values[0].key = STEER; values[0].data = steers; values[0].size = STEERS * sizeof *steers;
            ++message.value_count;
        }
        if (prompt) {
            rte_value &value = values[message.value_count++];
            value.key = PROMPT; value.data = prompt; value.size = std::strlen(prompt);
        }
        if (rte_inbox_push(engine_, &message) != RTE_OK) fatal("a push");
    }

    rte_engine *engine_ = nullptr;
};

// Whether there are lanes on a GPU here; if not, why.
inline bool has_gpu(char *why, size_t size)
{
    Model                    model(Work{0, 0, {1, 1}});
    const rte_model          table   = model.table(0, 0);
    const rte_engine_options options = default_options();
    rte_engine              *engine;
    rte_error                error;
    const rte_status         status = rte_engine_new(&table, &options, &engine, &error);
    if (status == RTE_OK) rte_engine_free(engine);
    else if (status == RTE_ERR_UNAVAILABLE) std::snprintf(why, size, "%s", error.message);
    else fatal(error.message);
    return status == RTE_OK;
}

#endif
