// What the lanes of 06_cuda cost together and apart, and what others notice of an encode.
#ifndef CUDA_TIMES_H
#define CUDA_TIMES_H

#include "06_cuda_session.h"
#include <algorithm>
#include <chrono>

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point begin)
{
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// A tick of all sessions with so much work, in milliseconds: the mean of some hundred.
inline double tick_ms(Work work)
{
    const uint32_t warm = 40, ticks = 200;
    Model          model(work);
    Engine         engine(model.table(0, 0), default_options());
    for (uint64_t session = 0; session < ROWS; ++session) engine.attach(session, nullptr);
    const auto turn = [&engine] {
        engine.tick();
        for (rte_output output; engine.pop(output);) rte_output_release(&output, nullptr);
    };
    while (engine.info().live < ROWS) turn(); // seeds are aside: ticks do not wait for them
    for (uint32_t tick = 0; tick < warm; ++tick) turn();
    const auto begin = Clock::now();
    for (uint32_t tick = 0; tick < ticks; ++tick) turn();
    const double each = ms_since(begin) / ticks;
    engine.stop();
    return each;
}

inline void overlap(Work work)
{
    Work hot = work, deferred = work;
    hot.decoder = deferred.flow = 0;
    const double none = tick_ms(Work{0, 0, work.effort}), apart[] = {tick_ms(hot), tick_ms(deferred)}, both = tick_ms(work);
    const double sum = apart[0] + apart[1], most = std::max(apart[0], apart[1]);
    std::printf("overlap: empty %.3f ms, HOT alone %.3f ms, DEFERRED alone %.3f ms, both %.3f ms (sum %.3f, max %.3f): %.0f %%\n",
                none, apart[0], apart[1], both, sum, most, 100.0 * (sum - both) / (sum - most));
}

// As many passes as take so long. The encoder's own time, on a stream where nothing else is.
inline uint32_t passes_of(double ms, uint32_t positions)
{
    const Effort      few = {positions, 4};
    Array<half_float> up, down;
    Array<float>      tokens, text;
    Prompt            prompt = Prompt();
    cudaStream_t      stream;
    if (!up.take(weights_of(ENCODER_UP)) || !down.take(weights_of(ENCODER_DOWN)) || !text.take(WIDTH) ||
        !tokens.take(static_cast<size_t>(positions) * WIDTH) ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        fatal("no memory to try an encode");
    prompt.size = 1;
    double took = 0.0;
    for (int again = 0; again < 2; ++again) { // the first loads the kernels
        const auto begin = Clock::now();
        launch_encode(Layer{up.get(), down.get()}, prompt, few, tokens.get(), text.get(), 0, stream);
        if (cudaStreamSynchronize(stream) != cudaSuccess) fatal("an encode");
        took = ms_since(begin);
    }
    (void)cudaStreamDestroy(stream);
    return std::max(1u, static_cast<uint32_t>(ms / took * few.passes + 0.5));
}

// Times between two chunks, as a bystander sees them.
class Jitter {
public:
    void note(const rte_output &output)
    {
        uint64_t &last = last_[output.session];
        if (last != 0) gaps_.push_back(static_cast<double>(output.done_ns - last) / 1e6);
        last = output.done_ns;
    }
    void print(const char *name, const char *what)
    {
        std::sort(gaps_.begin(), gaps_.end());
        expect(!gaps_.empty(), "bystanders are stepped");
        if (gaps_.empty()) return;
        const auto at = [this](double part) { return gaps_[static_cast<size_t>(part * static_cast<double>(gaps_.size() - 1))]; };
        std::printf("isolation, %s, %s: p50 %.3f ms, p99 %.3f ms, max %.3f ms between chunks\n", name, what, at(0.5), at(0.99), at(1.0));
    }

private:
    uint64_t            last_[ROWS] = {};
    std::vector<double> gaps_;
};

// Fifteen bystanders at 100 a second, first undisturbed, then while the prompt of session 0 changes all the time.
inline void isolate(const char *name, Work work, double seconds, rte_engine_options options)
{
    static const char *const prompts[] = {"a volcano at night", "snow", "the sea, far below"};
    Model  model(work);
    Engine engine(model.table(0, 100), options);
    for (uint64_t session = 0; session < ROWS; ++session) engine.attach(session, nullptr);
    engine.start();
    Jitter jitter[2];
    const auto begin = Clock::now();
    uint64_t   asked = 0;
    for (double now = 0.0; now < 2.0 * seconds; now = ms_since(begin) / 1e3) {
        const bool is_disturbed = now > seconds;
        engine.wait(20000000);
        for (rte_output output; engine.pop(output); rte_output_release(&output, nullptr)) {
            expect(output.kind == RTE_CHUNK || output.kind == RTE_ATTACHED, "nothing fails");
            if (output.kind == RTE_CHUNK && output.session != 0) jitter[is_disturbed].note(output);
            // It has stepped with the last one: the next.
            if (output.kind == RTE_CHUNK && output.session == 0 && is_disturbed && output.heavy_tag == asked) {
                ++asked;
                engine.act(0, asked, nullptr, prompts[asked % 3]);
            }
        }
    }
    const rte_session_info changed = engine.about(0);
    const rte_engine_info  info    = engine.info();
    engine.stop();
    for (rte_output output; engine.pop(output);) rte_output_release(&output, nullptr);
    expect(changed.encodes > 0, "a prompt was encoded");
    jitter[0].print(name, "no encode");
    char what[64];
    std::snprintf(what, sizeof what, "%llu encodes of %.0f ms", static_cast<unsigned long long>(changed.encodes),
                  static_cast<double>(info.lane_ns_p50[RTE_ENCODE]) / 1e6);
    jitter[1].print(name, what);
    std::printf("isolation, %s: session 0 sat out %llu ticks, %llu of %llu ticks were late, %llu grid points missed\n", name,
                static_cast<unsigned long long>(changed.ticks_out), static_cast<unsigned long long>(info.late_ticks),
                static_cast<unsigned long long>(info.ticks), static_cast<unsigned long long>(info.missed_deadlines));
}

inline void measure(double encode_ms, double seconds, uint32_t positions, uint32_t steps)
{
    Work work = {steps, std::max(1u, steps * 7 / 8), {positions, 1}}; // about as much of either: the decoder has its head, too
    overlap(work);
    work.effort.passes = passes_of(encode_ms, positions);
    rte_engine_options options = default_options();
    options.spin_ns = 200000;
    isolate("HOT first", work, seconds, options);

    // The same on streams of our own, all of one priority: the engine orders them as well, the device does not.
    for (rte_stream &stream : options.streams)
        if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) fatal("a stream");
    isolate("one priority", work, seconds, options);
    for (rte_stream stream : options.streams) (void)cudaStreamDestroy(stream);
}

#endif
