/* The audio of 02_speech: WAV files of any rate -> 16 kHz mono -> recordings, each different. Nothing of rte in here. */
#ifndef SPEECH_AUDIO_H
#define SPEECH_AUDIO_H

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 16000 /* samples a second */, FRAME = 512 /* samples, 32 ms: what the detector takes at once */ };

static void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("02_speech: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static unsigned failures;

static void check(int holds, const char *format, ...)
{
    va_list arguments;
    if (holds) return;
    ++failures;
    va_start(arguments, format);
    fputs("FAILED: ", stdout);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) fatal("out of memory");
    return memory;
}

/* ---- files ---- */

typedef struct clip {
    float *samples;
    size_t count;
} clip;

/* Any rate to any other: a low-pass below both Nyquist frequencies (Hann-windowed sinc), evaluated only where samples are. */
static clip resample(const float *in, size_t count, uint32_t from, uint32_t to)
{
    const double pi = 3.14159265358979323846, cutoff = 0.94 * (from > to ? (double)to / from : 1.0);
    const size_t half = (size_t)ceil(16.0 / cutoff), taps = 2 * half;
    size_t       up = to, down = from, g, rest = down;
    double      *filter;
    clip         out;
    for (g = up; rest; ) { const size_t next = g % rest; g = rest; rest = next; }
    up /= g;
    down /= g;
    filter = allocate(up * taps, sizeof *filter);
    for (size_t phase = 0; phase < up; ++phase) {
        double *f = filter + phase * taps, sum = 0.0;
        for (size_t k = 0; k < taps; ++k) {
            const double x = (double)k + 1.0 - (double)half - (double)phase / (double)up, y = pi * cutoff * x;
            f[k] = (fabs(y) < 1e-9 ? 1.0 : sin(y) / y) * (0.5 + 0.5 * cos(pi * x / (double)half));
            sum += f[k];
        }
        for (size_t k = 0; k < taps; ++k) f[k] /= sum;
    }
    out.count   = count * up / down;
    out.samples = allocate(out.count, sizeof *out.samples);
    for (size_t i = 0; i < out.count; ++i) {
        const size_t at = i * down / up, phase = i * down % up; /* taps lie at at + 1 - half ... at + half */
        double       sum = 0.0;
        for (size_t k = 0; k < taps; ++k)
            if (at + 1 + k >= half && at + 1 + k - half < count) sum += filter[phase * taps + k] * (double)in[at + 1 + k - half];
        out.samples[i] = (float)sum;
    }
    free(filter);
    return out;
}

static uint32_t little_endian(const unsigned char *p, unsigned bytes)
{
    uint32_t value = 0;
    while (bytes--) value = value << 8 | p[bytes];
    return value;
}

/* A RIFF file of 16-bit PCM, as 16 kHz mono. No such file: an empty clip. */
static clip clip_load(const char *folder, const char *name)
{
    clip           out = {NULL, 0};
    char           path[1024];
    unsigned char  head[12], format[16] = {0};
    unsigned char *bytes;
    float         *mono;
    uint32_t       size = 0, channels, rate;
    size_t         count;
    FILE          *file;
    snprintf(path, sizeof path, "%s/wav/%s.wav", folder, name);
    file = fopen(path, "rb");
    if (!file) return out;
    if (fread(head, 1, 12, file) != 12 || memcmp(head, "RIFF", 4) || memcmp(head + 8, "WAVE", 4)) fatal("%s: not a WAV file", path);
    while (fread(head, 1, 8, file) == 8) {
        size = little_endian(head + 4, 4);
        if (!memcmp(head, "data", 4)) break;
        if (!memcmp(head, "fmt ", 4) && size >= 16 && fread(format, 1, 16, file) == 16) size -= 16;
        fseek(file, (long)(size + size % 2), SEEK_CUR);
    }
    channels = little_endian(format + 2, 2);
    rate     = little_endian(format + 4, 4);
    if (memcmp(head, "data", 4) || little_endian(format, 2) != 1 || little_endian(format + 14, 2) != 16 || !channels || rate < 1000)
        fatal("%s: not 16-bit PCM", path);
    bytes = allocate(size, 1);
    count = fread(bytes, 1, size, file) / (2 * channels);
    fclose(file);
    mono = allocate(count, sizeof *mono);
    for (size_t i = 0; i < count * channels; ++i)
        mono[i / channels] += (float)(int16_t)little_endian(bytes + 2 * i, 2) / (32768.0f * (float)channels);
    out = resample(mono, count, rate, RATE);
    free(mono);
    free(bytes);
    return out;
}

/* ---- recordings ---- */

enum { CLIPS = 4, MOST_VOICES = 16 };

typedef struct library {
    clip     voice[MOST_VOICES], noise;
    uint32_t voices;
} library;

typedef struct span {
    uint64_t begin, end; /* samples */
} span;

typedef struct recording {
    float   *samples;
    uint32_t frames;
    span     clip[CLIPS]; /* where somebody speaks */
    uint32_t clips;
} recording;

static void library_open(library *l, const char *folder)
{
    static const char *const names[] = {"Front_Center", "Front_Left", "Front_Right", "Rear_Center", "Rear_Left", "Rear_Right",
                                        "Side_Left", "Side_Right", "sentence_1", "sentence_2", "sentence_3", "sentence_4"};
    l->voices = 0;
    l->noise  = clip_load(folder, "Noise");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        l->voice[l->voices] = clip_load(folder, names[i]);
        if (l->voice[l->voices].count) ++l->voices;
    }
}

static void library_close(library *l)
{
    free(l->noise.samples);
    while (l->voices) free(l->voice[--l->voices].samples);
}

static uint32_t dice(uint32_t *state, uint32_t sides)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*state * sides >> 32);
}

static void append(recording *r, size_t pause, const clip *c, float gain)
{
    const size_t old = (size_t)r->frames * FRAME, frames = (old + pause + c->count + FRAME - 1) / FRAME;
    r->samples = realloc(r->samples, frames * FRAME * sizeof(float));
    if (!r->samples) fatal("out of memory");
    for (size_t i = old; i < frames * FRAME; ++i)
        r->samples[i] = i >= old + pause && i - old - pause < c->count ? gain * c->samples[i - old - pause] : 0.0f;
    r->frames = (uint32_t)frames;
}

/* Every recording has clips of its own choice, order, loudness and pauses; number 0 is pure silence, number 1 is faint noise. */
static recording record(const library *l, uint32_t number)
{
    const clip nothing = {NULL, 0};
    recording r    = {.clips = 0};
    uint32_t  seed = 12345u + 977u * number;
    for (uint32_t i = 0; i < CLIPS; ++i) {
        const size_t pause = RATE / 2 + dice(&seed, RATE);
        const clip  *voice = &l->voice[dice(&seed, l->voices)];
        const float  gain  = 0.3f + 0.7f * (float)dice(&seed, 1000) / 1000.0f;
        if (number == 0) {
            append(&r, pause + RATE, &nothing, 0.0f);
        } else if (number == 1) {
            append(&r, 0, &l->noise, 0.02f);
        } else {
            r.clip[r.clips].begin = (uint64_t)r.frames * FRAME + pause;
            r.clip[r.clips].end   = r.clip[r.clips].begin + voice->count;
            ++r.clips;
            append(&r, pause, voice, gain);
        }
    }
    return r;
}

#endif
