/* Checks that say what they check: a line `name: ok` for each, or what was wrong; at the end how many there were. */
#ifndef CHECK_H
#define CHECK_H

#include "rte.h"
#include <stdio.h>
#include <string.h>

static int checks, failures;

/* A truth. */
#define CHECK(name, condition) check_that((name), (condition), __FILE__, __LINE__, #condition)

/* Two numbers that must be the same, of any integer type. */
#define EQUAL(name, seen, expected) \
    check_equal((name), (long long)(seen), (long long)(expected), __FILE__, __LINE__, #seen)

static inline int check_that(const char *name, int holds, const char *file, int line, const char *what)
{
    ++checks;
    if (holds) {
        printf("%s: ok\n", name);
    } else {
        ++failures;
        printf("%s: FAILED at %s:%d: %s\n", name, file, line, what);
    }
    fflush(stdout);
    return holds;
}

static inline int check_equal(const char *name, long long seen, long long expected, const char *file, int line, const char *what)
{
    char text[256];
    if (seen == expected) return check_that(name, 1, file, line, what);
    snprintf(text, sizeof text, "%s is %lld, not %lld", what, seen, expected);
    return check_that(name, 0, file, line, text);
}

/* The last statement of main. */
static inline int finish(void)
{
    printf("%d checks, %d failed\n", checks, failures);
    return failures != 0;
}

/* What a call must not write is poisoned before it. */
static inline void poison(void *at, size_t size) { memset(at, 0xa5, size); }

static inline int is_poison(const void *at, size_t size)
{
    const unsigned char *bytes = at;
    for (size_t i = 0; i < size; ++i)
        if (bytes[i] != 0xa5) return 0;
    return 1;
}

/* Pops and gives back all that is there; returns how many there were. */
static inline int drain(rte_engine *engine)
{
    rte_output output;
    int        popped = 0;
    for (; rte_outbox_pop(engine, &output) == RTE_OK; ++popped) rte_output_release(&output, NULL);
    return popped;
}

#endif
