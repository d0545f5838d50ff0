// The same model in plain loops on the processor: the oracle of 06_cuda.
#ifndef CUDA_REFERENCE_H
#define CUDA_REFERENCE_H

#include "06_cuda_model.h"

// How far a sample of the device, in [-1, 1], may be from ours. Sums are of the same terms in the same order, and products of two
// bf16 are exact; exp, tanh and the last rounding of x differ in the last bits of a float. So an activation may lie so near to
// the edge between two bf16 numbers that it is rounded to the one there and to the other here: a step of 2^-8 of it. The
// decoder's head has 256 of them with weights below 1/9; what is off in a step less than that is off in the next, because a
// layer's gain is below one. Two such steps of the largest sample are allowed. (With exp and tanh off by a last bit on purpose the
// greatest difference was 0.0007; with a prompt that comes one chunk too late it was 0.1.)
const float TOLERANCE = 2.0f / 256.0f;

class Reference {
public:
    Reference()
    {
        for (uint32_t which = FLOW_UP; which <= HEAD; ++which)
            for (half_float weight : weights_of(which)) weights_[which].push_back(wide(weight));
    }

    using Vector = std::vector<float>;

    static Vector seed(uint64_t session)
    {
        Vector state(WIDTH);
        for (uint32_t i = 0; i < WIDTH; ++i) state[i] = noise(static_cast<uint32_t>(session), i);
        return state;
    }

    Vector text_of(const char *prompt, Effort effort) const
    {
        Vector text(WIDTH, 0.0f);
        for (uint32_t position = 0; position < effort.positions; ++position) {
            const auto letter = static_cast<unsigned char>(prompt[position % std::strlen(prompt)]);
            Vector     x(WIDTH, 0.0f), push(WIDTH);
            for (uint32_t i = 0; i < WIDTH; ++i) push[i] = noise(letter, position * WIDTH + i);
            for (uint32_t n = 0; n < effort.passes; ++n) step(ENCODER_UP, x, push);
            for (uint32_t i = 0; i < WIDTH; ++i) text[i] += x[i];
        }
        for (float &x : text) x = TEXT_GAIN * x / std::sqrt(static_cast<float>(effort.positions));
        return text;
    }

    // One chunk's samples; `state` goes on.
    Vector chunk(Vector &state, const Vector &text, const float *steer, const Work &work) const
    {
        Vector push(WIDTH), latent(WIDTH), samples(SAMPLES);
        for (uint32_t i = 0; i < WIDTH; ++i) push[i] = text[i] + steer[i % STEERS];
        for (uint32_t n = 0; n < work.flow; ++n) step(FLOW_UP, state, push);
        for (uint32_t i = 0; i < WIDTH; ++i) latent[i] = rounded(state[i]);
        for (uint32_t n = 0; n < work.decoder; ++n) step(DECODER_UP, latent, Vector(WIDTH, 0.0f));
        for (float &x : latent) x = rounded(x);
        samples = product(HEAD, latent, SAMPLES);
        for (float &sample : samples) sample = std::tanh(sample);
        return samples;
    }

private:
    static float wide(half_float x)
    {
        const uint32_t bits = static_cast<uint32_t>(x) << 16;
        float          result;
        std::memcpy(&result, &bits, sizeof result);
        return result;
    }

    // To the nearest bf16, the even one of two.
    static float rounded(float x)
    {
        uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1);
        return wide(static_cast<half_float>(bits >> 16));
    }

    Vector product(uint32_t which, const Vector &in, uint32_t outputs) const
    {
        Vector sums(outputs, 0.0f);
        for (uint32_t i = 0; i < in.size(); ++i)
            for (uint32_t j = 0; j < outputs; ++j) sums[j] += weights_[which][i * outputs + j] * in[i];
        return sums;
    }

    void step(uint32_t up, Vector &x, const Vector &push) const
    {
        Vector seen(WIDTH);
        for (uint32_t i = 0; i < WIDTH; ++i) seen[i] = rounded(x[i] + push[i]);
        Vector hidden = product(up, seen, HIDDEN);
        for (float &h : hidden) h = rounded(h / (1.0f + std::exp(-h)));
        const Vector down = product(up + 1, hidden, WIDTH);
        for (uint32_t i = 0; i < WIDTH; ++i) x[i] = 0.75f * x[i] + 0.25f * down[i];
    }

    Vector weights_[HEAD + 1];
};

#endif
