/* Work on memory: copies, fills, and the kernels of tests. */
#include "state.h"
#include <string.h>

/* Memory of the host that is not page-locked is read at once, and written before the call returns. */
static CUresult copy(enum call call, uint64_t to, enum side to_side, uint64_t from, enum side from_side, size_t size, CUstream stream)
{
    struct thread *self   = fake_enter(call);
    CUresult       result = fake_admit_work(stream, true);
    if (result != CUDA_SUCCESS || size == 0 || fake_captures(stream)) return fake_leave(result);

    struct op *op = fake_op(WORK_COPY);
    op->size      = size;
    op->to        = (void *)(uintptr_t)to;
    op->from      = (const void *)(uintptr_t)from;
    result        = fake_use(op, to, size, true, to_side);
    bool is_to_pageable = result == CUDA_SUCCESS && op->use_count == 0;
    if (result == CUDA_SUCCESS) result = fake_use(op, from, size, false, from_side);
    if (result != CUDA_SUCCESS) {
        fake_op_free(op);
        return fake_leave(result);
    }
    const struct use *source           = op->use_count > (is_to_pageable ? 0 : 1) ? &op->uses[op->use_count - 1] : NULL;
    bool              is_from_pageable = source == NULL;
    if (!is_to_pageable) op->to = fake_use_bytes(&op->uses[0]);
    if (source != NULL) {
        op->from = fake_use_bytes(source);
        if (world.settings.is_watching && source->block->kind != MEMORY_DEVICE && fake_is_still(source)) {
            op->is_watched = true;
            op->sum        = fake_sum(op->from, size);
        }
    } else {
        op->staged = memcpy(fake_room(NULL, size), op->from, size);
        op->from   = op->staged;
    }
    world.pageable_copies += is_to_pageable || is_from_pageable;
    fake_enqueue(stream, op);
    if (is_to_pageable) {
        struct record until = {.stream = stream, .sequence = stream->enqueued};
        fake_clock_copy(&self->scratch, &stream->clock);
        result = fake_wait(&until);
        if (result == CUDA_SUCCESS) fake_see(&self->scratch);
    }
    return fake_leave(result);
}

EXPORT(cuMemcpyHtoDAsync_v2)
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t size, CUstream stream)
{
    return copy(CALL_cuMemcpyHtoDAsync_v2, target, SIDE_DEVICE, (uint64_t)(uintptr_t)source, SIDE_HOST, size, stream);
}

EXPORT(cuMemcpyDtoHAsync_v2)
CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t size, CUstream stream)
{
    return copy(CALL_cuMemcpyDtoHAsync_v2, (uint64_t)(uintptr_t)target, SIDE_HOST, source, SIDE_DEVICE, size, stream);
}

EXPORT(cuMemcpyDtoDAsync_v2)
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream)
{
    return copy(CALL_cuMemcpyDtoDAsync_v2, target, SIDE_DEVICE, source, SIDE_DEVICE, size, stream);
}

EXPORT(cuMemcpyAsync)
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream)
{
    return copy(CALL_cuMemcpyAsync, target, SIDE_ANY, source, SIDE_ANY, size, stream);
}

static CUresult set(enum call call, enum work work, CUdeviceptr target, unsigned value, size_t size, CUstream stream)
{
    fake_enter(call);
    CUresult result = fake_admit_work(stream, true);
    if (result == CUDA_SUCCESS && work == WORK_SET32 && target % 4 != 0) result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS || size == 0 || fake_captures(stream)) return fake_leave(result);
    struct op *op = fake_op(work);
    op->value     = value;
    op->size      = size;
    result        = fake_use(op, target, size, true, SIDE_KNOWN);
    if (result != CUDA_SUCCESS) {
        fake_op_free(op);
        return fake_leave(result);
    }
    op->to = fake_use_bytes(&op->uses[0]);
    fake_enqueue(stream, op);
    return fake_leave(result);
}

EXPORT(cuMemsetD8Async) CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream)
{
    return set(CALL_cuMemsetD8Async, WORK_SET8, target, value, count, stream);
}

EXPORT(cuMemsetD32Async) CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream)
{
    return set(CALL_cuMemsetD32Async, WORK_SET32, target, value, count * sizeof value, stream);
}

CONTROL CUresult fake_cuda_launch(CUstream stream, CUhostFn kernel, void *user, const fake_cuda_range *ranges, int count)
{
    fake_enter(CALL_fake_cuda_launch);
    CUresult result = fake_admit_work(stream, true);
    if (result == CUDA_SUCCESS && (kernel == NULL || count < 0 || count > MOST_USES)) result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS || fake_captures(stream)) return fake_leave(result);
    struct op *op = fake_op(WORK_KERNEL);
    op->function  = kernel;
    op->user      = user;
    for (int at = 0; at < count && result == CUDA_SUCCESS; ++at)
        result = fake_use(op, ranges[at].memory, ranges[at].size, ranges[at].is_written != 0, SIDE_KNOWN);
    if (result == CUDA_SUCCESS) fake_enqueue(stream, op);
    else fake_op_free(op);
    return fake_leave(result);
}

CONTROL void *fake_cuda_content(CUdeviceptr memory, size_t size)
{
    const struct op *op      = fake_control()->running;
    unsigned char   *content = NULL;
    for (int at = 0; op != NULL && at < op->use_count && content == NULL; ++at) {
        const struct use *use   = &op->uses[at];
        uint64_t          begin = use->block->address + use->offset;
        if (memory >= begin && size <= use->size && memory - begin <= use->size - size)
            content = fake_use_bytes(use) + (memory - begin);
    }
    if (content == NULL) fake_break(RULE_memory, "%zu bytes at %#llx: in no range of the kernel", size, (unsigned long long)memory);
    fake_control_end();
    return content;
}

CONTROL uint64_t fake_cuda_pageable_copies(void)
{
    fake_control();
    uint64_t count = world.pageable_copies;
    fake_control_end();
    return count;
}

CONTROL void fake_cuda_count(fake_cuda_census *census)
{
    fake_control();
    memset(census, 0, sizeof *census);
    for (size_t at = 0; at < world.streams.used; ++at) census->streams += ((CUstream)fake_at(&world.streams, at))->is_alive;
    for (size_t at = 0; at < world.events.used; ++at) census->events += ((CUevent)fake_at(&world.events, at))->is_alive;
    for (size_t at = 0; at < world.contexts.used; ++at) census->contexts += ((CUcontext)fake_at(&world.contexts, at))->is_alive;
    for (int device = 0; device < MOST_DEVICES; ++device) census->retained += world.primary[device].retained;
    fake_census_memory(census);
    fake_control_end();
}
