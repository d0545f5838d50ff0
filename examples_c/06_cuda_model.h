// The model of 06_cuda on the host's side: where its state lies on the device, and what each stage enqueues. A stage waits for
// nothing and calls nothing of the library; whatever must not run too early is ordered by the engine.
#ifndef CUDA_MODEL_H
#define CUDA_MODEL_H

#include "06_cuda_kernels.h"
#include "rte.h"
#include <cmath>
#include <cstring>
#include <vector>

enum : uint32_t { STEER, PROMPT, KEYS };
enum : uint32_t { ROWS = 16 };
const size_t CHUNK = SAMPLES * sizeof(float);

// Random weights of `inputs` x `outputs`. Their size makes a layer's output about as large as `gain` times its input.
inline std::vector<half_float> weights_of(uint32_t number, uint32_t inputs, uint32_t outputs, float gain)
{
    std::vector<half_float> weights(static_cast<size_t>(inputs) * outputs);
    const float             size = gain * std::sqrt(3.0f / static_cast<float>(inputs));
    for (uint32_t i = 0; i < weights.size(); ++i) {
        const float weight = size * noise(number, i);
        uint32_t    bits;
        std::memcpy(&bits, &weight, sizeof bits);
        weights[i] = static_cast<half_float>(bits >> 16); // cut, not rounded: any weights will do
    }
    return weights;
}

enum : uint32_t { FLOW_UP, FLOW_DOWN, DECODER_UP, DECODER_DOWN, ENCODER_UP, ENCODER_DOWN, HEAD };

inline std::vector<half_float> weights_of(uint32_t which)
{
    if (which == HEAD) return weights_of(which, WIDTH, SAMPLES, 1.0f);
    const bool is_up = which % 2 == 0;
    return weights_of(which, is_up ? WIDTH : HIDDEN, is_up ? HIDDEN : WIDTH, 0.7f);
}

// An array on the device.
template <class T> class Array {
public:
    Array() = default;
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array() { give(); }

    bool take(size_t count)
    {
        give();
        void *memory = nullptr;
        if (cudaMalloc(&memory, count * sizeof(T)) != cudaSuccess) return false;
        memory_ = static_cast<T *>(memory);
        return true;
    }
    // The copy is of another stream, for which ours do not wait: it is waited for here.
    bool take(const std::vector<T> &values)
    {
        return take(values.size()) &&
               cudaMemcpy(memory_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess &&
               cudaDeviceSynchronize() == cudaSuccess;
    }
    void give()
    {
        if (memory_) (void)cudaFree(memory_);
        memory_ = nullptr;
    }
    T *get() const { return memory_; }

private:
    T *memory_ = nullptr;
};

// How much work is made of each chunk, and of each prompt.
struct Work {
    uint32_t flow, decoder; // steps; 0: the lane has nothing to do
    Effort   effort;
};

class Model {
public:
    explicit Model(const Work &work) : work_(work) {}

    // Where the chunks lie: RTE_MODEL_DEVICE_OUTPUT or 0. This is what the engine is told.
    rte_model table(uint32_t flags, uint32_t rate)
    {
        keys_[STEER].name  = "steer";
        keys_[STEER].type  = RTE_F32;
        keys_[STEER].size  = STEERS * sizeof(float);
        keys_[PROMPT].name = "prompt";
        keys_[PROMPT].flags = RTE_KEY_HEAVY;
        stages_[0].name = "flow";   stages_[0].lane = RTE_HOT;      stages_[0].run = flow;
        stages_[1].name = "decode"; stages_[1].lane = RTE_DEFERRED; stages_[1].run = decode;
        stages_[2].name = "encode"; stages_[2].lane = RTE_ENCODE;   stages_[2].run = encode;
        on_device_ = (flags & RTE_MODEL_DEVICE_OUTPUT) != 0;

        rte_model model   = rte_model();
        model.struct_size = sizeof model;
        model.name = "flow"; model.user = this;
        model.flags = flags | RTE_MODEL_SEED_ASIDE; // a context has a prompt, too, and nobody waits for that one either
        model.max_sessions = ROWS;
        model.chunk_bytes  = CHUNK;
        model.rate_num = rate; model.rate_den = rate != 0;
        model.keys = keys_; model.key_count = KEYS;
        model.stages = stages_; model.stage_count = 3;
        model.init = init; model.seed = seed; model.destroy = destroy;
        return model;
    }

private:
    static Model &of(void *user) { return *static_cast<Model *>(user); }
    static rte_status enqueued() { return cudaGetLastError() == cudaSuccess ? RTE_OK : RTE_ERR_DEVICE; }

    // Batch arrays are page-locked and left alone until the batch has passed, so the device may read them when it gets there.
    template <class T> static void bring(const Array<T> &to, const void *from, uint32_t count, rte_stream stream)
    {
        (void)cudaMemcpyAsync(to.get(), from, count * sizeof(T), cudaMemcpyHostToDevice, stream);
    }

    // The device's primary context is current here, as in every other callback.
    static rte_status init(void *user, const rte_stream *)
    {
        Model &m = of(user);
        bool   is_there = true;
        for (uint32_t which = FLOW_UP; which <= HEAD; ++which) is_there = is_there && m.weights_[which].take(weights_of(which));
        is_there = is_there && m.state_.take(ROWS * WIDTH) && m.text_.take(ROWS * WIDTH) && m.steers_.take(ROWS * STEERS) &&
                   m.samples_.take(ROWS * SAMPLES) && m.outputs_.take(ROWS) && m.sessions_.take(ROWS) &&
                   m.tokens_.take(static_cast<size_t>(m.work_.effort.positions) * WIDTH);
        for (Array<half_float> &latent : m.latent_) is_there = is_there && latent.take(ROWS * WIDTH);
        for (Array<uint32_t> &rows : m.rows_) is_there = is_there && rows.take(ROWS);
        if (!is_there) return RTE_ERR_MEMORY;
        const auto layer = [&m](uint32_t up) { return Layer{m.weights_[up].get(), m.weights_[up + 1].get()}; };
        m.device_ = Weights{layer(FLOW_UP), layer(DECODER_UP), layer(ENCODER_UP), m.weights_[HEAD].get()};
        return RTE_OK;
    }

    static void destroy(void *user)
    {
        Model &m = of(user);
        for (Array<half_float> &weights : m.weights_) weights.give();
        for (Array<half_float> &latent : m.latent_) latent.give();
        for (Array<uint32_t> &rows : m.rows_) rows.give();
        for (Array<float> *floats : {&m.state_, &m.text_, &m.steers_, &m.samples_, &m.tokens_}) floats->give();
        m.outputs_.give();
        m.sessions_.give();
    }

    // On the ENCODE lane: seeds are aside.
    static rte_status seed(void *user, rte_batch *b, rte_stream side)
    {
        Model &m = of(user);
        bring(m.rows_[RTE_ENCODE], b->row, b->count, side);
        bring(m.sessions_, b->session, b->count, side);
        launch_seed(m.state_.get(), m.text_.get(), m.rows_[RTE_ENCODE].get(), m.sessions_.get(), b->count, side);
        for (uint32_t i = 0; i < b->count; ++i)
            if (b->value[i][PROMPT].size != 0) b->status[i] = m.read_prompt(b->value[i][PROMPT], b->row[i], side);
        return enqueued();
    }

    static rte_status encode(void *user, rte_batch *b, rte_stream side)
    {
        Model &m = of(user);
        for (uint32_t i = 0; i < b->count; ++i)
            if (b->changed[i] & RTE_KEY_BIT(PROMPT)) b->status[i] = m.read_prompt(b->value[i][PROMPT], b->row[i], side);
        return enqueued();
    }

    // A prompt that is not as it should be fails its own row.
    rte_status read_prompt(const rte_value &value, uint32_t row, rte_stream side)
    {
        Prompt prompt = Prompt();
        if (value.size == 0 || value.size > LETTERS) return RTE_ERR_ARGUMENT;
        std::memcpy(prompt.letters, value.data, value.size);
        prompt.size = static_cast<uint32_t>(value.size);
        launch_encode(device_.encoder, prompt, work_.effort, tokens_.get(), text_.get(), row, side);
        return RTE_OK;
    }

    static rte_status flow(void *user, rte_batch *b, rte_stream hot)
    {
        Model &m = of(user);
        if (m.work_.flow == 0) return RTE_OK;
        bring(m.rows_[RTE_HOT], b->row, b->count, hot);
        (void)cudaMemcpyAsync(m.steers_.get(), b->column[STEER], b->count * STEERS * sizeof(float), cudaMemcpyHostToDevice, hot);
        launch_flow(m.device_.flow, m.state_.get(), m.latent_[b->slot].get(), m.text_.get(), m.steers_.get(),
                    m.rows_[RTE_HOT].get(), b->count, m.work_.flow, hot);
        return enqueued();
    }

    // Of chunk N-1, while the flow makes chunk N in the other latent. What the lanes share, they only read.
    static rte_status decode(void *user, rte_batch *b, rte_stream deferred)
    {
        Model &m = of(user);
        if (m.work_.decoder == 0) return RTE_OK;
        bring(m.rows_[RTE_DEFERRED], b->row, b->count, deferred);
        if (m.on_device_) bring(m.outputs_, b->output, b->count, deferred); // where on the device each chunk goes
        launch_decode(m.device_, m.latent_[b->slot].get(), m.rows_[RTE_DEFERRED].get(), b->count, m.work_.decoder,
                      m.samples_.get(), m.on_device_ ? m.outputs_.get() : nullptr, deferred);
        for (uint32_t i = 0; i < b->count; ++i) {
            if (!m.on_device_) // page-locked, too
                (void)cudaMemcpyAsync(b->output[i], m.samples_.get() + static_cast<size_t>(i) * SAMPLES, CHUNK,
                                      cudaMemcpyDeviceToHost, deferred);
            b->output_size[i] = CHUNK;
        }
        return enqueued();
    }

    Work              work_;
    bool              on_device_ = false;
    rte_key           keys_[KEYS] = {rte_key(), rte_key()};
    rte_stage         stages_[3]  = {rte_stage(), rte_stage(), rte_stage()};
    Weights           device_     = Weights();
    Array<half_float> weights_[HEAD + 1];
    Array<float>      state_, text_;          // by row
    Array<half_float> latent_[2];             // by slot, then by row
    Array<uint32_t>   rows_[3];               // by lane; used and written anew in the order of its stream
    Array<float>      steers_;                // HOT's
    Array<float>      samples_;               // DEFERRED's
    Array<void *>     outputs_;               // DEFERRED's
    Array<float>      tokens_;                // ENCODE's
    Array<uint64_t>   sessions_;              // ENCODE's
};

#endif
