/* Streams: made, waited for, held and captured. */
#include "state.h"
#include <signal.h>
#include <stdio.h>

CUresult fake_check_stream(CUstream stream)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
        fake_break(RULE_default_stream, "stream %p", (void *)stream);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (fake_is_one(&world.streams, stream) && stream->is_alive) return CUDA_SUCCESS;
    fake_break(RULE_handle, "stream %p %s", (void *)stream,
               fake_is_one(&world.streams, stream) ? "is destroyed" : "never was one");
    return CUDA_ERROR_INVALID_HANDLE;
}

/* A call that does no more than this stream's context permits. */
static CUresult admit(CUstream stream)
{
    CUresult result = fake_check_stream(stream);
    return result == CUDA_SUCCESS ? fake_admit(stream->context) : result;
}

CUresult fake_admit_work(CUstream stream, bool must_be_current)
{
    CUresult result = admit(stream);
    if (result == CUDA_SUCCESS) result = fake_need(stream->context, must_be_current);
    if (result == CUDA_SUCCESS && stream->capture.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return result;
}

/* --- Made and destroyed --- */

/* Waits for the threads of streams that are destroyed and have no more work. */
static void reap(void)
{
    for (int slot = 0; slot < MOST_STREAMS; ++slot) {
        CUstream stream = world.slot_owner[slot];
        if (stream == NULL || stream->is_alive || stream->ended != stream->enqueued) continue;
        world.slot_owner[slot] = NULL;
        pthread_t thread       = stream->thread;
        pthread_mutex_unlock(&world.lock);
        pthread_join(thread, NULL);
        pthread_mutex_lock(&world.lock);
        fake_clock_free(&stream->clock);
    }
}

static int free_slot(void)
{
    reap();
    for (int slot = 0; slot < MOST_STREAMS; ++slot)
        if (world.slot_owner[slot] == NULL) return slot;
    return -1;
}

static int clamped(int priority)
{
    int greatest = world.settings.greatest_priority;
    if (priority > 0) return 0;
    return priority < greatest ? greatest : priority;
}

static void init_conditions(CUstream stream)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&stream->work, &monotonic);
    pthread_cond_init(&stream->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Signals are the host's threads' to take. */
static bool start(CUstream stream)
{
    sigset_t all, before;
    char     name[16];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&stream->thread, NULL, fake_work_thread, stream) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    snprintf(name, sizeof name, "cuda_%u", (unsigned)stream->number % 10000000u);
    if (is_started) pthread_setname_np(stream->thread, name);
    return is_started;
}

static CUresult make(CUstream *made, CUcontext context, unsigned flags, int priority)
{
    int slot = free_slot();
    if (slot < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    CUstream stream    = fake_new(&world.streams);
    stream->number     = world.streams.used;
    stream->slot       = (unsigned)slot;
    stream->flags      = flags;
    stream->priority   = clamped(priority);
    stream->context    = context;
    stream->last       = &stream->first;
    stream->random     = world.settings.seed + stream->number;
    stream->held_until = fake_hold_of(stream->number, &stream->is_held);
    stream->base = stream->enqueued = stream->ended = world.slots[slot];
    init_conditions(stream);
    stream->is_alive = true;
    if (!start(stream)) {
        stream->is_alive = false;
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    world.slot_owner[slot] = stream;
    *made                  = stream;
    fake_log(&(fake_cuda_entry){.kind = FAKE_CUDA_CREATE, .stream = stream->number});
    return CUDA_SUCCESS;
}

EXPORT(cuStreamCreateWithPriority) CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUcontext context = NULL;
    fake_enter(CALL_cuStreamCreateWithPriority);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS) result = fake_admit(context);
    if (result == CUDA_SUCCESS && (stream == NULL || flags > CU_STREAM_NON_BLOCKING)) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = make(stream, context, flags, priority);
    return fake_leave(result);
}

EXPORT(cuStreamDestroy_v2) CUresult cuStreamDestroy_v2(CUstream stream)
{
    const struct thread *self   = fake_enter(CALL_cuStreamDestroy_v2);
    CUresult             result = fake_check_stream(stream);
    if (result != CUDA_SUCCESS) return fake_leave(result);
    result       = fake_admit(stream->context);
    bool is_lost = stream->context->error != CUDA_SUCCESS;
    /* One of a lost context is gone, whatever is answered. */
    if (self->running != NULL || (result != CUDA_SUCCESS && !is_lost)) return fake_leave(result);
    uint64_t seen = fake_clock_get(&world.seen, stream->slot);
    if (!is_lost && stream->last_work > seen)
        fake_break(RULE_destroyed_unseen, "stream %llu: of its %llu operations %llu were seen to be over",
                   (unsigned long long)stream->number, (unsigned long long)(stream->enqueued - stream->base),
                   (unsigned long long)(seen > stream->base ? seen - stream->base : 0));
    if (stream->capture.status != CU_STREAM_CAPTURE_STATUS_NONE) {
        fake_break(RULE_capture, "stream %llu is capturing", (unsigned long long)stream->number);
        --world.captures;
    }
    fake_log(&(fake_cuda_entry){.kind = FAKE_CUDA_DESTROY, .stream = stream->number});
    stream->is_alive = false;
    fake_wake(stream);
    reap();
    return fake_leave(result);
}

/* --- Edges --- */

/* A stream that waits for an event of a capture is in that capture from now on. */
static CUresult join_capture(CUstream stream, CUevent event)
{
    CUstream origin = event->capturing;
    if (stream->capture.status == CU_STREAM_CAPTURE_STATUS_NONE) {
        stream->capture.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        stream->capture.mode   = origin->capture.mode;
        stream->capture.thread = origin->capture.thread;
        stream->capture.origin = origin;
        stream->capture.nodes  = 0;
        ++world.captures;
    } else if (stream->capture.origin != origin) {
        fake_invalidate(origin, "it would be merged with another");
        fake_invalidate(stream->capture.origin, "it would be merged with another");
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    return CUDA_SUCCESS;
}

static CUresult wait_event(CUstream stream, CUevent event)
{
    if (event->context != stream->context)
        fake_break(RULE_wait_across, "stream %llu of device %d, event %llu of device %d",
                   (unsigned long long)stream->number, stream->context->device, (unsigned long long)event->number,
                   event->context->device);
    if (event->capturing != NULL) return join_capture(stream, event);
    if (stream->capture.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        fake_invalidate(stream->capture.origin, "it would wait for what is not captured");
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    struct op *op  = fake_op(WORK_WAIT);
    op->event      = event;
    op->target     = event->last;
    op->generation = event->last.generation;
    ++event->waits;
    fake_clock_join(&stream->clock, &event->clock);
    fake_enqueue(stream, op);
    return CUDA_SUCCESS;
}

EXPORT(cuStreamWaitEvent) CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    fake_enter(CALL_cuStreamWaitEvent);
    (void)flags;
    CUresult result = fake_check_event(event);
    if (result == CUDA_SUCCESS) result = fake_admit_work(stream, false);
    if (result == CUDA_SUCCESS) result = event->context->error;
    if (result == CUDA_SUCCESS) result = wait_event(stream, event);
    return fake_leave(result);
}

/* What may be asked of a stream that does not capture. */
static CUresult admit_look(CUstream stream)
{
    CUresult result = admit(stream);
    if (result == CUDA_SUCCESS) result = fake_need(stream->context, false);
    if (result == CUDA_SUCCESS && stream->capture.status != CU_STREAM_CAPTURE_STATUS_NONE) {
        fake_invalidate(stream->capture.origin, "its stream was waited for");
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result == CUDA_SUCCESS ? fake_unsafe() : result;
}

static void log_seen(CUstream stream)
{
    fake_log(&(fake_cuda_entry){.kind = FAKE_CUDA_SEEN, .stream = stream->number});
}

EXPORT(cuStreamQuery) CUresult cuStreamQuery(CUstream stream)
{
    fake_enter(CALL_cuStreamQuery);
    CUresult result = admit_look(stream);
    if (result == CUDA_SUCCESS && stream->ended != stream->enqueued) result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS) {
        fake_see(&stream->clock);
        log_seen(stream);
    }
    return fake_leave(result);
}

EXPORT(cuStreamSynchronize) CUresult cuStreamSynchronize(CUstream stream)
{
    struct thread *self   = fake_enter(CALL_cuStreamSynchronize);
    CUresult       result = admit_look(stream);
    if (result == CUDA_SUCCESS) {
        struct record until = {.stream = stream, .sequence = stream->enqueued};
        fake_clock_copy(&self->scratch, &stream->clock);
        result = fake_wait(&until);
    }
    if (result == CUDA_SUCCESS) {
        fake_see(&self->scratch);
        log_seen(stream);
    }
    return fake_leave(result);
}

EXPORT(cuStreamGetCtx) CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    fake_enter(CALL_cuStreamGetCtx);
    CUresult result = admit(stream);
    if (result == CUDA_SUCCESS && context == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *context = stream->context;
    return fake_leave(result);
}

/* --- Work that tests give --- */

EXPORT(cuLaunchHostFunc) CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
    fake_enter(CALL_cuLaunchHostFunc);
    CUresult result = fake_admit_work(stream, true);
    if (result == CUDA_SUCCESS && function == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && !fake_captures(stream)) {
        struct op *op = fake_op(WORK_HOST);
        op->function  = function;
        op->user      = user;
        fake_enqueue(stream, op);
    }
    return fake_leave(result);
}

CONTROL CUresult fake_cuda_fault(CUstream stream, CUresult code)
{
    fake_enter(CALL_fake_cuda_fault);
    CUresult result = fake_admit_work(stream, false);
    if (result == CUDA_SUCCESS) {
        struct op *op = fake_op(WORK_FAULT);
        op->value     = (unsigned)code;
        fake_enqueue(stream, op);
    }
    return fake_leave(result);
}

/* --- Gates --- */

static void hold(CUstream stream, bool is_held, uint64_t permits)
{
    stream->is_held    = is_held;
    stream->permits    = permits;
    stream->held_until = 0;
    pthread_cond_broadcast(&stream->work);
}

/* Also of one that is destroyed: its work may be waited for. */
static void hold_one(CUstream stream, bool is_held, uint64_t permits)
{
    fake_control();
    if (fake_is_one(&world.streams, stream)) hold(stream, is_held, permits);
    else fake_check_stream(stream);
    fake_control_end();
}

CONTROL void fake_cuda_hold(CUstream stream) { hold_one(stream, true, 0); }

CONTROL void fake_cuda_step(CUstream stream, uint64_t count) { hold_one(stream, true, count); }

CONTROL void fake_cuda_open(CUstream stream) { hold_one(stream, false, 0); }

static void hold_each(bool is_held)
{
    fake_control();
    world.settings.is_holding = is_held;
    for (size_t at = 0; at < world.streams.used; ++at) hold(fake_at(&world.streams, at), is_held, 0);
    fake_control_end();
}

CONTROL void fake_cuda_hold_all(void) { hold_each(true); }

CONTROL void fake_cuda_open_all(void) { hold_each(false); }

/* --- What there is --- */

CONTROL int fake_cuda_stream_info(CUstream stream, fake_cuda_stream *info)
{
    fake_control();
    int is_one = fake_is_one(&world.streams, stream);
    if (is_one) {
        *info = (fake_cuda_stream){.number = stream->number, .device = stream->context->device, .flags = stream->flags,
                                   .priority = stream->priority, .is_alive = stream->is_alive,
                                   .enqueued = stream->enqueued - stream->base, .ended = stream->ended - stream->base};
    }
    fake_control_end();
    return is_one;
}

CONTROL CUstream fake_cuda_stream_numbered(uint64_t number)
{
    fake_control();
    CUstream stream = number != 0 && number <= world.streams.used ? fake_at(&world.streams, number - 1) : NULL;
    fake_control_end();
    return stream;
}
