// What the model of 06_cuda and its kernels share: sizes, the weights, and one function for each thing that is enqueued.
// Nothing here waits, and nothing looks at who else is in a batch: row i of it is block i.
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>

enum : uint32_t { WIDTH = 256, HIDDEN = 1024, SAMPLES = 1024, STEERS = 2, LETTERS = 64 };

#ifdef __CUDACC__
#define ON_BOTH_SIDES __host__ __device__ inline
#else
#define ON_BOTH_SIDES inline
#endif

const float TEXT_GAIN = 4.0f;

// A bf16: the upper half of a float.
using half_float = uint16_t;

// Weights of one residual layer, by input, then by output. Device memory.
struct Layer {
    half_float *up;   // [WIDTH][HIDDEN]
    half_float *down; // [HIDDEN][WIDTH]
};

// Of the flow that HOT computes, the decoder and the prompt's encoder.
struct Weights {
    Layer       flow, decoder, encoder;
    half_float *head; // [WIDTH][SAMPLES]
};

// Travels as an argument of the kernel: nothing to copy, nothing to keep.
struct Prompt {
    unsigned char letters[LETTERS];
    uint32_t      size;
};

// How much work the encoder makes of a prompt: so many positions in each of so many passes.
struct Effort {
    uint32_t positions, passes;
};

// A number in [-1, 1) that follows from two others.
ON_BOTH_SIDES float noise(uint32_t a, uint32_t b)
{
    uint32_t x = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca77u;
    x = (x ^ x >> 15) * 0xc2b2ae3du;
    x = (x ^ x >> 13) * 0x27d4eb2fu;
    return static_cast<float>((x ^ x >> 16) >> 8) * (1.0f / 8388608.0f) - 1.0f;
}

// What one word of a chunk adds to its digest.
ON_BOTH_SIDES uint32_t share_of(uint32_t word, uint32_t at) { return word * (2 * at + 1); }

// state[row][WIDTH] and text[row][WIDTH] of new lives.
void launch_seed(float *state, float *text, const uint32_t *rows, const uint64_t *sessions, uint32_t count, cudaStream_t stream);

// One chunk's steps of each row: state goes on, and its end is left in latent[row][WIDTH].
void launch_flow(const Layer &flow, float *state, half_float *latent, const float *text, const float *steers,
                 const uint32_t *rows, uint32_t count, uint32_t steps, cudaStream_t stream);

// latent[row] -> SAMPLES floats: to outputs[i], or where that is NULL to samples + i * SAMPLES.
void launch_decode(const Weights &weights, const half_float *latent, const uint32_t *rows, uint32_t count, uint32_t steps,
                   float *samples, void *const *outputs, cudaStream_t stream);

// prompt -> text[row]. tokens[positions][WIDTH] is scratch, of one encode at a time.
void launch_encode(const Layer &encoder, const Prompt &prompt, Effort effort, float *tokens, float *text, uint32_t row,
                   cudaStream_t stream);

// Adds the digest of a chunk to *digest: what a consumer on the device makes of it.
void launch_digest(const void *chunk, uint32_t *digest, cudaStream_t stream);

#endif
