/* From a flight over a land to a picture, for 03_world: what DEFERRED does. A ray of steps for each column of pixels, near to far;
 * what rises above all before it is seen. Then water mirrors what is above it, things are drawn, and light is toned. Nothing of
 * rte in here. */
#ifndef WORLD_PICTURE_H
#define WORLD_PICTURE_H

#include "03_world_flight.h"

enum { EDGE = 128, PICTURE_BYTES = EDGE * EDGE * 3, GRAIN = 256, STEPS = 155, TONES = 4096, COARSE = EDGE / 4 };

/* The same for all pictures; picture_begin fills it. */
static float grain[GRAIN][GRAIN]; /* noise that repeats */
static float distance[STEPS];     /* of the steps of a ray */
static uint16_t tones[TONES];     /* of a light from 2^-12 to 2^4, by the first bits of its float: 256ths of 0 to 255 */

static const float lens = 88.0f, farthest = 235.0f, darkest = 1.0f / 4096.0f; /* pixels a unit of width at distance 1; units; light */

/* Air and clouds: their light, and how much of what is behind them they let through. */
typedef struct veil {
    vec   light;
    float open;
    int   known;
} veil;

/* What a picture is made in. Columns first: x, then y. */
typedef struct canvas {
    vec   light[EDGE][EDGE];
    float depth[EDGE][EDGE];
    float mirror[EDGE][EDGE], wobble[EDGE][EDGE]; /* of water: its share of mirrored light, and how far off that is */
    veil  veil[EDGE / 2 + 1][EDGE / 2 + 1]; /* of every second pixel */
    vec   bloom[2][COARSE][COARSE];
} canvas;

typedef struct view {
    const land   *land;
    const flight *flight;
    canvas       *canvas;
    vec           eye, ahead, right;
    float         horizon, tilt; /* in pixels, in pixels a pixel */
    float         time;
    float         flares; /* how bright they are; 0: there are none */
} view;

static void picture_begin(void)
{
    for (int y = 0; y < GRAIN; ++y)
        for (int x = 0; x < GRAIN; ++x) grain[y][x] = clouds((float)x / GRAIN, (float)y / GRAIN, 5, 6, 77u);
    for (int i = 0; i < STEPS; ++i) distance[i] = i ? distance[i - 1] * 1.03f : 2.5f;
    for (int i = 0; i < TONES; ++i) {
        const float c = 0.74f * ldexpf(1.0f + (float)(i & 255) / 256.0f, i / 256 - 12);
        tones[i] = (uint16_t)(65280.0f * powf(clamp(c * (2.51f * c + 0.03f) / (c * (2.43f * c + 0.59f) + 0.14f), 0.0f, 1.0f), 1.0f / 2.2f));
    }
}

static inline float grain_at(float x, float y)
{
    const int   ix = floor_int(x), iy = floor_int(y);
    const float fx = x - (float)ix, fy = y - (float)iy;
    const float *a = grain[iy & (GRAIN - 1)], *b = grain[(iy + 1) & (GRAIN - 1)];
    const int   left = ix & (GRAIN - 1), right = (ix + 1) & (GRAIN - 1);
    return blend(blend(a[left], a[right], fx), blend(b[left], b[right], fx), fy);
}

/* How it rises along x and along y. */
static void grain_rise(float x, float y, float *along_x, float *along_y)
{
    const int    ix = floor_int(x), iy = floor_int(y), left = ix & (GRAIN - 1), right = (ix + 1) & (GRAIN - 1);
    const float  fx = x - (float)ix, fy = y - (float)iy;
    const float *a = grain[iy & (GRAIN - 1)], *b = grain[(iy + 1) & (GRAIN - 1)];
    *along_x = blend(a[right] - a[left], b[right] - b[left], fy);
    *along_y = blend(b[left] - a[left], b[right] - a[right], fx);
}

static float horizon_at(const view *v, float x) { return v->horizon + v->tilt * (x - 0.5f * EDGE); }

static vec ray(const view *v, float x, float y) /* through a pixel */
{
    const float across = (x - 0.5f * EDGE) / lens;
    return unit((vec){v->ahead.x + v->right.x * across, (horizon_at(v, x) - y) / lens, v->ahead.z + v->right.z * across});
}

/* ---- air ---- */

static vec air(const look *k, vec d)
{
    const float up   = most(d.y, 0.0f), near = 1.0f - dot(d, k->to_sun);
    const float glow = 1.0f / (1.0f + 26.0f * near), band = 1.0f / (1.0f + 3.2f * up + 22.0f * up * up);
    vec         c    = mix(k->zenith, k->horizon, band);
    return add(c, scale(k->sun, 0.20f * glow * glow + 0.05f * glow * band));
}

static vec stars(const look *k, vec d, float time)
{
    const float    x = d.x / (1.0f + d.y) * 30.0f, y = d.z / (1.0f + d.y) * 30.0f;
    const int      ix = floor_int(x), iy = floor_int(y);
    const uint32_t at   = (uint32_t)ix * 0x27d4eb2du ^ (uint32_t)iy * 0x165667b1u;
    const float    size = chance(at), dx = x - (float)ix - 0.2f - 0.6f * chance(at + 1u), dy = y - (float)iy - 0.2f - 0.6f * chance(at + 2u);
    const float    shape = 1.0f - (dx * dx + dy * dy) * 22.0f;
    float          light;
    if (size < 0.68f || shape <= 0.0f) return (vec){0, 0, 0};
    light = 7.0f * shape * k->stars * smooth(0.0f, 0.3f, d.y) * (size - 0.68f) * (size - 0.68f) * (3.0f + sinf(time * 3.0f + 40.0f * size));
    return scale((vec){0.9f, 0.8f + 0.2f * chance(at + 3u), 1.0f}, light);
}

static vec aurora(vec d, float time)
{
    const float high = d.y * 3.0f, x = d.x / (0.35f + d.y), z = d.z / (0.35f + d.y);
    const float bend = grain_at(x * 14.0f + time * 1.4f, z * 14.0f) * 2.2f;
    const float fold = z * 2.6f + bend - 3.0f, next = fold + 1.6f;
    const float sheet = 1.0f / (1.0f + 14.0f * fold * fold) + 0.7f / (1.0f + 20.0f * next * next);
    const float rays = 0.55f + 0.75f * clamp(grain_at(x * 60.0f + bend * 14.0f, time * 5.0f) + 0.25f, 0.0f, 1.0f);
    const vec   hue  = mix((vec){.05f, .85f, .38f}, (vec){.42f, .12f, .75f}, smooth(0.55f, 1.7f, high + 0.4f * bend));
    return scale(hue, 0.85f * sheet * rays * smooth(0.02f, 0.35f, high));
}

static veil veil_new(const view *v, vec d)
{
    const look *k = &v->land->look;
    veil        c = {air(k, d), 1.0f, 1};
    if (k->aurora > 0.0f) c.light = add(c.light, aurora(d, v->time));
    if (d.y > 0.015f) {
        const float far = 26.0f / (d.y + 0.06f);
        const float x = v->eye.x * 0.35f + d.x * far + v->flight->wind * 9.0f, z = v->eye.z * 0.35f + d.z * far;
        const float here = grain_at(x, z) + 0.4f * grain_at(x * 3.1f + 20.0f, z * 3.1f);
        const float thick = smooth(0.34f - k->cover, 0.85f - k->cover * 0.55f, here);
        if (thick > 0.0f) {
            const float sx = x + k->to_sun.x * 9.0f, sz = z + k->to_sun.z * 9.0f;
            const float sunny = grain_at(sx, sz) + 0.4f * grain_at(sx * 3.1f, sz * 3.1f);
            const float lit   = clamp(0.55f + 1.6f * (here - sunny), 0.08f, 1.2f), edge = most(dot(d, k->to_sun), 0.0f);
            const vec   grey  = add(scale(k->zenith, 0.55f), scale(k->horizon, 0.45f));
            const vec   cloud = add(grey, scale(k->sun, lit * (0.20f + 0.24f * edge * edge * edge)));
            const float hides = 0.88f * thick * smooth(0.015f, 0.11f, d.y);
            c.light = mix(c.light, cloud, hides);
            c.open  = 1.0f - hides;
        }
    }
    return c;
}

static vec behind(const view *v, vec d) /* the sun, the moon, the stars */
{
    const look *k = &v->land->look;
    const vec   disc = scale(k->sun, 7.0f * smooth(0.99835f, 0.9990f, dot(d, k->to_sun)));
    return k->stars > 0.0f ? add(disc, stars(k, d, v->time)) : disc;
}

static vec sky(const view *v, vec d)
{
    const veil c = veil_new(v, d);
    return add(c.light, scale(behind(v, d), c.open));
}

static veil *veil_near(const view *v, int x, int y)
{
    veil *c = &v->canvas->veil[x][y];
    if (!c->known) *c = veil_new(v, ray(v, (float)(2 * x), (float)(2 * y)));
    return c;
}

/* Of a pixel: clouds are soft enough to be looked at four times as seldom. */
static vec sky_pixel(const view *v, int x, int y)
{
    const veil *a = veil_near(v, x / 2, y / 2), *b = veil_near(v, x / 2 + 1, y / 2);
    const veil *c = veil_near(v, x / 2, y / 2 + 1), *d = veil_near(v, x / 2 + 1, y / 2 + 1);
    const float fx = x & 1 ? 0.75f : 0.25f, fy = y & 1 ? 0.75f : 0.25f;
    const vec   light = mix(mix(a->light, b->light, fx), mix(c->light, d->light, fx), fy);
    const float open  = blend(blend(a->open, b->open, fx), blend(c->open, d->open, fx), fy);
    return add(light, scale(behind(v, ray(v, (float)x + 0.5f, (float)y + 0.5f)), open));
}

/* ---- ground and water ---- */

typedef struct spot {
    vec   light;
    float mirror, wobble;
} spot;

static vec land_light(const land *l, int level, float x, float z, float *wet)
{
    const int    side = l->side >> level, mask = side - 1;
    const float  to = (float)side / (float)SPAN, aside = level_aside[level], px = x * to - aside, pz = z * to - aside;
    const int    ix = floor_int(px), iz = floor_int(pz);
    const float  fx = px - (float)ix, fz = pz - (float)iz, one = 2.0f / 255.0f;
    const texel *near = l->texel[level] + (floor_int(pz + 0.5f) & mask) * side + (floor_int(px + 0.5f) & mask);
    const texel *up = l->texel[level] + (iz & mask) * side, *down = l->texel[level] + ((iz + 1) & mask) * side;
    const texel *a = &up[ix & mask], *b = &up[(ix + 1) & mask], *c = &down[ix & mask], *d = &down[(ix + 1) & mask];
    if (level > 1) { /* smaller than a pixel */
        const float red = one * (float)near->red, green = one * (float)near->green, blue = one * (float)near->blue;
        *wet = (float)near->wet * (1.0f / 255.0f);
        return (vec){red * red, green * green, blue * blue};
    }
    const float  wa = (1.0f - fx) * (1.0f - fz), wb = fx * (1.0f - fz), wc = (1.0f - fx) * fz, wd = fx * fz;
    const float  red   = one * (wa * (float)a->red + wb * (float)b->red + wc * (float)c->red + wd * (float)d->red);
    const float  green = one * (wa * (float)a->green + wb * (float)b->green + wc * (float)c->green + wd * (float)d->green);
    const float  blue  = one * (wa * (float)a->blue + wb * (float)b->blue + wc * (float)c->blue + wd * (float)d->blue);
    *wet = 1.0f / 255.0f * (wa * (float)a->wet + wb * (float)b->wet + wc * (float)c->wet + wd * (float)d->wet);
    return (vec){red * red, green * green, blue * blue};
}

/* How the water leans at a place. */
static void water_lean(const view *v, float x, float z, float far, float *lean_x, float *lean_z)
{
    const flight *f = v->flight;
    const float   calm = 1.0f / (1.0f + far * 0.03f), t = v->time;
    const int     ix = floor_int(x) - f->pool_x, iz = floor_int(z) - f->pool_z;
    float         fine_x, fine_z, wide_x, wide_z;
    grain_rise(x * 5.0f + t * 5.0f, z * 5.0f + t * 3.0f, &fine_x, &fine_z);
    grain_rise(x * 1.7f - t * 2.0f, z * 1.7f, &wide_x, &wide_z);
    *lean_x = calm * (0.45f * fine_x + 0.30f * wide_x);
    *lean_z = calm * (0.45f * fine_z + 0.30f * wide_z);
    if (ix >= 1 && iz >= 1 && ix < POOL - 2 && iz < POOL - 2) {
        const float  fx = x - floorf(x), fz = z - floorf(z);
        const float *p = &f->pool[iz][ix], *up = p - POOL, *down = p + POOL, *far_down = down + POOL;
        *lean_x += 0.30f * blend(blend(p[1] - p[-1], p[2] - p[0], fx), blend(down[1] - down[-1], down[2] - down[0], fx), fz);
        *lean_z += 0.30f * blend(blend(down[0] - up[0], down[1] - up[1], fx), blend(far_down[0] - p[0], far_down[1] - p[1], fx), fz);
    }
    *lean_x = clamp(*lean_x, -0.5f, 0.5f);
    *lean_z = clamp(*lean_z, -0.5f, 0.5f);
}

static void water(const view *v, float x, float z, float far, float wet, spot *s)
{
    const look *k = &v->land->look;
    const float shore = smooth(0.02f, 0.14f, wet);
    if (k->lava > 0.0f) {
        const float t    = v->time * 2.5f;
        const float flow = grain_at(x * 4.0f, z * 4.0f + t) + 0.6f * grain_at(x * 11.0f + 3.0f, z * 11.0f + 1.6f * t);
        const float crust = smooth(-0.26f, 0.06f, flow) * smooth(0.1f, 0.4f, wet);
        s->light = mix(s->light, mix(scale(s->light, 1.25f), (vec){.16f, .022f, .006f}, 0.93f * crust), shore);
    } else {
        const vec d = unit((vec){x - v->eye.x, land_water(v->land) - v->eye.y, z - v->eye.z});
        float     lean_x, lean_z, down, bright;
        vec       normal, back;
        water_lean(v, x, z, far, &lean_x, &lean_z);
        normal = unit((vec){-lean_x, 1.0f, -lean_z});
        down   = clamp(1.0f + dot(d, normal), 0.0f, 1.0f);
        back   = subtract(d, scale(normal, 2.0f * dot(d, normal)));
        bright = 1.0f / (1.0f + 420.0f * (1.0f - least(dot(back, k->to_sun), 1.0f)));
        s->light  = scale(s->light, clamp(1.0f + shore * 5.0f * (lean_x * k->to_sun.x + lean_z * k->to_sun.z), 0.55f, 1.8f));
        s->light  = add(s->light, scale(k->sun, shore * (2.2f * bright * bright + 0.02f * bright)));
        s->mirror = shore * (0.03f + 0.80f * down * down * down * down);
        s->wobble = (lean_z * v->ahead.z + lean_x * v->ahead.x) * 220.0f;
    }
}

static vec flares_on(const flight *f, float x, float y, float z)
{
    float sum = 0.0f;
    for (int i = 0; i < FLARES; ++i)
        if (f->flare[i].life > 0.0f) {
            const vec   to = subtract(f->flare[i].at, (vec){x, y, z});
            const float d2 = dot(to, to);
            if (d2 < 400.0f) sum += smooth(0.0f, 0.15f, f->flare[i].life) * (1.0f - d2 / 400.0f) / (0.8f + 0.16f * d2);
        }
    return (vec){1.5f * sum, 0.80f * sum, 0.28f * sum};
}

static spot ground_spot(const view *v, vec haze, float x, float h, float z, float far, int level)
{
    const land *l = v->land;
    float       wet, fog, fine, high;
    spot        s = {.mirror = 0.0f};
    s.light = land_light(l, level, x, z, &wet);
    if (far < 60.0f && wet < 0.02f) {
        fine    = grain_at(x * 23.0f, z * 23.0f) + 0.6f * grain_at(x * 61.0f + h * 20.0f, z * 61.0f);
        s.light = scale(s.light, 1.0f + 0.55f * fine * smooth(60.0f, 6.0f, far));
    }
    if (v->flares > 0.0f) s.light = add(s.light, times(scale(flares_on(v->flight, x, h, z), v->flares), add(scale(s.light, 1.2f), (vec){.10f, .09f, .08f})));
    if (wet > 0.02f) water(v, x, z, far, wet, &s);
    high = most(h - land_water(l), 0.0f);
    fog  = l->look.fog * far * (0.0028f + 0.0075f / (1.0f + 0.012f * high * high)); /* it lies in the hollows */
    fog = 1.0f - 1.0f / (1.0f + fog * fog * (1.0f + 0.6f * fog));
    fog = most(fog, smooth(0.72f * farthest, farthest, far));
    s.light  = mix(s.light, haze, fog);
    s.mirror *= 1.0f - fog;
    return s;
}

/* From `top` (the smaller y) to `bottom`, with the part of each pixel that it covers. */
static void column_fill(canvas *c, int x, float top, float bottom, const spot *upper, const spot *lower, float far)
{
    const int   first = top > 0.0f ? (int)top : 0;
    const float one = 1.0f / most(bottom - top, 1.0f);
    for (int y = first; y < EDGE && (float)y < bottom; ++y) {
        const float part = least((float)(y + 1), bottom) - most((float)y, top);
        const float low = part * clamp(((float)y + 0.5f - top) * one, 0.0f, 1.0f), high = part - low;
        vec        *to = &c->light[x][y];
        to->x += high * upper->light.x + low * lower->light.x;
        to->y += high * upper->light.y + low * lower->light.y;
        to->z += high * upper->light.z + low * lower->light.z;
        c->mirror[x][y] += high * upper->mirror + low * lower->mirror;
        c->wobble[x][y] += high * upper->wobble + low * lower->wobble;
        if (part > 0.4f) c->depth[x][y] = far;
    }
}

static void column(const view *v, int x)
{
    canvas      *c      = v->canvas;
    const float  middle = horizon_at(v, (float)x + 0.5f), across = ((float)x + 0.5f - 0.5f * EDGE) / lens;
    const vec    way    = add(v->ahead, scale(v->right, across));
    const vec    low    = unit((vec){way.x, 0.02f, way.z}), haze = air(&v->land->look, low);
    const float  length = sqrtf(1.0f + across * across);
    float        top    = EDGE;
    spot         before = {.mirror = 0.0f};
    int          any    = 0;
    for (int step = 0; step < STEPS && top > 0.0f; ++step) {
        const float far = distance[step];
        const int   level = far < 34.0f ? 0 : far < 75.0f ? 1 : far < 150.0f ? 2 : 3;
        const float px = v->eye.x + way.x * far, pz = v->eye.z + way.z * far, h = land_height(v->land, level, px, pz);
        const float y = middle + (v->eye.y - h) * lens / far;
        if (middle + (v->eye.y - v->land->highest) * lens / (v->land->highest > v->eye.y ? far : farthest) > top) break; /* no more can be seen */
        if (y < top - 0.4f) {
            const spot here = ground_spot(v, haze, px, h, pz, far * length, level);
            column_fill(c, x, y, top, &here, any ? &before : &here, far);
            before = here;
            any    = 1;
            top    = y;
        }
    }
    for (int y = 0; y < EDGE && (float)y < top; ++y) {
        const float part = least((float)(y + 1), top) - (float)y;
        c->light[x][y] = add(c->light[x][y], scale(sky_pixel(v, x, y), part));
        if (part > 0.6f) c->depth[x][y] = 1e6f;
    }
}

static void column_copy(canvas *c, int from, int to)
{
    memcpy(c->light[to], c->light[from], sizeof c->light[to]);
    memcpy(c->depth[to], c->depth[from], sizeof c->depth[to]);
    memcpy(c->mirror[to], c->mirror[from], sizeof c->mirror[to]);
    memcpy(c->wobble[to], c->wobble[from], sizeof c->wobble[to]);
}

/* What water mirrors is looked up in the picture: where it must be if it is as far away as what was found there. */
static void mirror(const view *v)
{
    canvas     *c    = v->canvas;
    const float over = v->eye.y - land_water(v->land);
    for (int x = 0; x < EDGE; ++x) {
        const float middle = horizon_at(v, (float)x + 0.5f);
        for (int y = EDGE - 1; y >= 0; --y) {
            const float here = c->depth[x][y], share = c->mirror[x][y];
            float       at = 0.0f, far = 400.0f;
            vec         seen;
            int         row = -1;
            if (share < 0.004f) continue;
            for (int again = 0; again < 2; ++again) {
                at  = 2.0f * middle - (float)y + 2.0f * over * lens / far + c->wobble[x][y];
                row = floor_int(at);
                if (row < 0 || row >= EDGE || c->depth[x][row] < here) break;
                far = least(c->depth[x][row], 1000.0f);
            }
            if (row >= 0 && row < EDGE && c->depth[x][row] > here * 1.03f && c->mirror[x][row] < 0.02f) {
                seen = c->light[x][row];
            } else {
                vec d = ray(v, (float)x + 0.5f, 2.0f * middle - (float)y + c->wobble[x][y]);
                d.y   = most(d.y, 0.03f);
                seen  = sky(v, d);
            }
            c->light[x][y] = mix(c->light[x][y], seen, share);
        }
    }
}

/* ---- things ---- */

/* Where a place is in the picture; returns its distance, below 0.3 where it is not. */
static float project(const view *v, vec at, float *x, float *y)
{
    const vec   d   = subtract(at, v->eye);
    const float far = dot(d, v->ahead);
    if (far < 0.3f) return 0.0f;
    *x = 0.5f * EDGE + dot(d, v->right) * lens / far;
    *y = horizon_at(v, *x) - d.y * lens / far;
    return far;
}

/* A soft dot; `solid` hides what is behind it, else it only shines. */
static void dab(const view *v, float x, float y, float radius, float far, vec light, float solid)
{
    canvas     *c = v->canvas;
    const int   left = floor_int(x - radius), top = floor_int(y - radius), right = floor_int(x + radius), bottom = floor_int(y + radius);
    const float size = most(radius, 0.5f), dim = radius < 0.5f ? radius * 2.0f : 1.0f;
    for (int px = left < 0 ? 0 : left; px <= right && px < EDGE; ++px)
        for (int py = top < 0 ? 0 : top; py <= bottom && py < EDGE; ++py) {
            const float dx = (float)px + 0.5f - x, dy = (float)py + 0.5f - y;
            const float t = most(0.0f, 1.0f - (dx * dx + dy * dy) / (size * size + 0.25f)), part = dim * t * t;
            if (c->depth[px][py] < far) continue;
            c->light[px][py] = add(scale(c->light[px][py], 1.0f - part * solid), scale(light, part));
        }
}

static void specks(const view *v)
{
    static const vec   colours[] = { /* by weather */
        {0, 0, 0}, {.9f, .95f, 1}, {2.6f, .75f, .12f}, {.9f, .62f, .36f}, {.9f, .9f, .45f}, {.75f, .26f, .05f}};
    static const float sizes[] = {0, .10f, .075f, .05f, .05f, .12f}, box = 26.0f;
    const look        *k = &v->land->look;
    const vec          bright = add(scale(k->sun, 0.22f), scale(k->horizon, 0.6f)), middle = add(v->eye, scale(v->ahead, 11.0f));
    if (k->weather == CLEAR) return;
    for (int i = 0; i < SPECKS; ++i) {
        vec   at = scale(v->flight->speck[i], box), d, light = colours[k->weather];
        float x, y, far, radius;
        d   = subtract(at, middle); /* the one of its copies that is nearest to the middle of the view */
        d   = subtract(d, scale((vec){floorf(d.x / box + 0.5f), floorf(d.y / box + 0.5f), floorf(d.z / box + 0.5f)}, box));
        far = project(v, add(d, middle), &x, &y);
        if (far < 1.2f) continue;
        radius = sizes[k->weather] * lens / far;
        light  = k->weather == EMBERS ? scale(light, 0.6f + 0.4f * sinf(v->time * 9.0f + (float)i * 2.1f)) : times(light, bright);
        dab(v, x, y, least(radius, 2.2f), far, scale(light, clamp(far * 0.4f - 0.4f, 0.0f, 1.0f)), k->weather == EMBERS ? 0.0f : 0.8f);
    }
}

static void flares(const view *v)
{
    for (int i = 0; i < FLARES; ++i) {
        const flare *p = &v->flight->flare[i];
        const float  life = smooth(0.0f, 0.15f, p->life) * (0.9f + 0.1f * sinf(v->time * 21.0f + (float)i));
        float        x, y, far;
        if (p->life <= 0.0f || (far = project(v, p->at, &x, &y)) < 0.5f) continue;
        dab(v, x, y, clamp(62.0f / far, 1.2f, 12.0f), far - 0.8f, scale((vec){1.0f, .45f, .12f}, 0.55f * life), 0.0f);
        dab(v, x, y, clamp(17.0f / far, 0.8f, 3.5f), far - 0.8f, scale((vec){4.0f, 3.0f, 1.7f}, life), 0.6f);
    }
}

static void shadow(const view *v)
{
    const land *l = v->land;
    vec         at = v->flight->at;
    float       x, y, far, high;
    at.y = land_height(l, 0, at.x, at.z);
    high = v->flight->at.y - at.y;
    if (high > 30.0f || l->look.stars >= 1.0f || (far = project(v, at, &x, &y)) < 1.0f) return;
    for (int i = -2; i <= 2; ++i)
        dab(v, x + (float)i * 22.0f / far, y, 30.0f / far, far - 3.0f, (vec){0, 0, 0}, 0.36f / (1.0f + 0.04f * high));
}

static void trails(const view *v)
{
    const flight *f = v->flight;
    const vec     light = add(scale(v->land->look.horizon, 0.30f), (vec){.12f, .12f, .13f});
    const int     count = f->steps < TRAIL ? (int)f->steps : TRAIL;
    for (int side = 0; side < 2; ++side)
        for (int age = 1; age < count; ++age) {
            const size_t newer = (size_t)(f->steps + TRAIL - (unsigned)age) % TRAIL;
            const vec   *a = &f->trail[newer][side], *b = &f->trail[(newer + TRAIL - 1) % TRAIL][side];
            float       ax, ay, bx, by, far = project(v, *a, &ax, &ay);
            const float fades = 0.6f * (1.0f - (float)age / TRAIL);
            int         dabs;
            if (far < 1.5f || project(v, *b, &bx, &by) < 1.5f) continue;
            dabs = 1 + (int)(1.5f * (fabsf(bx - ax) + fabsf(by - ay)));
            for (int i = 0; i < dabs && dabs < 40; ++i)
                dab(v, blend(ax, bx, (float)i / (float)dabs), blend(ay, by, (float)i / (float)dabs), 0.6f, far, scale(light, fades), 0.0f);
        }
}

/* A flat triangle; corners in the picture, four samples a pixel each way. */
static void triangle(const view *v, const vec p[3], vec light)
{
    float x[3], y[3], left = EDGE, right = 0, top = EDGE, bottom = 0, area;
    for (int i = 0; i < 3; ++i) {
        if (project(v, p[i], &x[i], &y[i]) < 0.5f) return;
        left = least(left, x[i]), right = most(right, x[i]), top = least(top, y[i]), bottom = most(bottom, y[i]);
    }
    area = (x[1] - x[0]) * (y[2] - y[0]) - (x[2] - x[0]) * (y[1] - y[0]);
    for (int px = left > 0 ? (int)left : 0; px < EDGE && (float)px < right; ++px)
        for (int py = top > 0 ? (int)top : 0; py < EDGE && (float)py < bottom; ++py) {
            int hits = 0;
            for (int i = 0; i < 16; ++i) {
                const float sx = (float)px + 0.125f + 0.25f * (float)(i & 3), sy = (float)py + 0.125f + 0.25f * (float)(i >> 2);
                int         in = 1;
                for (int e = 0; e < 3; ++e) {
                    const int n = (e + 1) % 3;
                    in &= ((x[n] - x[e]) * (sy - y[e]) - (sx - x[e]) * (y[n] - y[e])) * area >= 0.0f;
                }
                hits += in;
            }
            if (hits) v->canvas->light[px][py] = mix(v->canvas->light[px][py], light, (float)hits / 16.0f);
        }
}

static void plane(const view *v, vec paper)
{
    static const vec shape[] = {{0, 0, 1.75f},       {-1.35f, .24f, -1.1f}, {-.26f, .03f, -1.1f},
                                {0, -.52f, -1.1f},   {.26f, .03f, -1.1f},   {1.35f, .24f, -1.1f}};
    static const int faces[][3] = {{0, 2, 3}, {0, 4, 3}, {0, 1, 2}, {0, 4, 5}};
    const look      *k = &v->land->look;
    const vec        lit = flares_on(v->flight, v->flight->at.x, v->flight->at.y, v->flight->at.z);
    const vec        all_round = add(add(scale(k->horizon, 0.42f), scale(k->zenith, 0.3f)), add(scale(lit, 0.25f), (vec){.10f, .10f, .11f}));
    vec              right, up, nose, p[6];
    flight_axes(v->flight, &right, &up, &nose);
    for (int i = 0; i < 6; ++i) p[i] = add(v->flight->at, add(add(scale(right, shape[i].x), scale(up, shape[i].y)), scale(nose, shape[i].z)));
    for (int i = 0; i < 4; ++i) {
        const vec corner[3] = {p[faces[i][0]], p[faces[i][1]], p[faces[i][2]]};
        vec       normal = unit(cross(subtract(corner[1], corner[0]), subtract(corner[2], corner[0]))), light;
        if (normal.y < 0.0f) normal = scale(normal, -1.0f);
        light = add(all_round, scale(k->sun, 0.12f + 0.5f * most(dot(normal, k->to_sun), 0.0f)));
        triangle(v, corner, times(paper, scale(light, i < 2 ? 0.45f : i == 2 ? 1.0f : 0.86f)));
    }
}

/* ---- the light of all of it ---- */

static void bloom(canvas *c)
{
    for (int x = 0; x < COARSE; ++x)
        for (int y = 0; y < COARSE; ++y) {
            vec sum = {0, 0, 0};
            for (int i = 0; i < 4; ++i) { /* of each four pixels one will do */
                const vec p = c->light[4 * x + (i & 1) * 2 + 1][4 * y + (i & 2)];
                sum = add(sum, (vec){clamp(p.x - 0.85f, 0, 4), clamp(p.y - 0.85f, 0, 4), clamp(p.z - 0.85f, 0, 4)});
            }
            c->bloom[0][x][y] = scale(sum, 0.25f);
        }
    for (int pass = 0; pass < 4; ++pass)
        for (int x = 0; x < COARSE; ++x)
            for (int y = 0; y < COARSE; ++y) {
                const int along = pass & 1, at = along ? y : x, reach = 2;
                vec       sum   = {0, 0, 0};
                for (int i = -reach; i <= reach; ++i) {
                    const int other = at + i < 0 ? 0 : at + i >= COARSE ? COARSE - 1 : at + i;
                    sum = add(sum, along ? c->bloom[pass & 1][x][other] : c->bloom[pass & 1][other][y]);
                }
                c->bloom[~pass & 1][x][y] = scale(sum, 1.0f / (float)(2 * reach + 1));
            }
}

static inline uint8_t tone(float light, uint32_t dither)
{
    const float in = clamp(light, darkest, 15.9f);
    uint32_t    bits;
    memcpy(&bits, &in, sizeof bits);
    return (uint8_t)((tones[(bits >> 15) - (115u << 8)] + dither) >> 8);
}

static void develop(const canvas *c, uint8_t *out)
{
    for (int x = 0; x < EDGE; ++x) {
        const float at = clamp((float)x / 4.0f - 0.375f, 0.0f, COARSE - 1.001f), part = at - (float)(int)at, dx = ((float)x - 63.5f) / 90.0f;
        vec         glow[COARSE + 1];
        for (int i = 0; i < COARSE; ++i) glow[i] = scale(mix(c->bloom[0][(int)at][i], c->bloom[0][(int)at + 1][i], part), 0.55f);
        glow[COARSE] = glow[COARSE - 1];
        for (int y = 0; y < EDGE; ++y) {
            const float down = most((float)y / 4.0f - 0.375f, 0.0f), dy = ((float)y - 63.5f) / 90.0f, off = dx * dx + dy * dy;
            const vec      gleam = mix(glow[(int)down], glow[(int)down + 1], down - (float)(int)down);
            const vec      seen = scale(add(c->light[x][y], gleam), 1.0f - 0.30f * off * off); /* the corners are darker */
            const float    grey = 0.3f * seen.x + 0.6f * seen.y + 0.1f * seen.z;
            const uint32_t dither = (uint32_t)(x * 5 + y * 3 + (x & y) * 7) % 16u * 16u;
            uint8_t       *to = out + (y * EDGE + x) * 3;
            to[0] = tone(grey + 1.18f * (seen.x - grey), dither);
            to[1] = tone(grey + 1.18f * (seen.y - grey), dither);
            to[2] = tone(grey + 1.18f * (seen.z - grey), dither);
        }
    }
}

/* `paper`: the plane's colour. `out`: PICTURE_BYTES, rows from the top. */
static void picture(const flight *f, const land *l, vec paper, canvas *c, uint8_t *out)
{
    const float at = atan2f(f->at.x - f->eye.x, f->at.z - f->eye.z) + f->look_x;
    view        v  = {.land = l, .flight = f, .canvas = c, .eye = f->eye, .ahead = {sinf(at), 0, cosf(at)}, .right = {cosf(at), 0, -sinf(at)},
                      .horizon = 47.0f + (f->look_y + 0.6f * f->rise) * lens, .tilt = 0.30f * f->bank, .time = f->time};
    const int coarse = l->side < 512 ? 512 / l->side : 1; /* a coarse land is looked at coarsely */
    for (int i = 0; i < FLARES; ++i)
        if (f->flare[i].life > 0.0f) v.flares = l->look.stars > 0.5f ? 1.0f : 0.4f; /* less by day */
    memset(c, 0, sizeof *c);
    for (int x = 0; x < EDGE; ++x) {
        const int like = x & ~(coarse - 1);
        if (like == x) column(&v, x);
        else column_copy(c, like, x);
    }
    mirror(&v);
    shadow(&v);
    trails(&v);
    flares(&v);
    plane(&v, paper);
    specks(&v);
    bloom(c);
    develop(c, out);
}

#endif
