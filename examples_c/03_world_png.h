/* A sheet of pictures and its way into a PNG file, for 03_world. Nothing of rte in here. */
#ifndef WORLD_PNG_H
#define WORLD_PNG_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sheet {
    uint32_t width, height;
    uint8_t *pixels; /* red, green, blue */
} sheet;

static sheet sheet_new(uint32_t width, uint32_t height, const uint8_t colour[3])
{
    sheet s = {width, height, malloc((size_t)width * height * 3)};
    for (size_t i = 0; s.pixels && i < (size_t)width * height * 3; ++i) s.pixels[i] = colour[i % 3];
    return s;
}

static uint8_t *sheet_at(const sheet *s, uint32_t x, uint32_t y) { return s->pixels + ((size_t)y * s->width + x) * 3; }

static void sheet_box(sheet *s, uint32_t x, uint32_t y, uint32_t width, uint32_t height, const uint8_t colour[3])
{
    for (uint32_t row = y; row < y + height; ++row)
        for (uint32_t i = 0; i < width; ++i) memcpy(sheet_at(s, x + i, row), colour, 3);
}

/* Letters of 3 x 5 dots, doubled. Returns where the next one goes. */
static uint32_t sheet_text(sheet *s, uint32_t x, uint32_t y, const char *text, const uint8_t colour[3])
{
    /* Rows from the top, three bits each, the left dot is the highest. */
    static const char     known[] = "abcdefghijklmnopqrstuvwxyz0123456789.:,-";
    static const uint16_t dots[]  = {025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755, 072227, 011152, 055655, 044447, 057755, 065555,
                                     025552, 065644, 025573, 065655, 034216, 072222, 055557, 055552, 055775, 055255, 055222, 071247, 075557, 026227,
                                     061247, 061216, 055711, 074616, 034757, 071122, 075757, 075716, 000002, 002020, 000024, 000700};
    for (; *text; ++text, x += 8) {
        const char *found = strchr(known, *text);
        for (unsigned dot = 0; found && dot < 15; ++dot)
            if (dots[found - known] >> (14 - dot) & 1) sheet_box(s, x + dot % 3 * 2, y + dot / 3 * 2, 2, 2, colour);
    }
    return x;
}

/* ---- the file: signature, header, one zlib stream of stored blocks, end ---- */

typedef struct png {
    FILE    *file;
    uint32_t crc, a, b; /* CRC-32 of the chunk, Adler-32 of the rows */
} png;

static void png_bytes(png *p, const void *bytes, size_t size)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < size; ++i) {
        p->crc ^= byte[i];
        for (int bit = 0; bit < 8; ++bit) p->crc = p->crc >> 1 ^ (0xedb88320u & (0u - (p->crc & 1u)));
    }
    fwrite(bytes, 1, size, p->file);
}

static void png_u32(png *p, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    png_bytes(p, bytes, 4);
}

static void png_begin(png *p, const char *kind, uint32_t size)
{
    png_u32(p, size);
    p->crc = 0xffffffffu;
    png_bytes(p, kind, 4);
}

static void png_end(png *p) { png_u32(p, ~p->crc); }

/* One row as one stored block: its filter (none) and its pixels. */
static void png_row(png *p, const uint8_t *pixels, uint32_t bytes, int last)
{
    const uint32_t size    = bytes + 1;
    const uint8_t  head[6] = {(uint8_t)last, (uint8_t)size, (uint8_t)(size >> 8), (uint8_t)~size, (uint8_t)(~size >> 8), 0};
    p->b = (p->b + p->a) % 65521u; /* the filter's byte */
    for (uint32_t i = 0; i < bytes; ++i) {
        p->a = (p->a + pixels[i]) % 65521u;
        p->b = (p->b + p->a) % 65521u;
    }
    png_bytes(p, head, 6);
    png_bytes(p, pixels, bytes);
}

/* Returns 0, or -1 where the file could not be written. A row must be shorter than 65535 bytes. */
static int sheet_write(const sheet *s, const char *path)
{
    static const uint8_t signature[8] = {137, 'P', 'N', 'G', 13, 10, 26, 10}, depth_and_colour[5] = {8, 2, 0, 0, 0}, zlib[2] = {0x78, 1};
    png                  p            = {fopen(path, "wb"), 0, 1, 0};
    int                  failed;
    if (!p.file) return -1;
    png_bytes(&p, signature, 8);
    png_begin(&p, "IHDR", 13);
    png_u32(&p, s->width);
    png_u32(&p, s->height);
    png_bytes(&p, depth_and_colour, 5);
    png_end(&p);
    png_begin(&p, "IDAT", 2 + s->height * (6 + 3 * s->width) + 4);
    png_bytes(&p, zlib, 2);
    for (uint32_t y = 0; y < s->height; ++y) png_row(&p, sheet_at(s, 0, y), 3 * s->width, y + 1 == s->height);
    png_u32(&p, p.b << 16 | p.a);
    png_end(&p);
    png_begin(&p, "IEND", 0);
    png_end(&p);
    failed = ferror(p.file);
    return fclose(p.file) || failed ? -1 : 0;
}

#endif
