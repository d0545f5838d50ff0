/* What moves in 03_world: a paper plane that is steered, what it drops, water that it stirs, and what the wind carries.
 * One flight_step a chunk; what it leaves in a `flight` is all that a picture of it needs. Nothing of rte in here. */
#ifndef WORLD_FLIGHT_H
#define WORLD_FLIGHT_H

#include "03_world_land.h"

enum { POOL = 64, TRAIL = 44, FLARES = 6, SPECKS = 150 };
enum { BOOST = 1, FLARE = 2 }; /* buttons */

typedef struct flare {
    vec   at, velocity;
    float life; /* 1 down to 0 */
} flare;

typedef struct flight {
    uint64_t steps;
    float    time; /* seconds */
    /* the plane */
    vec   at;
    float heading, bank, climb, rise, roll, speed;
    vec   trail[TRAIL][2]; /* from its wing tips, a ring */
    /* the eye behind it */
    vec   eye;
    float look_x, look_y;
    /* the rest */
    uint32_t buttons; /* of the step before */
    float    gust, wind;
    flare    flare[FLARES];
    uint32_t flares;
    vec      speck[SPECKS]; /* in a box that is everywhere: 0 to 1 */
    /* the water's height around (pool_x, pool_z), in places of a unit each, and what it was a step before */
    int   pool_x, pool_z;
    float pool[POOL][POOL], pool_before[POOL][POOL];
} flight;

static void flight_begin(flight *f, uint64_t name, const land *l)
{
    uint32_t chances = (uint32_t)name * 0x9e3779b9u + 5u;
    memset(f, 0, sizeof *f);
    f->at      = (vec){128.0f + 70.0f * (dice(&chances) - 0.5f), 0.0f, 6.0f + 20.0f * dice(&chances)};
    f->at.y    = land_height(l, 2, f->at.x, f->at.z) + 12.0f;
    f->heading = 0.25f * (dice(&chances) - 0.5f);
    f->speed   = 0.42f;
    f->eye     = add(f->at, (vec){0.0f, 3.0f, -9.0f});
    f->pool_x  = (int)f->at.x - POOL / 2;
    f->pool_z  = (int)f->at.z - POOL / 2;
    for (int i = 0; i < SPECKS; ++i) f->speck[i] = (vec){dice(&chances), dice(&chances), dice(&chances)};
    for (int i = 0; i < TRAIL; ++i) f->trail[i][0] = f->trail[i][1] = f->at;
}

static vec flight_ahead(const flight *f) { return (vec){sinf(f->heading), 0.0f, cosf(f->heading)}; }

/* The plane's own right and up, and its nose. */
static void flight_axes(const flight *f, vec *right, vec *up, vec *nose)
{
    const vec   ahead = flight_ahead(f), side = {ahead.z, 0.0f, -ahead.x};
    const float turn  = f->bank + f->roll;
    *nose  = unit(add(ahead, (vec){0.0f, f->rise * 1.6f, 0.0f}));
    *up    = cross(*nose, side);
    *right = add(scale(side, cosf(turn)), scale(*up, -sinf(turn)));
    *up    = cross(*nose, *right);
}

/* ---- water ---- */

/* Keeps the plane in the middle of it: what leaves on one side comes in, still, on the other. */
static void pool_follow(flight *f)
{
    static float still[POOL]; /* never written */
    const int    dx = floor_int(f->at.x) - POOL / 2 - f->pool_x, dz = floor_int(f->at.z) + 6 - POOL / 2 - f->pool_z;
    if (!dx && !dz) return;
    for (int k = 0; k < POOL; ++k) {
        const int y = dz > 0 ? k : POOL - 1 - k, from = y + dz; /* in the order in which nothing is overwritten too early */
        for (int which = 0; which < 2; ++which) {
            float (*pool)[POOL] = which ? f->pool_before : f->pool;
            const float *source = from >= 0 && from < POOL ? pool[from] : still;
            const int    count  = POOL - abs(dx);
            if (count <= 0) {
                memset(pool[y], 0, sizeof pool[y]);
            } else if (dx >= 0) {
                memmove(pool[y], source + dx, (size_t)count * sizeof(float));
                memset(pool[y] + count, 0, (size_t)dx * sizeof(float));
            } else {
                memmove(pool[y] - dx, source, (size_t)count * sizeof(float));
                memset(pool[y], 0, (size_t)-dx * sizeof(float));
            }
        }
    }
    f->pool_x += dx;
    f->pool_z += dz;
}

static void pool_press(flight *f, float x, float z, float depth)
{
    const int ix = floor_int(x) - f->pool_x, iz = floor_int(z) - f->pool_z;
    if (ix < 2 || iz < 2 || ix > POOL - 3 || iz > POOL - 3) return;
    for (int j = -1; j <= 1; ++j)
        for (int i = -1; i <= 1; ++i) f->pool[iz + j][ix + i] -= depth / (1.0f + (float)(i * i + j * j));
}

static void pool_wave(flight *f)
{
    for (int y = 1; y < POOL - 1; ++y)
        for (int x = 1; x < POOL - 1; ++x) {
            const float here = f->pool[y][x];
            const float bend = f->pool[y][x - 1] + f->pool[y][x + 1] + f->pool[y - 1][x] + f->pool[y + 1][x] - 4.0f * here;
            f->pool_before[y][x] = here + (here - f->pool_before[y][x]) * 0.985f + 0.22f * bend;
        }
    for (int y = 1; y < POOL - 1; ++y)
        for (int x = 1; x < POOL - 1; ++x) {
            const float now = f->pool_before[y][x];
            f->pool_before[y][x] = f->pool[y][x];
            f->pool[y][x]        = now * 0.997f;
        }
}

/* ---- one step ---- */

static void flight_steer(flight *f, const land *l, const float steer[2], const int64_t mouse[2])
{
    const vec   ahead = flight_ahead(f);
    float       below = land_water(l), wanted; /* below: what there is below and soon will be */
    f->bank += (clamp(steer[0], -1.0f, 1.0f) * 0.75f - f->bank) * 0.06f;
    f->heading += f->bank * 0.022f;
    f->climb += (clamp(steer[1], -1.0f, 1.0f) - f->climb) * 0.05f;
    for (int i = 0; i < 5; ++i) /* it keeps off the ground by itself */
        below = most(below, land_height(l, 2, f->at.x + ahead.x * 6.0f * (float)i, f->at.z + ahead.z * 6.0f * (float)i) - 1.2f * (float)i);
    wanted = below + 9.0f + 6.0f * f->climb;
    f->rise += clamp((wanted - f->at.y) * 0.012f - f->rise * 0.16f, -0.05f, 0.05f);
    f->at = add(f->at, add(scale(ahead, f->speed), (vec){0.0f, f->rise, 0.0f}));
    f->at.y = most(f->at.y, land_height(l, 0, f->at.x, f->at.z) + 1.0f);
    f->speed += (0.42f - f->speed) * 0.02f;
    f->roll *= 0.93f;
    f->look_x = clamp(f->look_x * 0.97f + (float)mouse[0] * 0.004f, -0.6f, 0.6f);
    f->look_y = clamp(f->look_y * 0.97f + (float)mouse[1] * 0.004f, -0.25f, 0.25f);
}

static void flight_press(flight *f, uint32_t buttons)
{
    const uint32_t down = buttons & ~f->buttons; /* newly */
    f->buttons = buttons;
    if (down & BOOST) f->rise += 0.35f, f->speed = 0.75f, f->roll += 6.2831853f;
    if (down & FLARE) {
        flare *to = &f->flare[f->flares++ % FLARES];
        *to = (flare){f->at, add(scale(flight_ahead(f), f->speed + 0.55f), (vec){0.0f, 0.12f, 0.0f}), 1.0f};
    }
}

static void flight_carry(flight *f, const land *l)
{
    static const vec drift[] = { /* by weather */
        {0, 0, 0}, {0, -.0042f, 0}, {0, .0040f, 0}, {.0016f, -.0002f, 0}, {.0004f, .0003f, 0}, {.0008f, -.0026f, 0}};
    const vec by = drift[l->look.weather];
    for (int i = 0; i < FLARES; ++i) {
        flare *p = &f->flare[i];
        float  below;
        if (p->life <= 0.0f) continue;
        p->life -= 1.0f / 260.0f;
        p->velocity.y -= 0.010f;
        p->at  = add(p->at, p->velocity);
        below  = land_height(l, 0, p->at.x, p->at.z) + 0.4f;
        if (p->at.y < below) {
            if (below < land_water(l) + 0.5f && p->velocity.y < -0.05f) pool_press(f, p->at.x, p->at.z, 2.2f);
            p->at.y     = below;
            p->velocity = (vec){p->velocity.x * 0.6f, -0.35f * p->velocity.y, p->velocity.z * 0.6f};
        }
    }
    f->gust = 0.96f * f->gust + 0.04f * sinf(f->time * 1.7f) * sinf(f->time * 0.61f + 1.0f);
    f->wind += 0.010f + 0.02f * f->gust;
    for (int i = 0; i < SPECKS; ++i) {
        const float own = 0.6f + 0.8f * chance((uint32_t)i);
        vec        *s   = &f->speck[i];
        s->x += own * by.x + 0.02f * f->gust * by.y + 0.0012f * sinf(f->time * 2.0f * own + (float)i);
        s->y += own * by.y;
        s->z += own * by.z + 0.0010f * cosf(f->time * 1.6f * own + (float)i * 1.3f);
        *s = (vec){s->x - (float)floor_int(s->x), s->y - (float)floor_int(s->y), s->z - (float)floor_int(s->z)};
    }
}

static void flight_watch(flight *f, const land *l)
{
    const float at = f->heading + 0.14f * f->bank;
    const vec   ahead = {sinf(at), 0.0f, cosf(at)};
    const vec   behind = add(f->at, add(scale(ahead, -8.6f), (vec){0.0f, 2.9f, 0.0f}));
    f->eye   = mix(f->eye, behind, 0.22f);
    f->eye.y = most(f->eye.y, land_height(l, 1, f->eye.x, f->eye.z) + 1.6f);
}

static void flight_step(flight *f, const land *l, const float steer[2], const int64_t mouse[2], uint32_t buttons)
{
    vec       right, up, nose;
    const int slot = (int)(f->steps % TRAIL);
    f->time = (float)f->steps / 60.0f;
    flight_press(f, buttons);
    flight_steer(f, l, steer, mouse);
    pool_follow(f);
    flight_carry(f, l);
    if (f->at.y - land_water(l) < 7.0f) pool_press(f, f->at.x, f->at.z, 0.05f * (7.0f - (f->at.y - land_water(l))));
    pool_wave(f);
    flight_watch(f, l);
    flight_axes(f, &right, &up, &nose);
    f->trail[slot][0] = add(f->at, add(scale(right, -1.25f), scale(nose, -1.1f)));
    f->trail[slot][1] = add(f->at, add(scale(right, 1.25f), scale(nose, -1.1f)));
    ++f->steps;
}

#endif
