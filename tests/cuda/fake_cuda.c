/* Calls: who is inside, what they may do, and which rules they broke. The driver as such, and its devices. */
#include "state.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct world world = {.lock     = PTHREAD_MUTEX_INITIALIZER,
                      .streams  = {.size = sizeof(struct CUstream_st)},
                      .events   = {.size = sizeof(struct CUevent_st)},
                      .contexts = {.size = sizeof(struct CUctx_st)}};

#define NAME_(name) #name,
#define TEXT_(name, text) text,
static const char *const call_names[] = {CALLS(NAME_)};
#define RULE_NAME_(name, text) #name,
static const char *const rule_names[] = {FAKE_CUDA_RULES(RULE_NAME_)};
static const char *const rule_texts[] = {FAKE_CUDA_RULES(TEXT_)};

static uint64_t calls[CALL_COUNT], broken[RULE_COUNT], taken[RULE_COUNT];
static bool     is_forgiven[RULE_COUNT];
static char     last_violation[512];

static _Thread_local struct thread *this_thread;
static struct thread               *threads; /* all: nothing is lost to who looks for leaks */
static uint64_t                     thread_count;
static pthread_key_t                thread_key;

/* --- Threads --- */

static void forget_thread(void *thread)
{
    struct thread *self = thread;
    this_thread         = NULL;
    pthread_mutex_lock(&world.lock);
    struct thread **at = &threads;
    while (*at != self) at = &(*at)->next;
    *at = self->next;
    fake_clock_free(&self->clock);
    fake_clock_free(&self->scratch);
    pthread_mutex_unlock(&world.lock);
    free(self);
}

/* With the lock. */
static struct thread *meet_thread(void)
{
    if (this_thread == NULL) {
        this_thread       = calloc(1, sizeof *this_thread);
        if (this_thread == NULL) abort();
        this_thread->next = threads;
        threads           = this_thread;
        pthread_setspecific(thread_key, this_thread);
    }
    return this_thread;
}

struct thread *fake_self(void) { return meet_thread(); }

/* --- Things that are never freed --- */

enum { CHUNK = 64 };

void *fake_room(void *old, size_t size)
{
    void *room = realloc(old, size);
    if (room == NULL) abort();
    return room;
}

void *fake_new(struct arena *arena)
{
    if (arena->used == arena->chunk_count * CHUNK) {
        arena->chunks = fake_room(arena->chunks, (arena->chunk_count + 1) * sizeof *arena->chunks);
        char *chunk   = calloc(CHUNK, arena->size);
        if (chunk == NULL) abort();
        arena->chunks[arena->chunk_count++] = chunk;
    }
    return fake_at(arena, arena->used++);
}

void *fake_at(const struct arena *arena, size_t index)
{
    return arena->chunks[index / CHUNK] + index % CHUNK * arena->size;
}

bool fake_is_one(const struct arena *arena, const void *handle)
{
    uintptr_t at = (uintptr_t)handle;
    for (size_t chunk = 0; chunk < arena->chunk_count; ++chunk) {
        uintptr_t begin = (uintptr_t)arena->chunks[chunk];
        size_t    room  = chunk + 1 == arena->chunk_count ? arena->used - chunk * CHUNK : CHUNK;
        if (at >= begin && at < begin + room * arena->size) return (at - begin) % arena->size == 0;
    }
    return false;
}

/* --- Calls --- */

const char *fake_call_name(enum call call) { return call_names[call]; }

int fake_call_named(const char *name)
{
    for (int call = 0; call < CALL_COUNT; ++call)
        if (strcmp(call_names[call], name) == 0) return call;
    return -1;
}

static struct thread *enter(enum call call)
{
    pthread_mutex_lock(&world.lock);
    struct thread *self = meet_thread();
    if (self->number == 0 && self->stream == NULL) self->number = ++thread_count;
    self->call          = call;
    self->planned       = CUDA_SUCCESS;
    self->planned_flags = 0;
    return self;
}

struct thread *fake_enter(enum call call)
{
    struct thread *self = enter(call);
    ++calls[call];
    if (self->running != NULL) {
        fake_break(RULE_host_function, "in operation %llu", (unsigned long long)self->running->number);
        self->planned = CUDA_ERROR_NOT_PERMITTED;
    } else {
        fake_plan(self);
    }
    return self;
}

CUresult fake_admit(CUcontext context)
{
    struct thread *self = fake_self();
    if (!world.is_initialised && self->call != CALL_cuInit) return CUDA_ERROR_NOT_INITIALIZED;
    if (context != NULL && context->error != CUDA_SUCCESS) return context->error;
    if (self->planned == CUDA_SUCCESS) return CUDA_SUCCESS;
    if ((self->planned_flags & FAKE_CUDA_STICKY) != 0 || fake_is_sticky(self->planned)) {
        if (context == NULL && self->depth > 0) context = self->stack[self->depth - 1];
        if (context != NULL) fake_lose(context, self->planned);
    }
    return (self->planned_flags & FAKE_CUDA_DONE) != 0 ? CUDA_SUCCESS : self->planned;
}

CUresult fake_leave(CUresult result)
{
    struct thread *self = fake_self();
    if (result == CUDA_SUCCESS && (self->planned_flags & FAKE_CUDA_DONE) != 0) result = self->planned;
    pthread_mutex_unlock(&world.lock);
    return result;
}

struct thread *fake_control(void) { return enter(CALL_fake_cuda); }

void fake_control_end(void) { pthread_mutex_unlock(&world.lock); }

CONTROL uint64_t fake_cuda_calls(const char *call)
{
    uint64_t sum = 0;
    fake_control();
    for (int at = 0; at < CALL_fake_cuda_launch; ++at)
        if (call == NULL || strcmp(call, call_names[at]) == 0) sum += calls[at];
    fake_control_end();
    return sum;
}

CONTROL void fake_cuda_forget_calls(void)
{
    fake_control();
    memset(calls, 0, sizeof calls);
    fake_control_end();
}

/* --- Rules --- */

void fake_break(enum rule rule, const char *format, ...)
{
    if (is_forgiven[rule]) return;
    char    what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(last_violation, sizeof last_violation, "fake_cuda: %s: %s: %s (%s)", rule_names[rule],
             call_names[fake_self()->call], what, rule_texts[rule]);
    ++broken[rule];
    fprintf(stderr, "%s\n", last_violation);
    fake_log_text(last_violation);
    if (world.settings.mode == 1) {
        fflush(NULL);
        abort();
    }
}

bool fake_has_broken(void)
{
    uint64_t sum = 0;
    for (int rule = 0; rule < RULE_COUNT; ++rule) sum += broken[rule] - taken[rule];
    return sum != 0;
}

static uint64_t violations(const char *rule, bool is_taken)
{
    uint64_t sum      = 0;
    bool     is_known = rule == NULL;
    fake_control();
    for (int at = 0; at < RULE_COUNT; ++at) {
        if (rule != NULL && strcmp(rule, rule_names[at]) != 0) continue;
        is_known = true;
        sum += broken[at] - taken[at];
        if (is_taken) taken[at] = broken[at];
    }
    fake_control_end();
    if (!is_known) fprintf(stderr, "fake_cuda: there is no rule %s\n", rule), abort();
    return sum;
}

CONTROL uint64_t fake_cuda_violations(const char *rule) { return violations(rule, false); }

CONTROL uint64_t fake_cuda_take_violations(const char *rule) { return violations(rule, true); }

CONTROL const char *fake_cuda_last_violation(void) { return last_violation; }

CONTROL void fake_cuda_forgive(const char *rule, int is_so)
{
    bool is_known = false;
    fake_control();
    for (int at = 0; at < RULE_COUNT; ++at)
        if (strcmp(rule, rule_names[at]) == 0) is_forgiven[at] = is_so != 0, is_known = true;
    fake_control_end();
    if (!is_known) fprintf(stderr, "fake_cuda: there is no rule %s\n", rule), abort();
}

/* --- The end --- */

static uint64_t left_behind(void)
{
    uint64_t left = 0;
    for (size_t at = 0; at < world.streams.used; ++at) {
        CUstream stream = fake_at(&world.streams, at);
        if (!stream->is_alive) continue;
        ++left;
        fake_break(RULE_left_behind, "stream %llu", (unsigned long long)stream->number);
    }
    for (size_t at = 0; at < world.events.used; ++at) {
        CUevent event = fake_at(&world.events, at);
        if (!event->is_alive) continue;
        ++left;
        fake_break(RULE_left_behind, "event %llu", (unsigned long long)event->number);
    }
    left += fake_memory_left(NULL);
    for (int device = 0; device < MOST_DEVICES; ++device) {
        if (world.primary[device].retained == 0) continue;
        ++left;
        fake_break(RULE_left_behind, "the primary context of device %d, retained %llu times", device,
                   (unsigned long long)world.primary[device].retained);
    }
    for (size_t at = 0; at < world.contexts.used; ++at) {
        CUcontext context = fake_at(&world.contexts, at);
        if (!context->is_alive || context->is_primary) continue;
        ++left;
        fake_break(RULE_left_behind, "context %llu", (unsigned long long)context->number);
    }
    return left;
}

CONTROL uint64_t fake_cuda_check_end(void)
{
    fake_control();
    uint64_t left = left_behind();
    fake_control_end();
    return left;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_key_create(&thread_key, forget_thread);
    fake_read_environment();
}

/* Threads of streams, and the host's, may still be at work. */
__attribute__((destructor)) static void end(void)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 10;
    if (pthread_mutex_timedlock(&world.lock, &deadline) != 0) {
        fprintf(stderr, "fake_cuda: ended inside a call\n");
        _exit(FAKE_CUDA_BROKEN);
    }
    meet_thread()->call = CALL_fake_cuda;
    left_behind();
    bool is_broken = fake_has_broken();
    pthread_mutex_unlock(&world.lock);
    fake_log_text(NULL);
    if (!is_broken || world.settings.mode == 2) return;
    fflush(NULL);
    _exit(FAKE_CUDA_BROKEN);
}

/* --- The driver --- */

EXPORT(cuInit) CUresult cuInit(unsigned flags)
{
    fake_enter(CALL_cuInit);
    CUresult result = fake_admit(NULL);
    if (result == CUDA_SUCCESS && flags != 0) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && world.settings.devices < 0) result = CUDA_ERROR_NO_DEVICE;
    if (result == CUDA_SUCCESS) world.is_initialised = true;
    return fake_leave(result);
}

EXPORT(cuDriverGetVersion) CUresult cuDriverGetVersion(int *version)
{
    struct thread *self   = fake_enter(CALL_cuDriverGetVersion);
    CUresult       result = self->planned;
    if (result == CUDA_SUCCESS && version == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *version = world.settings.version;
    return fake_leave(result);
}

static const struct {
    CUresult    code;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on this address space"},
    {CUDA_ERROR_INVALID_PC, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {CUDA_ERROR_TIMEOUT, "CUDA_ERROR_TIMEOUT", "wait operation timed out"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult error_text(enum call call, CUresult error, const char **text, bool is_name)
{
    fake_enter(call);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (text != NULL) *text = NULL;
    for (size_t at = 0; text != NULL && at < sizeof errors / sizeof *errors; ++at) {
        if (errors[at].code != error) continue;
        *text  = is_name ? errors[at].name : errors[at].text;
        result = CUDA_SUCCESS;
    }
    return fake_leave(result);
}

EXPORT(cuGetErrorName) CUresult cuGetErrorName(CUresult error, const char **text)
{
    return error_text(CALL_cuGetErrorName, error, text, true);
}

EXPORT(cuGetErrorString) CUresult cuGetErrorString(CUresult error, const char **text)
{
    return error_text(CALL_cuGetErrorString, error, text, false);
}

/* --- Devices --- */

static CUresult admit_device(CUdevice device)
{
    CUresult result = fake_admit(NULL);
    if (result != CUDA_SUCCESS) return result;
    return device >= 0 && device < world.settings.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT(cuDeviceGetCount) CUresult cuDeviceGetCount(int *count)
{
    fake_enter(CALL_cuDeviceGetCount);
    CUresult result = fake_admit(NULL);
    if (result == CUDA_SUCCESS && count == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *count = world.settings.devices > 0 ? world.settings.devices : 0;
    return fake_leave(result);
}

EXPORT(cuDeviceGet) CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    fake_enter(CALL_cuDeviceGet);
    CUresult result = admit_device(ordinal);
    if (result == CUDA_SUCCESS && device == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *device = ordinal;
    return fake_leave(result);
}

EXPORT(cuDeviceGetName) CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    fake_enter(CALL_cuDeviceGetName);
    CUresult result = admit_device(device);
    if (result == CUDA_SUCCESS && (name == NULL || size <= 0)) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) snprintf(name, (size_t)size, "Fake GPU %d", device);
    return fake_leave(result);
}

EXPORT(cuDeviceGetUuid_v2) CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    fake_enter(CALL_cuDeviceGetUuid_v2);
    CUresult result = admit_device(device);
    if (result == CUDA_SUCCESS && uuid == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        memcpy(uuid->bytes, "fake device uuid", 16);
        uuid->bytes[15] = (char)device;
    }
    return fake_leave(result);
}
