/* From words to a land, for 03_world: what ENCODE does with a prompt. The same words give the same land, always.
 *
 *     "volcano at night" -> look (shape, colours, light, weather) -> heights, worn by rain -> what light makes of each place
 *
 * A land is SPAN x SPAN units and repeats, so whoever flies over it never comes to an end. Nothing of rte in here. */
#ifndef WORLD_LAND_H
#define WORLD_LAND_H

#include "03_world_noise.h"
#include <stdlib.h>
#include <string.h>

enum { SPAN = 256, LEVELS = 4, MOST_WORDS = 12 };

typedef enum weather { CLEAR, SNOW, EMBERS, DUST, POLLEN, LEAVES } weather;

/* What words say about a land. */
typedef struct look {
    uint32_t seed;
    /* shape, heights in units */
    float amplitude, ridges, dunes, mesas, cone, erosion, water_level, floes, trees;
    /* ground */
    vec   low, high, rock, peak, tree, water;
    float snow_above, strata, lava;
    /* light and air */
    vec     to_sun, sun, zenith, horizon;
    float   fog, cover, stars, aurora;
    weather weather;
} look;

/* What the light leaves of the colour of a place, and what is there; see texel_new. */
typedef struct texel {
    uint8_t red, green, blue, wet;
} texel;

typedef struct land {
    look  look;
    int   side;    /* places, a power of two */
    float highest; /* of all heights */
    /* level k has side >> k places a side */
    float *height[LEVELS];
    texel *texel[LEVELS];
} land;

/* ---- words ---- */

typedef struct place {
    const char *word;
    float       amplitude, ridges, dunes, mesas, cone, erosion, water_level, trees;
    vec         low, high, rock, peak, water;
    float       snow_above, strata, lava, cover;
    weather     weather;
} place;

static const place places[] = {
    {"desert", 17, 0, 1, 0, 0, 0, -1, 0,
     {.70f, .40f, .19f}, {.86f, .56f, .30f}, {.58f, .30f, .16f}, {.90f, .60f, .30f}, {0, 0, 0}, 9, 0, 0, .25f, DUST},
    {"sea", 9, .1f, 0, 0, 0, 0, .52f, 0,
     {.50f, .45f, .36f}, {.34f, .36f, .30f}, {.30f, .29f, .28f}, {1, 1, 1}, {.01f, .07f, .13f}, 9, 0, 0, .5f, CLEAR},
    {"valley", 44, .45f, 0, 0, 0, 1, .26f, .55f,
     {.15f, .33f, .07f}, {.30f, .40f, .13f}, {.33f, .30f, .27f}, {.95f, .97f, 1}, {.02f, .13f, .16f}, .80f, 0, 0, .45f, POLLEN},
    {"mountains", 66, 1, 0, 0, 0, 1, .20f, .3f,
     {.14f, .22f, .09f}, {.30f, .29f, .22f}, {.27f, .25f, .26f}, {.93f, .95f, 1}, {.02f, .09f, .13f}, .40f, 0, 0, .4f, CLEAR},
    {"islands", 34, .2f, 0, 0, 0, .6f, .57f, .7f,
     {.24f, .29f, .10f}, {.09f, .23f, .05f}, {.36f, .31f, .25f}, {.30f, .50f, .20f}, {0, .25f, .34f}, 9, 0, 0, .5f, CLEAR},
    {"canyon", 44, .3f, 0, 5, 0, .25f, .16f, .05f,
     {.58f, .27f, .13f}, {.74f, .40f, .22f}, {.55f, .21f, .10f}, {.80f, .50f, .30f}, {.06f, .18f, .17f}, 9, 1, 0, .35f, DUST},
    {"hills", 32, .1f, 0, 0, 0, .7f, .22f, 1,
     {.30f, .30f, .08f}, {.42f, .36f, .12f}, {.36f, .30f, .24f}, {.50f, .40f, .20f}, {.03f, .12f, .15f}, 9, 0, 0, .45f, LEAVES},
    {"volcano", 58, .7f, 0, 0, 1, .8f, .21f, 0,
     {.055f, .045f, .045f}, {.10f, .085f, .08f}, {.05f, .045f, .05f}, {.20f, .17f, .16f}, {2.6f, .40f, .03f}, .93f, 0, 1, .5f, EMBERS},
    {"tundra", 34, .5f, 0, 0, 0, .7f, .30f, .12f,
     {.62f, .70f, .80f}, {.80f, .86f, .95f}, {.24f, .26f, .31f}, {.95f, .97f, 1}, {.02f, .07f, .12f}, .30f, 0, 0, .25f, SNOW},
};

typedef struct hour {
    const char *word;
    float       elevation, azimuth; /* of the sun, or of the moon, in degrees; azimuth 0 is north, where flights begin */
    vec         sun, zenith, horizon;
    float       stars;
} hour;

static const hour hours[] = {
    {"noon", 44, 62, {2.5f, 2.3f, 1.95f}, {.05f, .17f, .50f}, {.40f, .58f, .80f}, 0},
    {"morning", 21, -48, {2.7f, 2.05f, 1.40f}, {.05f, .17f, .48f}, {.56f, .64f, .72f}, 0},
    {"dawn", 11, 24, {2.3f, 1.35f, .80f}, {.16f, .25f, .50f}, {.92f, .62f, .52f}, 0},
    {"dusk", 8, -20, {2.6f, 1.05f, .34f}, {.10f, .08f, .28f}, {.96f, .38f, .16f}, .25f},
    {"sunset", 13, 34, {2.7f, 1.30f, .50f}, {.10f, .16f, .42f}, {.95f, .52f, .24f}, 0},
    {"night", 32, 38, {.26f, .36f, .62f}, {.006f, .011f, .035f}, {.030f, .055f, .120f}, 1},
};

static void set_hour(look *k, const hour *h)
{
    const float radians = 0.01745329f, up = h->elevation * radians, round = h->azimuth * radians;
    k->to_sun  = (vec){cosf(up) * sinf(round), sinf(up), cosf(up) * cosf(round)};
    k->sun     = h->sun;
    k->zenith  = h->zenith;
    k->horizon = h->horizon;
    k->stars   = h->stars;
}

static void set_place(look *k, const place *p)
{
    k->amplitude = p->amplitude, k->ridges = p->ridges, k->dunes = p->dunes, k->mesas = p->mesas, k->cone = p->cone;
    k->erosion = p->erosion, k->water_level = p->water_level, k->trees = p->trees, k->snow_above = p->snow_above;
    k->low = p->low, k->high = p->high, k->rock = p->rock, k->peak = p->peak, k->water = p->water;
    k->strata = p->strata, k->lava = p->lava, k->cover = p->cover, k->weather = p->weather;
}

/* Words that change what the others have said. */
static void set_mood(look *k, const char *word)
{
    if (!strcmp(word, "frozen")) {
        k->floes = 1, k->trees = 0, k->weather = SNOW, k->snow_above = 0.0f, k->cover = 0.6f;
        k->low = k->high = (vec){.52f, .60f, .68f}, k->peak = (vec){.74f, .78f, .84f}, k->rock = (vec){.30f, .52f, .68f};
        k->water = (vec){.00f, .05f, .10f};
    } else if (!strcmp(word, "misty")) {
        k->fog *= 3.2f;
    } else if (!strcmp(word, "autumn")) {
        k->tree = (vec){.50f, .16f, .03f}, k->weather = LEAVES;
    } else if (!strcmp(word, "coral")) {
        k->water = (vec){.00f, .13f, .20f};
    } else if (!strcmp(word, "emerald")) {
        k->low = mix(k->low, (vec){.03f, .25f, .08f}, 0.6f), k->high = mix(k->high, (vec){.08f, .28f, .09f}, 0.5f);
    } else if (!strcmp(word, "red")) {
        k->low = mix(k->low, (vec){.52f, .14f, .06f}, 0.35f), k->high = mix(k->high, (vec){.70f, .28f, .13f}, 0.35f);
    } else if (!strcmp(word, "aurora")) {
        k->aurora = 1, set_hour(k, &hours[5]);
    } else { /* a word that nobody has explained shifts the colours a little, always in the same way */
        uint32_t s = k->seed;
        const vec tint = {0.9f + 0.2f * dice(&s), 0.9f + 0.2f * dice(&s), 0.9f + 0.2f * dice(&s)};
        k->low = times(k->low, tint), k->high = times(k->high, tint);
    }
}

static look look_of(const char *text, size_t size)
{
    char   word[MOST_WORDS][16] = {{0}};
    int    count = 0, length = 0, taken[MOST_WORDS] = {0};
    look   k = {.seed = 2166136261u, .fog = 1.0f, .tree = {.035f, .11f, .03f}};
    set_place(&k, &places[2]);
    set_hour(&k, &hours[0]);
    for (size_t i = 0; i <= size && count < MOST_WORDS; ++i) {
        const char c = i < size ? text[i] : ' ';
        k.seed = (k.seed ^ (uint8_t)c) * 16777619u;
        if (c != ' ' && length < 15) word[count][length++] = c;
        else if (c == ' ' && length) length = 0, ++count;
    }
    for (int w = 0; w < count; ++w) {
        for (size_t i = 0; i < sizeof places / sizeof *places; ++i)
            if (!strcmp(word[w], places[i].word)) set_place(&k, &places[i]), taken[w] = 1;
        for (size_t i = 0; i < sizeof hours / sizeof *hours; ++i)
            if (!strcmp(word[w], hours[i].word)) set_hour(&k, &hours[i]), taken[w] = 1;
    }
    for (int w = 0; w < count; ++w)
        if (!taken[w] && strcmp(word[w], "the") && strlen(word[w]) > 2) set_mood(&k, word[w]);
    if (k.lava > 0.0f) k.horizon = add(k.horizon, (vec){.16f, .035f, .008f});
    return k;
}

/* ---- heights ---- */

static float dune(float u, float v, uint32_t seed)
{
    const float bent = 4.0f * u + 7.0f * v + 1.5f * clouds(u, v, 3, 4, seed), wave = bent - (float)floor_int(bent);
    const float side = wave < 0.72f ? wave / 0.72f : (1.0f - wave) / 0.28f; /* long on the windward side, steep on the other */
    const float big  = 0.5f + 0.5f * clouds(u, v, 2, 3, seed + 7u);
    return 0.9f * side * side * (3.0f - 2.0f * side) * (0.25f + big) * 0.62f + 0.35f * big;
}

/* 0 to about 1. */
static float raw_height(const look *k, float u, float v)
{
    const uint32_t s = k->seed;
    const float    wu = u + 0.09f * clouds(u, v, 3, 2, s + 1u), wv = v + 0.09f * clouds(u, v, 3, 2, s + 2u);
    float          h;
    if (k->dunes > 0.0f) return dune(u, v, s);
    h = k->ridges < 1.0f ? 0.5f + 0.62f * clouds(wu, wv, 3, 6, s + 3u) : 0.0f;
    if (k->ridges > 0.0f) h = blend(h, 1.15f * crests(wu, wv, 3, 6, s + 4u), k->ridges);
    if (k->ridges > 0.3f) h *= 0.45f + 0.75f * smooth(-0.35f, 0.45f, clouds(u, v, 2, 2, s + 5u)); /* ranges, and room between them */
    if (k->mesas > 0.0f) {
        const float step = h * k->mesas, base = (float)floor_int(step);
        h = blend(h, (base + smooth(0.62f, 0.92f, step - base)) / k->mesas, 0.88f);
    }
    if (k->cone > 0.0f) {
        const float dx = u - 0.5f, dy = v - 0.72f, r = sqrtf(dx * dx + dy * dy) * (1.0f + 0.12f * clouds(u, v, 6, 3, s + 6u));
        h = 0.62f * h + (r < 0.035f ? 0.62f + 6.0f * r : 0.86f * expf(-(r - 0.035f) * 8.5f) - 0.03f);
    }
    return clamp(h, 0.0f, 1.3f);
}

typedef struct drop {
    float x, y, dx, dy, speed, water, load;
} drop;

/* Height and slope between four places. */
static float height_near(const float *height, int side, float x, float y, float *sx, float *sy)
{
    const int   ix = floor_int(x), iy = floor_int(y), mask = side - 1;
    const float fx = x - (float)ix, fy = y - (float)iy;
    const float a = height[(iy & mask) * side + (ix & mask)], b = height[(iy & mask) * side + ((ix + 1) & mask)];
    const float c = height[((iy + 1) & mask) * side + (ix & mask)], d = height[((iy + 1) & mask) * side + ((ix + 1) & mask)];
    *sx = blend(b - a, d - c, fy);
    *sy = blend(c - a, d - b, fx);
    return blend(blend(a, b, fx), blend(c, d, fx), fy);
}

static void height_add(float *height, int side, float x, float y, float amount)
{
    const int   ix = floor_int(x), iy = floor_int(y), mask = side - 1;
    const float fx = x - (float)ix, fy = y - (float)iy;
    height[(iy & mask) * side + (ix & mask)] += amount * (1.0f - fx) * (1.0f - fy);
    height[(iy & mask) * side + ((ix + 1) & mask)] += amount * fx * (1.0f - fy);
    height[((iy + 1) & mask) * side + (ix & mask)] += amount * (1.0f - fx) * fy;
    height[((iy + 1) & mask) * side + ((ix + 1) & mask)] += amount * fx * fy;
}

/* Rain: each drop runs downhill, takes ground along where it is fast and leaves it where it is slow. */
static void wear(float *height, int side, float strength, uint32_t seed)
{
    const int drops = (int)((float)(side * side / 8) * strength);
    for (int n = 0; n < drops; ++n) {
        drop p = {.speed = 1.0f, .water = 1.0f};
        p.x = dice(&seed) * (float)side;
        p.y = dice(&seed) * (float)side;
        for (int life = 0; life < 28; ++life) {
            float       sx, sy, length, fall, room;
            const float x = p.x, y = p.y, before = height_near(height, side, x, y, &sx, &sy);
            p.dx   = 0.3f * p.dx - 0.7f * sx;
            p.dy   = 0.3f * p.dy - 0.7f * sy;
            length = sqrtf(p.dx * p.dx + p.dy * p.dy);
            if (length < 1e-5f) break;
            p.x += p.dx / length;
            p.y += p.dy / length;
            fall = before - height_near(height, side, p.x, p.y, &sx, &sy);
            room = (fall > 0.02f ? fall : 0.02f) * p.speed * p.water * 3.0f - p.load;
            if (fall < 0.0f || room < 0.0f) {
                const float left = fall < 0.0f ? (-fall < p.load ? -fall : p.load) : -0.3f * room;
                p.load -= left;
                height_add(height, side, x, y, left);
            } else {
                const float taken = 0.25f * room < fall ? 0.25f * room : fall;
                p.load += taken;
                height_add(height, side, x, y, -taken);
            }
            p.speed = sqrtf(clamp(p.speed * p.speed + fall * 2.0f, 0.04f, 9.0f));
            p.water *= 0.96f;
        }
    }
}

static void halve_heights(const float *from, int side, float *to)
{
    for (int y = 0; y < side / 2; ++y)
        for (int x = 0; x < side / 2; ++x) {
            const float *p = from + 2 * y * side + 2 * x;
            to[y * side / 2 + x] = 0.25f * (p[0] + p[1] + p[side] + p[side + 1]);
        }
}

static void raise(land *l)
{
    const look *k    = &l->look;
    const int   side = l->side;
    for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) l->height[0][y * side + x] = k->amplitude * raw_height(k, (float)x / (float)side, (float)y / (float)side);
    if (k->erosion > 0.0f) wear(l->height[0], side, k->erosion, k->seed);
    for (int level = 1; level < LEVELS; ++level) halve_heights(l->height[level - 1], side >> (level - 1), l->height[level]);
}

/* ---- what is there, and what the light makes of it ---- */

/* How much of the sun a place sees. */
static float sunlit(const land *l, int x, int y)
{
    const look *k    = &l->look;
    const float flat = sqrtf(k->to_sun.x * k->to_sun.x + k->to_sun.z * k->to_sun.z), rise = k->to_sun.y / flat;
    const float unit_of = (float)SPAN / (float)l->side, dx = k->to_sun.x / flat, dy = k->to_sun.z / flat;
    const float from = l->height[0][y * l->side + x];
    float       seen = 1.0f;
    for (float far = 1.5f; far < 90.0f && seen > 0.0f; far *= 1.22f) {
        const int   level = far < 5.0f ? 0 : far < 16.0f ? 1 : 2, side = l->side >> level;
        const float at = far / unit_of, px = ((float)x + dx * at) / (float)(1 << level), py = ((float)y + dy * at) / (float)(1 << level);
        const float above = from + rise * far - l->height[level][(floor_int(py) & (side - 1)) * side + (floor_int(px) & (side - 1))];
        seen = least(seen, 0.5f + above / (0.22f * far + 0.6f));
    }
    return clamp(seen, 0.0f, 1.0f);
}

/* Colours are kept as square roots of quarters, so that lava fits; `wet` is the depth of the water, 0 on land. */
static texel texel_new(vec c, float wet)
{
    return (texel){(uint8_t)(clamp(sqrtf(c.x * 0.25f), 0, 1) * 255.0f + 0.5f), (uint8_t)(clamp(sqrtf(c.y * 0.25f), 0, 1) * 255.0f + 0.5f),
                   (uint8_t)(clamp(sqrtf(c.z * 0.25f), 0, 1) * 255.0f + 0.5f), (uint8_t)(clamp(wet, 0, 1) * 255.0f + 0.5f)};
}

typedef struct ground {
    vec   colour;
    float depth; /* of water */
    float shade; /* extra darkness */
} ground;

/* `over`: how far it is above its surroundings. */
static ground ground_at(land *l, int x, int y, float steep, float over)
{
    const look    *k    = &l->look;
    const float    u    = (float)x / (float)l->side, v = (float)y / (float)l->side;
    float         *here = &l->height[0][y * l->side + x];
    const float    sea  = k->water_level * k->amplitude, high = *here / k->amplitude, shore = most(k->water_level, 0.0f);
    const float    fine = clouds(u, v, 32, 3, k->seed + 11u), wide = clouds(u, v, 8, 2, k->seed + 12u);
    const uint32_t at   = (uint32_t)(y * l->side + x) ^ k->seed;
    ground         g    = {.depth = sea - *here, .shade = 1.0f};
    float          grows;
    g.colour = mix(k->low, k->high, clamp(1.9f * (high - shore) / (1.0f - shore) + 0.5f * wide + 0.2f * fine, 0.0f, 1.0f));
    g.colour = scale(g.colour, 1.0f + 0.35f * fine);
    if (k->strata > 0.0f) {
        const float band = sinf(*here * 2.1f + 2.0f * wide) + 0.6f * sinf(*here * 5.3f + 1.0f);
        g.colour = mix(g.colour, scale(k->rock, 1.0f + 0.28f * band), smooth(0.25f, 0.7f, steep));
    } else {
        g.colour = mix(g.colour, scale(k->rock, 1.0f + 0.4f * fine), smooth(0.55f, 1.0f, steep + 0.25f * fine));
    }
    g.colour = mix(g.colour, k->peak, smooth(-0.05f, 0.05f, high - k->snow_above + 0.12f * wide) * smooth(1.25f, 0.8f, steep + 0.3f * fine));
    if (g.depth < 0.0f && -g.depth < 1.1f && k->lava == 0.0f && k->floes == 0.0f) /* a beach */
        g.colour = mix((vec){.62f, .53f, .38f}, g.colour, smooth(0.4f, 1.1f, -g.depth + 0.4f * fine));
    grows = k->trees * 0.5f * smooth(-0.15f, 0.3f, wide + 0.3f * fine - 0.04f * over);
    if (g.depth < -1.2f && steep < 0.75f && high < k->snow_above + 0.1f && chance(at) < grows) {
        *here += 0.7f + 1.1f * chance(at + 1u);
        g.colour = scale(k->tree, 0.7f + 1.2f * chance(at + 2u));
        g.shade  = 0.9f;
    }
    if (k->floes > 0.0f && g.depth > -0.6f) { /* ice on the water, broken */
        const float crack = cracks(u + 0.01f * fine, v + 0.01f * wide, 20, k->seed) - 0.05f - 0.30f * clamp(wide + 0.05f, 0.0f, 1.0f);
        if (crack > 0.0f) {
            const float ridge = smooth(0.10f, 0.0f, crack) * (0.6f + fine);
            *here    = sea + 0.30f + 0.9f * clamp(ridge, 0.0f, 1.0f) + 0.35f * clouds(u, v, 32, 2, k->seed + 13u);
            g.colour = mix(k->low, k->rock, clamp(0.6f * ridge + 0.5f * fine + 0.15f, 0.0f, 1.0f));
            g.depth  = -1.0f;
        } else {
            g.depth = most(g.depth, 1.5f);
        }
    }
    return g;
}

static vec light_on(const look *k, vec colour, vec normal, float seen, float open)
{
    const vec   sky = add(scale(k->zenith, 0.65f), scale(k->horizon, 0.35f));
    const float sun = most(dot(normal, k->to_sun), 0.0f) * seen;
    const vec   bounce = scale(times(k->sun, colour), 0.06f * (1.0f - normal.y) * k->to_sun.y + 0.015f);
    return add(times(colour, add(scale(k->sun, sun), scale(sky, 0.62f * open * (0.6f + 0.4f * normal.y)))), bounce);
}

static void halve_texels(const texel *from, int side, texel *to)
{
    for (int y = 0; y < side / 2; ++y)
        for (int x = 0; x < side / 2; ++x) {
            const texel *a = from + 2 * y * side + 2 * x, *b = a + side;
            to[y * side / 2 + x] = (texel){(uint8_t)((a[0].red + a[1].red + b[0].red + b[1].red) / 4),
                                           (uint8_t)((a[0].green + a[1].green + b[0].green + b[1].green) / 4),
                                           (uint8_t)((a[0].blue + a[1].blue + b[0].blue + b[1].blue) / 4),
                                           (uint8_t)((a[0].wet + a[1].wet + b[0].wet + b[1].wet) / 4)};
        }
}

/* The light of a place that is done. `below`: how far its surroundings are above it. */
static vec shine(const land *l, int x, int y, const ground *g, vec normal, float below)
{
    const look *k = &l->look;
    const float u = (float)x / (float)l->side, v = (float)y / (float)l->side, clear = expf(-0.55f * most(g->depth, 0.0f));
    const vec   c = light_on(k, g->colour, normal, sunlit(l, x, y), g->shade * clamp(1.0f - 0.22f * below, 0.45f, 1.15f));
    if (k->lava > 0.0f && g->depth > 0.0f) return k->water;
    if (k->lava > 0.0f) {
        const float vein = 1.0f - fabsf(clouds(u, v, 6, 4, k->seed + 14u)), near = most(g->depth + 8.0f, 0.0f);
        const float hot  = smooth(0.955f, 1.0f, vein) * smooth(0.0f, 0.2f, clouds(u, v, 4, 2, k->seed + 15u) + 0.06f);
        const float warm = smooth(0.80f, 1.0f, vein) * smooth(0.0f, 0.3f, hot + 0.1f);
        const vec   glow = add(scale((vec){.16f, .016f, 0}, warm), scale((vec){.0060f, .0009f, .0001f}, near * near));
        return add(c, add(scale(k->water, hot * hot), glow));
    }
    if (g->depth <= 0.0f) return c;
    return mix(light_on(k, k->water, (vec){0, 1, 0}, 1.0f, 1.2f), times(c, (vec){.5f, .85f, .9f}), clear); /* the bottom fades */
}

/* How the ground rises. */
static void slope_at(const land *l, int x, int y, float *dx, float *dy)
{
    const int    side = l->side, mask = side - 1;
    const float *h = l->height[0];
    const float  across = 2.0f * (float)SPAN / (float)side;
    *dx = (h[y * side + ((x + 1) & mask)] - h[y * side + ((x - 1) & mask)]) / across;
    *dy = (h[((y + 1) & mask) * side + x] - h[((y - 1) & mask) * side + x]) / across;
}

/* Ground, then light: shadows need all that stands on the ground. Water is level. */
static void paint(land *l, ground *grounds)
{
    const int   side = l->side;
    const float sea  = l->look.water_level * l->look.amplitude;
    float      *h    = l->height[0], dx, dy;
    for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) {
            slope_at(l, x, y, &dx, &dy);
            grounds[y * side + x] = ground_at(l, x, y, sqrtf(dx * dx + dy * dy), h[y * side + x] - l->height[3][(y >> 3) * (side >> 3) + (x >> 3)]);
        }
    l->highest = sea;
    for (int i = 0; i < side * side; ++i) {
        if (grounds[i].depth > 0.0f) h[i] = sea;
        l->highest = most(l->highest, h[i]);
    }
    for (int level = 1; level < LEVELS; ++level) halve_heights(l->height[level - 1], side >> (level - 1), l->height[level]);
    for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) {
            const ground *g = &grounds[y * side + x];
            slope_at(l, x, y, &dx, &dy);
            l->texel[0][y * side + x] =
                texel_new(shine(l, x, y, g, unit((vec){-dx, 1.0f, -dy}), l->height[2][(y >> 2) * (side >> 2) + (x >> 2)] - h[y * side + x]),
                          g->depth > 0.0f ? 0.12f + 0.3f * g->depth : 0.0f);
        }
    for (int level = 1; level < LEVELS; ++level) halve_texels(l->texel[level - 1], side >> (level - 1), l->texel[level]);
}

/* ---- whole lands ---- */

/* Returns 0 where there is no memory. */
static int land_new(land *l, int side)
{
    l->side = side;
    for (int level = 0; level < LEVELS; ++level) {
        const size_t count = (size_t)(side >> level) * (size_t)(side >> level);
        l->height[level] = calloc(count, sizeof(float));
        l->texel[level]  = calloc(count, sizeof(texel));
        if (!l->height[level] || !l->texel[level]) return 0;
    }
    return 1;
}

static void land_free(land *l)
{
    for (int level = 0; level < LEVELS; ++level) free(l->height[level]), free(l->texel[level]);
}

/* `grounds`: scratch, side x side of them. */
static void land_make(land *l, const char *text, size_t size, ground *grounds)
{
    l->look = look_of(text, size);
    raise(l);
    paint(l, grounds);
}

/* A place of a level is the mean of four: its middle lies off the first of them. */
static const float level_aside[LEVELS] = {0.0f, 0.25f, 0.375f, 0.4375f};

/* The height of the ground, or of the water on it. Units. */
static float land_height(const land *l, int level, float x, float z)
{
    const int    side = l->side >> level, mask = side - 1;
    const float  to = (float)side / (float)SPAN, aside = level_aside[level], px = x * to - aside, pz = z * to - aside;
    const int    ix = floor_int(px), iz = floor_int(pz);
    const float  fx = px - (float)ix, fz = pz - (float)iz;
    const float *up = l->height[level] + (iz & mask) * side, *down = l->height[level] + ((iz + 1) & mask) * side;
    return blend(blend(up[ix & mask], up[(ix + 1) & mask], fx), blend(down[ix & mask], down[(ix + 1) & mask], fx), fz);
}

static float land_water(const land *l) { return l->look.water_level * l->look.amplitude; }

#endif
