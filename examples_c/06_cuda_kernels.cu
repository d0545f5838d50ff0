// The kernels of 06_cuda. Weights and activations are bf16, sums and states are float.
//
// A block is a row (or a position of a prompt), a thread sums one output after another in a fixed order: what comes out does
// not depend on how many others there are, to the last bit. So it is the engine alone that the example's proof is about. A
// kernel that splits its sums by the size of the batch would not pass it.
#include "06_cuda_kernels.h"
#include <cuda_bf16.h>

namespace {

enum : uint32_t { THREADS = 256 };

__device__ float wide(half_float x) { return __bfloat162float(__ushort_as_bfloat16(x)); }
__device__ half_float narrow(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
__device__ float silu(float x) { return x / (1.0f + expf(-x)); }

struct Scratch {
    float      x[WIDTH], push[WIDTH];
    half_float seen[WIDTH], hidden[HIDDEN];
};

// x = 3/4 x + 1/4 down(silu(up(x + push))), by all threads of a block; afterwards x is settled. Thread i alone has x[i] and
// push[i] until then.
__device__ void step(const Layer &layer, Scratch &s)
{
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) s.seen[i] = narrow(s.x[i] + s.push[i]);
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < HIDDEN; j += blockDim.x) {
        float sum = 0.0f;
#pragma unroll 8
        for (uint32_t i = 0; i < WIDTH; ++i) sum = fmaf(wide(layer.up[i * HIDDEN + j]), wide(s.seen[i]), sum);
        s.hidden[j] = narrow(silu(sum));
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) {
        float sum = 0.0f;
#pragma unroll 8
        for (uint32_t j = 0; j < HIDDEN; ++j) sum = fmaf(wide(layer.down[j * WIDTH + i]), wide(s.hidden[j]), sum);
        s.x[i] = 0.75f * s.x[i] + 0.25f * sum;
    }
    __syncthreads();
}

__global__ void seed(float *state, float *text, const uint32_t *rows, const uint64_t *sessions)
{
    const uint32_t row = rows[blockIdx.x], session = static_cast<uint32_t>(sessions[blockIdx.x]);
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) {
        state[row * WIDTH + i] = noise(session, i);
        text[row * WIDTH + i]  = 0.0f;
    }
}

__global__ void flow(Layer layer, float *state, half_float *latent, const float *text, const float *steers, const uint32_t *rows,
                     uint32_t steps)
{
    __shared__ Scratch s;
    const uint32_t     row = rows[blockIdx.x];
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) {
        s.x[i]    = state[row * WIDTH + i];
        s.push[i] = text[row * WIDTH + i] + steers[blockIdx.x * STEERS + i % STEERS];
    }
    for (uint32_t n = 0; n < steps; ++n) step(layer, s);
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) {
        state[row * WIDTH + i]  = s.x[i];
        latent[row * WIDTH + i] = narrow(s.x[i]);
    }
}

__global__ void decode(Weights weights, const half_float *latent, const uint32_t *rows, uint32_t steps, float *samples,
                       void *const *outputs)
{
    __shared__ Scratch s;
    const uint32_t     row = rows[blockIdx.x];
    float *to = outputs ? static_cast<float *>(outputs[blockIdx.x]) : samples + blockIdx.x * SAMPLES;
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) {
        s.x[i]    = wide(latent[row * WIDTH + i]);
        s.push[i] = 0.0f;
    }
    for (uint32_t n = 0; n < steps; ++n) step(weights.decoder, s);
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) s.seen[i] = narrow(s.x[i]);
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < SAMPLES; j += blockDim.x) {
        float sum = 0.0f;
#pragma unroll 8
        for (uint32_t i = 0; i < WIDTH; ++i) sum = fmaf(wide(weights.head[i * SAMPLES + j]), wide(s.seen[i]), sum);
        to[j] = tanhf(sum);
    }
}

// One position of a prompt, pushed by its letter: the letters from the first to the last, again and again.
__global__ void pass(Layer layer, Prompt prompt, float *tokens, bool is_first)
{
    __shared__ Scratch s;
    const uint32_t     letter = prompt.letters[blockIdx.x % prompt.size];
    float             *mine   = tokens + blockIdx.x * WIDTH;
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) {
        s.x[i]    = is_first ? 0.0f : mine[i];
        s.push[i] = noise(letter, blockIdx.x * WIDTH + i);
    }
    step(layer, s);
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) mine[i] = s.x[i];
}

// The mean of all positions, made as large as what pushed them.
__global__ void pool(const float *tokens, uint32_t positions, float *text)
{
    for (uint32_t i = threadIdx.x; i < WIDTH; i += blockDim.x) {
        float sum = 0.0f;
        for (uint32_t position = 0; position < positions; ++position) sum += tokens[position * WIDTH + i];
        text[i] = TEXT_GAIN * sum / sqrtf(static_cast<float>(positions));
    }
}

__global__ void digest(const uint32_t *words, uint32_t *sum)
{
    uint32_t mine = 0;
    for (uint32_t i = threadIdx.x; i < SAMPLES; i += blockDim.x) mine += share_of(words[i], i);
    atomicAdd(sum, mine);
}

} // namespace

void launch_seed(float *state, float *text, const uint32_t *rows, const uint64_t *sessions, uint32_t count, cudaStream_t stream)
{
    seed<<<count, THREADS, 0, stream>>>(state, text, rows, sessions);
}

void launch_flow(const Layer &layer, float *state, half_float *latent, const float *text, const float *steers,
                 const uint32_t *rows, uint32_t count, uint32_t steps, cudaStream_t stream)
{
    flow<<<count, THREADS, 0, stream>>>(layer, state, latent, text, steers, rows, steps);
}

void launch_decode(const Weights &weights, const half_float *latent, const uint32_t *rows, uint32_t count, uint32_t steps,
                   float *samples, void *const *outputs, cudaStream_t stream)
{
    decode<<<count, THREADS, 0, stream>>>(weights, latent, rows, steps, samples, outputs);
}

void launch_encode(const Layer &encoder, const Prompt &prompt, Effort effort, float *tokens, float *text, uint32_t row,
                   cudaStream_t stream)
{
    for (uint32_t n = 0; n < effort.passes; ++n)
        pass<<<effort.positions, THREADS, 0, stream>>>(encoder, prompt, tokens, n == 0);
    pool<<<1, THREADS, 0, stream>>>(tokens, effort.positions, text + row * WIDTH);
}

void launch_digest(const void *chunk, uint32_t *sum, cudaStream_t stream)
{
    digest<<<1, THREADS, 0, stream>>>(static_cast<const uint32_t *>(chunk), sum);
}
