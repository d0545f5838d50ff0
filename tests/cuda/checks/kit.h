/* What the checks of the fake driver share. Each program ends with all destroyed, or it fails at its end. */
#ifndef KIT_H
#define KIT_H

#include "check.h"
#include "fake_cuda.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Something on a device that is needed for the check itself. */
#define GOOD(call) good((call), __LINE__, #call)

static inline void good(CUresult result, int line, const char *what)
{
    if (result == CUDA_SUCCESS) return;
    printf("line %d: %s: %d\n", line, what, (int)result);
    exit(2);
}

/* The rule is broken once by `statement`, and no other is. */
#define BREAKS(name, rule, statement) \
    do { \
        statement; \
        uint64_t of_rule = fake_cuda_take_violations(rule), others = fake_cuda_take_violations(NULL); \
        if (!CHECK(name, of_rule == 1 && others == 0)) printf("  %s: %d, others %d: %s\n", rule, (int)of_rule, (int)others, fake_cuda_last_violation()); \
    } while (0)

/* None is. */
#define BREAKS_NONE(name, statement) \
    do { \
        statement; \
        if (!CHECK(name, fake_cuda_take_violations(NULL) == 0)) printf("  %s\n", fake_cuda_last_violation()); \
    } while (0)

static inline CUcontext retain(CUdevice device)
{
    CUcontext context;
    GOOD(cuInit(0));
    GOOD(cuDevicePrimaryCtxRetain(&context, device));
    GOOD(cuCtxSetCurrent(context));
    return context;
}

static inline CUstream new_stream(void)
{
    CUstream stream;
    GOOD(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

static inline CUevent new_event(void)
{
    CUevent event;
    GOOD(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static inline CUdeviceptr new_memory(size_t size)
{
    CUdeviceptr memory;
    GOOD(cuMemAlloc_v2(&memory, size));
    return memory;
}

static inline void *new_pinned(size_t size)
{
    void *memory;
    GOOD(cuMemHostAlloc(&memory, size, 0));
    return memory;
}

static inline void end_stream(CUstream stream)
{
    GOOD(cuStreamSynchronize(stream));
    GOOD(cuStreamDestroy_v2(stream));
}

/* Notes the order of what was run. */
struct trail {
    atomic_int count;
    int        marks[256];
};

struct mark {
    struct trail *trail;
    int           number;
};

static inline void leave_mark(void *user)
{
    struct mark *it = user;
    it->trail->marks[atomic_fetch_add(&it->trail->count, 1)] = it->number;
}

static inline void do_nothing(void *user) { (void)user; }

/* Enqueues something; its operation. */
static inline uint64_t work(CUstream stream)
{
    GOOD(cuLaunchHostFunc(stream, do_nothing, NULL));
    return fake_cuda_op();
}

/* On a thread of its own. */
static inline void on_a_thread(void *(*function)(void *), void *user)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, user) != 0) exit(2);
    pthread_join(thread, NULL);
}

#endif
