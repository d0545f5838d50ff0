/* What the land, the flight and the picture of 03_world share: numbers, vectors, noise that repeats. Nothing of rte in here. */
#ifndef WORLD_NOISE_H
#define WORLD_NOISE_H

#include <math.h>
#include <stdint.h>

typedef struct vec {
    float x, y, z;
} vec; /* y is up; also a colour: red, green, blue, linear, 1 is white in full light */

static inline vec   add(vec a, vec b) { return (vec){a.x + b.x, a.y + b.y, a.z + b.z}; }
static inline vec   subtract(vec a, vec b) { return (vec){a.x - b.x, a.y - b.y, a.z - b.z}; }
static inline vec   times(vec a, vec b) { return (vec){a.x * b.x, a.y * b.y, a.z * b.z}; }
static inline vec   scale(vec a, float s) { return (vec){a.x * s, a.y * s, a.z * s}; }
static inline vec   mix(vec a, vec b, float t) { return add(a, scale(subtract(b, a), t)); }
static inline float dot(vec a, vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline vec   unit(vec a) { return scale(a, 1.0f / sqrtf(dot(a, a) + 1e-12f)); }
static inline vec   cross(vec a, vec b) { return (vec){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }

static inline float least(float a, float b) { return a < b ? a : b; }
static inline float most(float a, float b) { return a > b ? a : b; }
static inline float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
static inline float blend(float a, float b, float t) { return a + (b - a) * t; }
static inline int   floor_int(float x) { const int i = (int)x; return i - (x < (float)i); }

static inline float smooth(float from, float to, float x)
{
    const float t = clamp((x - from) / (to - from), 0.0f, 1.0f);
    return t * t * (3.0f - 2.0f * t);
}

/* ---- chance ---- */

static inline uint32_t scramble(uint32_t h)
{
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    return h ^ h >> 16;
}

static inline float chance(uint32_t h) { return (float)(scramble(h) >> 8) * (1.0f / 16777216.0f); } /* 0 up to 1 */

static float dice(uint32_t *state) { return chance(*state += 0x9e3779b9u); }

/* ---- noise: -1 to 1, 0 in the mean; repeats after `period` in both directions ---- */

static inline float slope(uint32_t at, float dx, float dy)
{
    static const float way[8][2] = {{1, 0}, {.7071f, .7071f}, {0, 1}, {-.7071f, .7071f}, {-1, 0}, {-.7071f, -.7071f}, {0, -1}, {.7071f, -.7071f}};
    const float *w = way[(at ^ at >> 15) * 0x846ca68bu >> 29];
    return w[0] * dx + w[1] * dy;
}

static inline int within(int i, int period) { return i < 0 ? i + period : i < period ? i : i - period; }

/* x and y lie at most one period outside of the first one. */
static float noise(float x, float y, int period, uint32_t seed)
{
    const int      ix = floor_int(x), iy = floor_int(y);
    const float    dx = x - (float)ix, dy = y - (float)iy;
    const float    u = dx * dx * dx * (dx * (dx * 6.0f - 15.0f) + 10.0f), v = dy * dy * dy * (dy * (dy * 6.0f - 15.0f) + 10.0f);
    const uint32_t left = (uint32_t)within(ix, period) * 0x27d4eb2du ^ seed, right = (uint32_t)within(ix + 1, period) * 0x27d4eb2du ^ seed;
    const uint32_t up = (uint32_t)within(iy, period) * 0x165667b1u, down = (uint32_t)within(iy + 1, period) * 0x165667b1u;
    const float    a = slope(left ^ up, dx, dy), b = slope(right ^ up, dx - 1.0f, dy);
    const float    c = slope(left ^ down, dx, dy - 1.0f), d = slope(right ^ down, dx - 1.0f, dy - 1.0f);
    return 1.5f * blend(blend(a, b, u), blend(c, d, u), v);
}

/* Octaves of it over the unit square, which is one period. */
static float clouds(float u, float v, int period, int octaves, uint32_t seed)
{
    float sum = 0.0f, weight = 0.5f;
    for (int i = 0; i < octaves; ++i, period *= 2, weight *= 0.5f)
        sum += weight * noise(u * (float)period, v * (float)period, period, seed + (uint32_t)i * 0x9e37u);
    return sum;
}

/* Sharp crests that branch: 0 to about 1. */
static float crests(float u, float v, int period, int octaves, uint32_t seed)
{
    float sum = 0.0f, weight = 0.55f, before = 1.0f;
    for (int i = 0; i < octaves; ++i, period *= 2, weight *= 0.5f) {
        float crest = 1.0f - fabsf(noise(u * (float)period, v * (float)period, period, seed + (uint32_t)i * 0x7f4au));
        crest *= crest;
        sum += weight * crest * before;
        before = clamp(crest * 1.6f, 0.0f, 1.0f);
    }
    return sum;
}

/* Distance to the border between cells, 0 on it. */
static float cracks(float u, float v, int period, uint32_t seed)
{
    const float x = u * (float)period, y = v * (float)period;
    const int   ix = floor_int(x), iy = floor_int(y);
    float       nearest = 9.0f, next = 9.0f;
    for (int j = -1; j <= 1; ++j)
        for (int i = -1; i <= 1; ++i) {
            const uint32_t cx = (uint32_t)(ix + i + period) % (uint32_t)period, cy = (uint32_t)(iy + j + period) % (uint32_t)period;
            const uint32_t at = cx * 0x27d4eb2du ^ cy * 0x165667b1u ^ seed;
            const float    dx = (float)(ix + i) + chance(at) - x, dy = (float)(iy + j) + chance(at + 1u) - y;
            const float    d  = sqrtf(dx * dx + dy * dy);
            if (d < nearest) next = nearest, nearest = d;
            else if (d < next) next = d;
        }
    return next - nearest;
}

#endif
