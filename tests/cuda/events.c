/* Events: each record is a generation; who waits means the one that was there when it was told to. */
#include "state.h"

CUresult fake_check_event(CUevent event)
{
    if (fake_is_one(&world.events, event) && event->is_alive) return CUDA_SUCCESS;
    fake_break(RULE_handle, "event %p %s", (void *)event,
               fake_is_one(&world.events, event) ? "is destroyed" : "never was one");
    return CUDA_ERROR_INVALID_HANDLE;
}

EXPORT(cuEventCreate) CUresult cuEventCreate(CUevent *made, unsigned flags)
{
    CUcontext context = NULL;
    fake_enter(CALL_cuEventCreate);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS) result = fake_admit(context);
    if (result == CUDA_SUCCESS && (made == NULL || flags > 7)) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        CUevent event   = fake_new(&world.events);
        event->number   = world.events.used;
        event->is_alive = true;
        event->flags    = flags;
        event->context  = context;
        *made           = event;
        fake_log(&(fake_cuda_entry){.kind = FAKE_CUDA_CREATE, .event = event->number});
    }
    return fake_leave(result);
}

EXPORT(cuEventDestroy_v2) CUresult cuEventDestroy_v2(CUevent event)
{
    const struct thread *self   = fake_enter(CALL_cuEventDestroy_v2);
    CUresult             result = fake_check_event(event);
    if (result != CUDA_SUCCESS) return fake_leave(result);
    result = fake_admit(event->context);
    if (result == CUDA_SUCCESS) result = fake_need(event->context, false);
    /* One of a lost context is gone, whatever is answered. */
    if (self->running != NULL || (result != CUDA_SUCCESS && event->context->error == CUDA_SUCCESS)) return fake_leave(result);
    event->is_alive = false;
    fake_clock_free(&event->clock);
    fake_log(&(fake_cuda_entry){.kind = FAKE_CUDA_DESTROY, .event = event->number, .generation = event->last.generation});
    return fake_leave(result);
}

static void check_record(CUevent event)
{
    const struct record *last = &event->last;
    if (event->waits > 0)
        fake_break(RULE_recorded_while_waited, "event %llu, generation %llu: %llu waits", (unsigned long long)event->number,
                   (unsigned long long)last->generation, (unsigned long long)event->waits);
    /* Seen to have: not by luck. */
    if (last->stream != NULL && fake_clock_get(&world.seen, last->stream->slot) < last->sequence)
        fake_break(RULE_recorded_before_passed, "event %llu, generation %llu", (unsigned long long)event->number,
                   (unsigned long long)last->generation);
}

static CUresult record(CUevent event, CUstream stream)
{
    if (event->context != stream->context) {
        fake_break(RULE_record_across, "event %llu of device %d, stream %llu of device %d",
                   (unsigned long long)event->number, event->context->device, (unsigned long long)stream->number,
                   stream->context->device);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    check_record(event);
    if (fake_captures(stream)) {
        event->capturing = stream->capture.origin;
        return CUDA_SUCCESS;
    }
    struct op *op    = fake_op(WORK_RECORD);
    op->event        = event;
    op->generation   = event->last.generation + 1;
    event->capturing = NULL;
    fake_enqueue(stream, op);
    event->last = (struct record){stream, op->sequence, op->number, op->generation};
    fake_clock_copy(&event->clock, &stream->clock);
    return CUDA_SUCCESS;
}

EXPORT(cuEventRecord) CUresult cuEventRecord(CUevent event, CUstream stream)
{
    fake_enter(CALL_cuEventRecord);
    CUresult result = fake_check_event(event);
    if (result == CUDA_SUCCESS) result = fake_admit_work(stream, false);
    if (result == CUDA_SUCCESS) result = record(event, stream);
    return fake_leave(result);
}

/* What may be asked of an event that is not of a capture. */
static CUresult admit_look(CUevent event)
{
    CUresult result = fake_check_event(event);
    if (result == CUDA_SUCCESS) result = fake_admit(event->context);
    if (result == CUDA_SUCCESS) result = fake_need(event->context, false);
    if (result == CUDA_SUCCESS && event->capturing != NULL) {
        fake_invalidate(event->capturing, "its event was waited for");
        result = CUDA_ERROR_CAPTURED_EVENT;
    }
    return result == CUDA_SUCCESS ? fake_unsafe() : result;
}

static void log_seen(uint64_t number, const struct record *record)
{
    fake_log(&(fake_cuda_entry){.kind = FAKE_CUDA_SEEN, .event = number, .generation = record->generation,
                                .after = record->op, .stream = record->stream == NULL ? 0 : record->stream->number});
}

EXPORT(cuEventQuery) CUresult cuEventQuery(CUevent event)
{
    fake_enter(CALL_cuEventQuery);
    CUresult result = admit_look(event);
    if (result == CUDA_SUCCESS && !fake_reached(&event->last)) result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS) {
        fake_see(&event->clock);
        log_seen(event->number, &event->last);
    }
    return fake_leave(result);
}

EXPORT(cuEventSynchronize) CUresult cuEventSynchronize(CUevent event)
{
    struct thread *self   = fake_enter(CALL_cuEventSynchronize);
    CUresult       result = admit_look(event);
    if (result == CUDA_SUCCESS) {
        /* It may be recorded again, or destroyed, meanwhile. */
        struct record until = event->last;
        fake_clock_copy(&self->scratch, &event->clock);
        result = fake_wait(&until);
        if (result == CUDA_SUCCESS) {
            fake_see(&self->scratch);
            log_seen(event->number, &until);
        }
    }
    return fake_leave(result);
}

/* There is no time to tell. */
EXPORT(cuEventElapsedTime) CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    fake_enter(CALL_cuEventElapsedTime);
    CUresult result = fake_check_event(start);
    if (result == CUDA_SUCCESS) result = fake_check_event(end);
    if (result == CUDA_SUCCESS) result = fake_admit(start->context);
    if (result == CUDA_SUCCESS && milliseconds != NULL) *milliseconds = 0;
    if (result == CUDA_SUCCESS) result = CUDA_ERROR_INVALID_HANDLE;
    return fake_leave(result);
}

CONTROL int fake_cuda_event_info(CUevent event, fake_cuda_event *info)
{
    fake_control();
    int is_one = fake_is_one(&world.events, event);
    if (is_one) {
        *info = (fake_cuda_event){.number = event->number, .device = event->context->device, .flags = event->flags,
                                  .is_alive = event->is_alive, .generation = event->last.generation,
                                  .waits = event->waits, .is_pending = !fake_reached(&event->last)};
    }
    fake_control_end();
    return is_one;
}
