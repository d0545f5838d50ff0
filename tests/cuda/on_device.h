/* Put before a C test (gcc -include), it makes the test's engines run on CUDA lanes, whatever lanes the test asks for.
 *
 * A tick that does not wait may find the lanes busy and say RTE_AGAIN, and what a lane has passed is seen by a later tick. The
 * tests count ticks: so each waits, and so does its caller until the device has done all that the tick enqueued. */
#ifndef ON_DEVICE_H
#define ON_DEVICE_H

#include "rte.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *on_device_function(const char *name)
{
    static void *driver;
    void        *function;
    if (driver == NULL) driver = dlopen("libcuda.so.1", RTLD_NOW);
    function = driver == NULL ? NULL : dlsym(driver, name);
    if (function == NULL) {
        printf("no %s: %s\n", name, dlerror());
        exit(1);
    }
    return function;
}

/* Calls one of the driver's functions, which all return 0 when they have done it. */
#define ON_DEVICE(name, parameters, arguments) \
    do { \
        int(*function) parameters; \
        *(void **)&function = on_device_function(#name); \
        if (function arguments != 0) { \
            printf(#name " failed\n"); \
            exit(1); \
        } \
    } while (0)

/* Of the engine that was driven first last: tests tick one at a time. */
static rte_stream on_device_streams[3];
static rte_status (*on_device_inner)(void *, const rte_stream *);

static inline rte_status on_device_init(void *user, const rte_stream *streams)
{
    memcpy(on_device_streams, streams, sizeof on_device_streams);
    return on_device_inner == NULL ? RTE_OK : on_device_inner(user, streams);
}

static inline rte_status on_device_settled(rte_status status)
{
    void *context;
    if (status == RTE_ERR_DEAD) return status;
    ON_DEVICE(cuDevicePrimaryCtxRetain, (void **, int), (&context, 0));
    ON_DEVICE(cuCtxPushCurrent_v2, (void *), (context));
    for (int lane = 0; lane < 3; ++lane)
        if (on_device_streams[lane] != NULL) ON_DEVICE(cuStreamSynchronize, (void *), (on_device_streams[lane]));
    ON_DEVICE(cuCtxPopCurrent_v2, (void **), (&context));
    ON_DEVICE(cuDevicePrimaryCtxRelease_v2, (int), (0));
    return status;
}

static inline rte_status on_device_new(const rte_model *model, const rte_engine_options *options, rte_engine **out, rte_error *error)
{
    rte_model          watched = *model;
    rte_engine_options changed;
    memset(&changed, 0, sizeof changed);
    changed.struct_size = sizeof changed;
    if (options != NULL) changed = *options;
    changed.lanes   = RTE_LANES_CUDA;
    on_device_inner = model->init;
    watched.init    = on_device_init;
    memset(on_device_streams, 0, sizeof on_device_streams);
    return rte_engine_new(&watched, &changed, out, error);
}

#define rte_engine_new(model, options, out, error) on_device_new((model), (options), (out), (error))
#define rte_engine_tick(engine, wait) on_device_settled((rte_engine_tick)((engine), UINT64_MAX + 0 * (wait)))
#define rte_engine_step(engine, due, count, wait) \
    on_device_settled((rte_engine_step)((engine), (due), (count), UINT64_MAX + 0 * (wait)))

#endif
