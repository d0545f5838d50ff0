/* Contexts: each device's primary one, those that are made, and each thread's stack of them. */
#include "state.h"

static CUcontext make(CUdevice device, bool is_primary)
{
    CUcontext context   = fake_new(&world.contexts);
    context->number     = world.contexts.used;
    context->is_alive   = true;
    context->is_primary = is_primary;
    context->device     = device;
    return context;
}

/* All in it should be gone already. */
static void destroy(CUcontext context)
{
    for (size_t at = 0; at < world.streams.used; ++at) {
        CUstream stream = fake_at(&world.streams, at);
        if (!stream->is_alive || stream->context != context) continue;
        fake_break(RULE_left_behind, "stream %llu of a context that is destroyed", (unsigned long long)stream->number);
        stream->is_alive = false;
        fake_wake(stream);
    }
    for (size_t at = 0; at < world.events.used; ++at) {
        CUevent event = fake_at(&world.events, at);
        if (!event->is_alive || event->context != context) continue;
        fake_break(RULE_left_behind, "event %llu of a context that is destroyed", (unsigned long long)event->number);
        event->is_alive = false;
        fake_clock_free(&event->clock);
    }
    fake_memory_left(context);
    context->is_alive = false;
}

CUresult fake_check_context(CUcontext context)
{
    if (fake_is_one(&world.contexts, context) && context->is_alive) return CUDA_SUCCESS;
    fake_break(RULE_handle, "context %p %s", (void *)context,
               fake_is_one(&world.contexts, context) ? "is destroyed" : "never was one");
    return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_current(CUcontext *context)
{
    const struct thread *self = fake_self();
    *context                  = self->depth > 0 ? self->stack[self->depth - 1] : NULL;
    if (*context == NULL) {
        fake_break(RULE_no_context, "on thread %llu", (unsigned long long)self->number);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if ((*context)->is_alive) return CUDA_SUCCESS;
    fake_break(RULE_handle, "the current context %llu is destroyed", (unsigned long long)(*context)->number);
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult fake_need(CUcontext owner, bool must)
{
    CUcontext current;
    if (!must && !world.settings.is_strict) return CUDA_SUCCESS;
    CUresult result = fake_current(&current);
    if (result != CUDA_SUCCESS || current == owner) return result;
    fake_break(RULE_wrong_context, "it belongs to context %llu of device %d, current is %llu of %d",
               (unsigned long long)owner->number, owner->device, (unsigned long long)current->number, current->device);
    return CUDA_ERROR_INVALID_CONTEXT;
}

void fake_lose(CUcontext context, CUresult code)
{
    if (context->error != CUDA_SUCCESS) return;
    context->error = code;
    /* Those of other contexts may wait for one of its events. */
    for (size_t at = 0; at < world.streams.used; ++at) fake_wake(fake_at(&world.streams, at));
}

CONTROL void fake_cuda_lose(CUcontext context, CUresult code)
{
    fake_control();
    if (fake_check_context(context) == CUDA_SUCCESS) fake_lose(context, code);
    fake_control_end();
}

static CUresult admit_device(CUdevice device)
{
    CUresult result = fake_admit(NULL);
    if (result != CUDA_SUCCESS) return result;
    return device >= 0 && device < world.settings.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT(cuDevicePrimaryCtxRetain) CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    fake_enter(CALL_cuDevicePrimaryCtxRetain);
    CUresult result = admit_device(device);
    if (result == CUDA_SUCCESS && context == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        if (world.primary[device].retained++ == 0) world.primary[device].context = make(device, true);
        *context = world.primary[device].context;
    }
    return fake_leave(result);
}

EXPORT(cuDevicePrimaryCtxRelease_v2) CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    fake_enter(CALL_cuDevicePrimaryCtxRelease_v2);
    CUresult result = admit_device(device);
    if (result == CUDA_SUCCESS && world.primary[device].retained == 0) {
        fake_break(RULE_handle, "the primary context of device %d is not retained", device);
        result = CUDA_ERROR_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS && --world.primary[device].retained == 0) {
        destroy(world.primary[device].context);
        world.primary[device].context = NULL;
    }
    return fake_leave(result);
}

static CUresult push(struct thread *self, CUcontext context)
{
    if (self->depth == DEEPEST_STACK) return CUDA_ERROR_OUT_OF_MEMORY;
    self->stack[self->depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT(cuCtxCreate_v2) CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    struct thread *self   = fake_enter(CALL_cuCtxCreate_v2);
    CUresult       result = admit_device(device);
    (void)flags;
    if (result == CUDA_SUCCESS && context == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && self->depth == DEEPEST_STACK) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) result = push(self, *context = make(device, false));
    return fake_leave(result);
}

EXPORT(cuCtxDestroy_v2) CUresult cuCtxDestroy_v2(CUcontext context)
{
    struct thread *self   = fake_enter(CALL_cuCtxDestroy_v2);
    CUresult       result = fake_check_context(context);
    if (result == CUDA_SUCCESS) result = fake_admit(NULL);
    if (result == CUDA_SUCCESS && context->is_primary) result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS) {
        destroy(context);
        if (self->depth > 0 && self->stack[self->depth - 1] == context) --self->depth;
    }
    return fake_leave(result);
}

EXPORT(cuCtxGetCurrent) CUresult cuCtxGetCurrent(CUcontext *context)
{
    struct thread *self   = fake_enter(CALL_cuCtxGetCurrent);
    CUresult       result = fake_admit(NULL);
    if (result == CUDA_SUCCESS && context == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *context = self->depth > 0 ? self->stack[self->depth - 1] : NULL;
    return fake_leave(result);
}

/* The top of the stack is replaced; NULL takes it off. */
EXPORT(cuCtxSetCurrent) CUresult cuCtxSetCurrent(CUcontext context)
{
    struct thread *self   = fake_enter(CALL_cuCtxSetCurrent);
    CUresult       result = fake_admit(NULL);
    if (result == CUDA_SUCCESS && context != NULL) result = fake_check_context(context);
    if (result == CUDA_SUCCESS) {
        if (self->depth > 0) --self->depth;
        if (context != NULL) result = push(self, context);
    }
    return fake_leave(result);
}

EXPORT(cuCtxPushCurrent_v2) CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    struct thread *self   = fake_enter(CALL_cuCtxPushCurrent_v2);
    CUresult       result = fake_admit(NULL);
    if (result == CUDA_SUCCESS) result = fake_check_context(context);
    if (result == CUDA_SUCCESS) result = push(self, context);
    return fake_leave(result);
}

EXPORT(cuCtxPopCurrent_v2) CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    struct thread *self   = fake_enter(CALL_cuCtxPopCurrent_v2);
    CUresult       result = fake_admit(NULL);
    if (result == CUDA_SUCCESS && self->depth == 0) {
        fake_break(RULE_no_context, "there is none to take off");
        result = CUDA_ERROR_INVALID_CONTEXT;
    }
    if (result == CUDA_SUCCESS) {
        CUcontext top = self->stack[--self->depth];
        if (context != NULL) *context = top;
    }
    return fake_leave(result);
}

EXPORT(cuCtxGetDevice) CUresult cuCtxGetDevice(CUdevice *device)
{
    struct thread *self   = fake_enter(CALL_cuCtxGetDevice);
    CUresult       result = fake_admit(NULL);
    /* A way to ask whether there is one: no rule is broken. */
    if (result == CUDA_SUCCESS && self->depth == 0) result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS && device == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *device = self->stack[self->depth - 1]->device;
    return fake_leave(result);
}

EXPORT(cuCtxGetStreamPriorityRange) CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext context = NULL;
    fake_enter(CALL_cuCtxGetStreamPriorityRange);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS) result = fake_admit(context);
    if (result == CUDA_SUCCESS) {
        if (least != NULL) *least = 0;
        if (greatest != NULL) *greatest = world.settings.greatest_priority;
    }
    return fake_leave(result);
}

CONTROL void fake_cuda_expect_current(CUcontext context)
{
    const struct thread *self    = fake_control();
    CUcontext            current = self->depth > 0 ? self->stack[self->depth - 1] : NULL;
    if (current != context) {
        fake_break(RULE_not_restored, "current is context %llu, not %llu",
                   (unsigned long long)(current == NULL ? 0 : current->number),
                   (unsigned long long)(context == NULL ? 0 : context->number));
    }
    fake_control_end();
}

CONTROL int fake_cuda_context_depth(void)
{
    int depth = fake_control()->depth;
    fake_control_end();
    return depth;
}
