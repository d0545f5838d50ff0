/* What calls of the CUDA driver cost here: those that the library makes for each batch, output and row, and no others.
 *
 *   gcc -std=c11 -O2 tests/cuda/calls.c -ldl && ./a.out
 *
 * Prints which device and driver it is, and with no argument a row of a table for each, medians of 21 blocks. Ends with 77 and
 * the reason where there is no device. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void *handle;

static void *library;
static handle context, stream, other, event;

/* For records whose passing nobody looks at: as the library, this program records none again before it has passed. */
enum { EVENTS = 256 };
static handle events[EVENTS];

/* The driver's functions, by what they take; all return 0 when it is done. */
static int (*cu_init)(unsigned);
static int (*cu_version)(int *);
static int (*device_count)(int *);
static int (*device_name)(char *, int, int);
static int (*retain)(handle *, int);
static int (*current)(handle *);
static int (*push)(handle);
static int (*pop)(handle *);
static int (*release)(int);
static int (*stream_new)(handle *, unsigned, int);
static int (*stream_free)(handle);
static int (*stream_wait)(handle, handle, unsigned);
static int (*stream_sync)(handle);
static int (*event_new)(handle *, unsigned);
static int (*event_free)(handle);
static int (*event_record)(handle, handle);
static int (*event_query)(handle);
static int (*event_sync)(handle);
static int (*host_alloc)(handle *, size_t, unsigned);
static int (*host_free)(handle);
static int (*device_alloc)(uint64_t *, size_t);
static int (*device_free)(uint64_t);

static void skip(const char *why)
{
    printf("skipped: %s\n", why);
    exit(77);
}

static void must(int result, const char *what)
{
    if (result == 0) return;
    printf("%s: %d\n", what, result);
    exit(1);
}

static void find(void *function, const char *name)
{
    *(void **)function = dlsym(library, name);
    if (*(void **)function == NULL) {
        printf("the driver has no %s\n", name);
        exit(1);
    }
}

static void find_all(void)
{
    find(&cu_init, "cuInit");
    find(&cu_version, "cuDriverGetVersion");
    find(&device_count, "cuDeviceGetCount");
    find(&device_name, "cuDeviceGetName");
    find(&retain, "cuDevicePrimaryCtxRetain");
    find(&current, "cuCtxGetCurrent");
    find(&push, "cuCtxPushCurrent_v2");
    find(&pop, "cuCtxPopCurrent_v2");
    find(&release, "cuDevicePrimaryCtxRelease_v2");
    find(&stream_new, "cuStreamCreateWithPriority");
    find(&stream_free, "cuStreamDestroy_v2");
    find(&stream_wait, "cuStreamWaitEvent");
    find(&stream_sync, "cuStreamSynchronize");
    find(&event_new, "cuEventCreate");
    find(&event_free, "cuEventDestroy_v2");
    find(&event_record, "cuEventRecord");
    find(&event_query, "cuEventQuery");
    find(&event_sync, "cuEventSynchronize");
    find(&host_alloc, "cuMemHostAlloc");
    find(&host_free, "cuMemFreeHost");
    find(&device_alloc, "cuMemAlloc_v2");
    find(&device_free, "cuMemFree_v2");
}

/* ---- what is timed */

static void get_current(void)
{
    handle now;
    must(current(&now), "cuCtxGetCurrent");
}

static void push_and_pop(void)
{
    handle popped;
    must(push(context), "cuCtxPushCurrent");
    must(pop(&popped), "cuCtxPopCurrent");
}

static void record(void)
{
    static unsigned next;
    must(event_record(events[next++ % EVENTS], stream), "cuEventRecord");
}

static void query(void) { must(event_query(event), "cuEventQuery"); }
static void wait_for_it(void) { must(stream_wait(other, event, 0), "cuStreamWaitEvent"); }
static void sync_passed(void) { must(event_sync(event), "cuEventSynchronize"); }

static void record_and_spin(void)
{
    int result;
    must(event_record(event, stream), "cuEventRecord");
    while ((result = event_query(event)) == 600) {} /* CUDA_ERROR_NOT_READY */
    must(result, "cuEventQuery");
}

static void record_and_sleep(void)
{
    must(event_record(event, stream), "cuEventRecord");
    sync_passed();
}

static void an_event(void)
{
    handle made;
    must(event_new(&made, 1 | 2), "cuEventCreate"); /* BLOCKING_SYNC, DISABLE_TIMING: as the library's */
    must(event_free(made), "cuEventDestroy");
}

static void a_stream(void)
{
    handle made;
    must(stream_new(&made, 1, 0), "cuStreamCreateWithPriority"); /* NON_BLOCKING */
    must(stream_free(made), "cuStreamDestroy");
}

static void page_locked(size_t size)
{
    handle made;
    must(host_alloc(&made, size, 1), "cuMemHostAlloc"); /* PORTABLE */
    must(host_free(made), "cuMemFreeHost");
}

static void on_device(size_t size)
{
    uint64_t made;
    must(device_alloc(&made, size), "cuMemAlloc");
    must(device_free(made), "cuMemFree");
}

static void page_locked_small(void) { page_locked(64 << 10); }
static void page_locked_large(void) { page_locked(8 << 20); }
static void on_device_large(void) { on_device(8 << 20); }

/* ---- how */

#ifdef QUICKLY /* the same calls, for a test of this program */
enum { BLOCKS = 1 };
#else
enum { BLOCKS = 21 };
#endif

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `times` is at most EVENTS. */
static double block_us(void (*call)(void), int times)
{
    const double begin = now_us();
    for (int i = 0; i < times; ++i) call();
    const double end = now_us();
    must(stream_sync(stream), "cuStreamSynchronize"); /* what was enqueued is not the next block's */
    must(stream_sync(other), "cuStreamSynchronize");
    return (end - begin) / times;
}

static void measure(const char *name, void (*call)(void), int times)
{
    double us[BLOCKS];
    (void)block_us(call, times);
    for (int block = 0; block < BLOCKS; ++block) us[block] = block_us(call, times);
    qsort(us, BLOCKS, sizeof *us, compare);
    printf("| %s | %.2f us |\n", name, us[BLOCKS / 2]);
}

int main(int arguments, char **argument)
{
    char name[128];
    int  count = 0, version = 0;

    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) skip(dlerror());
    find_all();
    if (cu_init(0) != 0 || device_count(&count) != 0 || count == 0) skip("the CUDA driver sees no device");
    must(device_name(name, sizeof name, 0), "cuDeviceGetName");
    must(cu_version(&version), "cuDriverGetVersion");
    printf("device: %s, driver of CUDA %d.%d\n", name, version / 1000, version % 1000 / 10);
    (void)argument;
    if (arguments > 1) return 0;
    must(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(push(context), "cuCtxPushCurrent");
    must(stream_new(&stream, 1, 0), "cuStreamCreateWithPriority");
    must(stream_new(&other, 1, 0), "cuStreamCreateWithPriority");
    must(event_new(&event, 1 | 2), "cuEventCreate");
    for (int i = 0; i < EVENTS; ++i) must(event_new(&events[i], 1 | 2), "cuEventCreate");
    record_and_sleep();

    measure("cuCtxGetCurrent", get_current, 250);
    measure("cuCtxPushCurrent and PopCurrent", push_and_pop, 250);
    measure("cuEventRecord", record, 200);
    measure("cuEventQuery of one that has passed", query, 250);
    measure("cuEventSynchronize of one that has passed", sync_passed, 250);
    measure("cuStreamWaitEvent of one that has passed", wait_for_it, 200);
    measure("cuEventRecord, then cuEventQuery until it has passed", record_and_spin, 200);
    measure("cuEventRecord, then cuEventSynchronize", record_and_sleep, 200);
    measure("cuEventCreate and Destroy", an_event, 200);
    measure("cuStreamCreateWithPriority and Destroy", a_stream, 5);
    measure("cuMemHostAlloc of 64 KiB and Free", page_locked_small, 5);
    measure("cuMemHostAlloc of 8 MiB and Free", page_locked_large, 2);
    measure("cuMemAlloc of 8 MiB and Free", on_device_large, 5);
    must(event_free(event), "cuEventDestroy");
    for (int i = 0; i < EVENTS; ++i) must(event_free(events[i]), "cuEventDestroy");
    must(stream_free(stream), "cuStreamDestroy");
    must(stream_free(other), "cuStreamDestroy");
    must(pop(&event), "cuCtxPopCurrent");
    must(release(0), "cuDevicePrimaryCtxRelease");
    return 0;
}
