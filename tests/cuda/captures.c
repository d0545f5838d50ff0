/* Captures of streams into graphs: what is enqueued meanwhile is counted and not run, and some calls disturb them. */
#include "state.h"
#include <stdlib.h>

struct CUgraph_st {
    uint64_t nodes;
};

bool fake_captures(CUstream stream)
{
    bool is_so = stream->capture.status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (is_so) ++stream->capture.nodes;
    return is_so;
}

void fake_invalidate(CUstream origin, const char *why)
{
    fake_break(RULE_capture, "that of stream %llu: %s", (unsigned long long)origin->number, why);
    for (size_t at = 0; at < world.streams.used; ++at) {
        CUstream stream = fake_at(&world.streams, at);
        if (stream->capture.origin == origin && stream->capture.status != CU_STREAM_CAPTURE_STATUS_NONE)
            stream->capture.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    }
}

/* Whether the capture forbids calls that might wait for the device to the calling thread. */
static bool forbids(CUstream stream, const struct thread *self)
{
    if (stream->capture.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return false;
    if (self->mode == CU_STREAM_CAPTURE_MODE_RELAXED || stream->capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    if (stream->capture.thread == self->number) return true;
    return self->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && stream->capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult fake_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    if (world.captures == 0) return result;
    for (size_t at = 0; at < world.streams.used; ++at) {
        CUstream stream = fake_at(&world.streams, at);
        if (!forbids(stream, fake_self())) continue;
        fake_invalidate(stream->capture.origin, "such a call is not permitted during it");
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

EXPORT(cuThreadExchangeStreamCaptureMode) CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    struct thread *self   = fake_enter(CALL_cuThreadExchangeStreamCaptureMode);
    CUresult       result = fake_admit(NULL);
    if (result == CUDA_SUCCESS && (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        CUstreamCaptureMode before = self->mode;
        self->mode                 = *mode;
        *mode                      = before;
    }
    return fake_leave(result);
}

EXPORT(cuStreamIsCapturing) CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    fake_enter(CALL_cuStreamIsCapturing);
    CUresult result = fake_check_stream(stream);
    if (result == CUDA_SUCCESS) result = fake_admit(stream->context);
    if (result == CUDA_SUCCESS && status == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *status = stream->capture.status;
    return fake_leave(result);
}

EXPORT(cuStreamBeginCapture_v2) CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    const struct thread *self   = fake_enter(CALL_cuStreamBeginCapture_v2);
    CUresult             result = fake_check_stream(stream);
    if (result == CUDA_SUCCESS) result = fake_admit(stream->context);
    if (result == CUDA_SUCCESS && (unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && stream->capture.status != CU_STREAM_CAPTURE_STATUS_NONE) {
        fake_invalidate(stream->capture.origin, "it was begun twice");
        result = CUDA_ERROR_ILLEGAL_STATE;
    }
    if (result == CUDA_SUCCESS) {
        stream->capture.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        stream->capture.mode   = mode;
        stream->capture.thread = self->number;
        stream->capture.origin = stream;
        stream->capture.nodes  = 0;
        ++world.captures;
    }
    return fake_leave(result);
}

/* All streams of the capture leave it, and events that were recorded in it are as if they never were. */
static uint64_t release(CUstream origin)
{
    uint64_t nodes = 0;
    for (size_t at = 0; at < world.streams.used; ++at) {
        CUstream stream = fake_at(&world.streams, at);
        if (stream->capture.origin != origin || stream->capture.status == CU_STREAM_CAPTURE_STATUS_NONE) continue;
        nodes += stream->capture.nodes;
        stream->capture.status = CU_STREAM_CAPTURE_STATUS_NONE;
        --world.captures;
    }
    for (size_t at = 0; at < world.events.used; ++at) {
        CUevent event = fake_at(&world.events, at);
        if (event->capturing == origin) event->capturing = NULL;
    }
    return nodes;
}

static CUresult end(CUstream stream, CUgraph *graph)
{
    const struct thread *self = fake_self();
    *graph                    = NULL;
    if (stream->capture.status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture.origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (stream->capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED && stream->capture.thread != self->number)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    bool     is_valid = stream->capture.status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    uint64_t nodes    = release(stream);
    if (!is_valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *graph          = fake_room(NULL, sizeof **graph);
    (*graph)->nodes = nodes;
    return CUDA_SUCCESS;
}

EXPORT(cuStreamEndCapture) CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    fake_enter(CALL_cuStreamEndCapture);
    CUresult result = fake_check_stream(stream);
    if (result == CUDA_SUCCESS) result = fake_admit(stream->context);
    if (result == CUDA_SUCCESS && graph == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = end(stream, graph);
    return fake_leave(result);
}

EXPORT(cuGraphDestroy) CUresult cuGraphDestroy(CUgraph graph)
{
    fake_enter(CALL_cuGraphDestroy);
    CUresult result = fake_admit(NULL);
    if (result == CUDA_SUCCESS && graph == NULL) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) free(graph);
    return fake_leave(result);
}

CONTROL uint64_t fake_cuda_graph_nodes(CUgraph graph) { return graph->nodes; }
