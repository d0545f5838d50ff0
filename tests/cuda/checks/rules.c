/* Each rule, broken on purpose. Those of memory are in memory.c. */
#include "kit.h"

static CUcontext context;

static void handles(void)
{
    CUstream stream = new_stream(), gone = new_stream();
    CUevent  event = new_event(), gone_event = new_event();
    GOOD(cuStreamDestroy_v2(gone));
    GOOD(cuEventDestroy_v2(gone_event));
    BREAKS("a stream that is destroyed", "handle", EQUAL("is refused", cuStreamQuery(gone), CUDA_ERROR_INVALID_HANDLE));
    BREAKS("a stream that is destroyed twice", "handle", (void)cuStreamDestroy_v2(gone));
    BREAKS("a stream that never was", "handle", (void)cuStreamQuery((CUstream)(void *)&stream));
    BREAKS("an event that is destroyed", "handle", (void)cuEventQuery(gone_event));
    BREAKS("is waited for", "handle", (void)cuStreamWaitEvent(stream, gone_event, 0));
    BREAKS("is recorded", "handle", (void)cuEventRecord(gone_event, stream));
    BREAKS("is destroyed again", "handle", (void)cuEventDestroy_v2(gone_event));
    BREAKS("an event that never was", "handle", (void)cuEventSynchronize((CUevent)(void *)&event));
    BREAKS("a handle in the middle of one", "handle", (void)cuEventQuery((CUevent)(void *)((char *)event + 8)));
    BREAKS("a context that never was", "handle", (void)cuCtxPushCurrent_v2((CUcontext)(void *)&context));
    BREAKS("the null stream", "default_stream", (void)cuEventRecord(event, NULL));
    BREAKS("the legacy stream", "default_stream", (void)cuStreamWaitEvent(CU_STREAM_LEGACY, event, 0));
    BREAKS("the per-thread stream", "default_stream", (void)cuStreamSynchronize(CU_STREAM_PER_THREAD));
    BREAKS("work on the null stream", "default_stream", (void)cuLaunchHostFunc(NULL, do_nothing, NULL));
    float time = 1;
    EQUAL("no event tells the time", cuEventElapsedTime(&time, event, event), CUDA_ERROR_INVALID_HANDLE);
    GOOD(cuEventDestroy_v2(event));
    end_stream(stream);
}

static void records(void)
{
    CUstream a = new_stream(), b = new_stream();
    CUevent  event = new_event();
    GOOD(cuEventRecord(event, a));
    CHECK("a record may have passed", fake_cuda_await_end(fake_cuda_op()));
    BREAKS("but was not seen to", "recorded_before_passed", GOOD(cuEventRecord(event, a)));
    EQUAL("it is seen to", cuEventSynchronize(event), CUDA_SUCCESS);
    BREAKS_NONE("then it may be recorded", GOOD(cuEventRecord(event, a)));
    fake_cuda_hold(b);
    GOOD(cuStreamWaitEvent(b, event, 0));
    GOOD(cuEventSynchronize(event));
    BREAKS("not with a wait left", "recorded_while_waited", GOOD(cuEventRecord(event, a)));
    fake_cuda_open(b);
    end_stream(a);
    end_stream(b);
    GOOD(cuEventDestroy_v2(event));
}

static void *without_context(void *event)
{
    CUstream    stream;
    CUevent     made;
    CUdeviceptr memory;
    void       *host;
    int         device;
    BREAKS("a stream is made in no context", "no_context",
           EQUAL("which is refused", cuStreamCreateWithPriority(&stream, 1, 0), CUDA_ERROR_INVALID_CONTEXT));
    BREAKS("an event is", "no_context", EQUAL("refused too", cuEventCreate(&made, 2), CUDA_ERROR_INVALID_CONTEXT));
    BREAKS("memory is", "no_context", (void)cuMemAlloc_v2(&memory, 1));
    BREAKS("page-locked memory is", "no_context", (void)cuMemHostAlloc(&host, 1, 0));
    BREAKS("memory is registered", "no_context", (void)cuMemHostRegister_v2(&host, 1, 0));
    BREAKS("a context is taken off that is not there", "no_context", (void)cuCtxPopCurrent_v2(NULL));
    BREAKS_NONE("to ask for the device is no mistake", EQUAL("but there is none", cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT));
    BREAKS_NONE("an event can be asked", GOOD(cuEventQuery(event)));
    fake_cuda_strict_context(1);
    BREAKS("not where it is strict", "no_context", (void)cuEventQuery(event));
    fake_cuda_strict_context(0);
    return NULL;
}

static void contexts(void)
{
    CUcontext   other, current, made;
    CUevent     event = new_event();
    CUdeviceptr memory = new_memory(10);
    void       *host = new_pinned(10);
    CUstream    stream = new_stream();
    int         device = -1;

    on_a_thread(without_context, event);
    GOOD(cuDevicePrimaryCtxRetain(&other, 1));
    GOOD(cuCtxPushCurrent_v2(other));
    EQUAL("contexts are on a stack", fake_cuda_context_depth(), 2);
    GOOD(cuCtxGetDevice(&device));
    EQUAL("the newest is current", device, 1);
    BREAKS("a context that is left current", "not_restored", fake_cuda_expect_current(context));
    BREAKS("memory of another context", "wrong_context", EQUAL("is not freed", cuMemFree_v2(memory), CUDA_ERROR_INVALID_CONTEXT));
    BREAKS("page-locked memory of another context", "wrong_context", (void)cuMemFreeHost(host));
    BREAKS("work on a stream of another context", "wrong_context", (void)cuMemsetD8Async(memory, 0, 1, stream));
    CUstream there = new_stream();
    BREAKS("an event on a stream of another context", "record_across",
           EQUAL("is not recorded", cuEventRecord(event, there), CUDA_ERROR_INVALID_HANDLE));
    BREAKS("a stream that waits for an event of another context", "wait_across", GOOD(cuStreamWaitEvent(there, event, 0)));
    end_stream(there);
    GOOD(cuCtxPopCurrent_v2(&current));
    CHECK("what is taken off is told", current == other);
    BREAKS_NONE("and the one below is current again", fake_cuda_expect_current(context));
    GOOD(cuDevicePrimaryCtxRelease_v2(1));
    BREAKS("a context that is released once too often", "handle", (void)cuDevicePrimaryCtxRelease_v2(1));
    BREAKS("a context that is gone", "handle", (void)cuCtxPushCurrent_v2(other));
    GOOD(cuDevicePrimaryCtxRetain(&made, 0));
    CHECK("a device has one primary context", made == context);
    GOOD(cuDevicePrimaryCtxRelease_v2(0));

    GOOD(cuCtxCreate_v2(&made, 0, 1));
    GOOD(cuCtxGetCurrent(&current));
    CHECK("a context that is made is current", current == made);
    CUevent left;
    GOOD(cuEventCreate(&left, 2));
    BREAKS("a context that is destroyed with an event", "left_behind", GOOD(cuCtxDestroy_v2(made)));
    GOOD(cuCtxGetCurrent(&current));
    CHECK("is not current any more", current == context);
    GOOD(cuMemFree_v2(memory));
    GOOD(cuMemFreeHost(host));
    GOOD(cuEventDestroy_v2(event));
    end_stream(stream);
}

static CUevent called;

static void call_driver(void *user)
{
    *(CUresult *)user = cuEventQuery(called);
}

static void host_functions(void)
{
    CUstream stream = new_stream();
    CUresult result = CUDA_SUCCESS;
    called          = new_event();
    BREAKS("a call from a host function", "host_function", {
        GOOD(cuLaunchHostFunc(stream, call_driver, &result));
        GOOD(cuStreamSynchronize(stream));
    });
    EQUAL("which is not permitted", result, CUDA_ERROR_NOT_PERMITTED);
    GOOD(cuEventDestroy_v2(called));
    end_stream(stream);
}

static void ends(void)
{
    CUstream stream = new_stream(), other = new_stream();
    CUevent  event = new_event();
    CHECK("work may be over", fake_cuda_await_end(work(stream)));
    BREAKS("a stream whose work was not seen to be", "destroyed_unseen", GOOD(cuStreamDestroy_v2(stream)));
    stream = new_stream();
    work(stream);
    GOOD(cuEventRecord(event, stream));
    GOOD(cuStreamWaitEvent(other, event, 0));
    work(other);
    GOOD(cuStreamSynchronize(other));
    BREAKS_NONE("it may be by another that came after", GOOD(cuStreamDestroy_v2(stream)));
    BREAKS_NONE("or by its own", GOOD(cuStreamDestroy_v2(other)));
    GOOD(cuEventDestroy_v2(event));
}

static void many(void)
{
    enum { MOST = 128 };
    CUstream streams[MOST], more;
    int      made = 0;
    for (int round = 0; round < 500; ++round) {
        CUstream stream = new_stream();
        work(stream);
        end_stream(stream);
    }
    while (made < MOST && cuStreamCreateWithPriority(&streams[made], 1, 0) == CUDA_SUCCESS) ++made;
    EQUAL("so many streams may be alive", made, MOST);
    EQUAL("and no more", cuStreamCreateWithPriority(&more, 1, 0), CUDA_ERROR_OUT_OF_MEMORY);
    while (made > 0) GOOD(cuStreamDestroy_v2(streams[--made]));
}

static void *forbidden_while_captured(void *event)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    GOOD(cuThreadExchangeStreamCaptureMode(&mode));
    BREAKS_NONE("who answers for himself alone may ask during a capture", GOOD(cuEventQuery(event)));
    GOOD(cuThreadExchangeStreamCaptureMode(&mode));
    BREAKS("else a query disturbs it", "capture",
           EQUAL("and is refused", cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    return NULL;
}

static void begin(CUstream stream, CUstreamCaptureMode mode) { GOOD(cuStreamBeginCapture_v2(stream, mode)); }

static void captures(void)
{
    CUstream              stream = new_stream(), other = new_stream();
    CUevent               event = new_event(), captured = new_event();
    CUgraph               graph;
    CUstreamCaptureStatus status;
    static struct trail   trail;
    static struct mark    mark = {&trail, 1};

    GOOD(cuStreamIsCapturing(stream, &status));
    EQUAL("a stream captures nothing", status, CU_STREAM_CAPTURE_STATUS_NONE);
    begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    GOOD(cuStreamIsCapturing(stream, &status));
    EQUAL("until it is told to", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    GOOD(cuLaunchHostFunc(stream, leave_mark, &mark));
    GOOD(cuEventRecord(captured, stream));
    GOOD(cuStreamWaitEvent(other, captured, 0));
    GOOD(cuStreamIsCapturing(other, &status));
    EQUAL("who waits for it captures too", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    GOOD(cuLaunchHostFunc(other, leave_mark, &mark));
    GOOD(cuStreamEndCapture(stream, &graph));
    CHECK("the graph has what was enqueued", fake_cuda_graph_nodes(graph) == 3);
    GOOD(cuGraphDestroy(graph));
    GOOD(cuStreamSynchronize(stream));
    GOOD(cuStreamSynchronize(other));
    EQUAL("none of it was run", trail.count, 0);

    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    BREAKS_NONE("a relaxed capture forbids nothing", GOOD(cuEventQuery(event)));
    BREAKS("but to wait for its stream", "capture",
           EQUAL("which is not permitted there", cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    EQUAL("and makes it invalid", cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    GOOD(cuEventRecord(captured, stream));
    BREAKS("an event of a capture that is asked", "capture",
           EQUAL("is refused, as captured", cuEventQuery(captured), CUDA_ERROR_CAPTURED_EVENT));
    (void)cuStreamEndCapture(stream, &graph);
    GOOD(cuEventRecord(event, other));
    GOOD(cuStreamSynchronize(other));
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    BREAKS("a wait for what is not captured", "capture",
           EQUAL("is not possible", cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION));
    (void)cuStreamEndCapture(stream, &graph);
    begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    BREAKS("memory that is made on the capturing thread", "capture", {
        CUdeviceptr memory;
        EQUAL("is not", cuMemAlloc_v2(&memory, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    });
    (void)cuStreamEndCapture(stream, &graph);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    GOOD(cuThreadExchangeStreamCaptureMode(&mode));
    BREAKS_NONE("but where that thread is relaxed", GOOD(cuEventQuery(event)));
    GOOD(cuThreadExchangeStreamCaptureMode(&mode));
    EQUAL("which the capture survives", cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    GOOD(cuGraphDestroy(graph));
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    on_a_thread(forbidden_while_captured, event);
    (void)cuStreamEndCapture(stream, &graph);
    end_stream(stream);
    end_stream(other);
    GOOD(cuEventDestroy_v2(event));
    GOOD(cuEventDestroy_v2(captured));
}

static void forgiven(void)
{
    CUevent event = new_event();
    fake_cuda_forgive("default_stream", 1);
    BREAKS_NONE("a rule can be forgiven", (void)cuEventRecord(event, NULL));
    fake_cuda_forgive("default_stream", 0);
    (void)cuEventRecord(event, NULL);
    (void)cuEventRecord(event, NULL);
    EQUAL("what is broken is counted", fake_cuda_violations("default_stream"), 2);
    CHECK("and told", strstr(fake_cuda_last_violation(), "fake_cuda: default_stream: cuEventRecord: ") != NULL);
    EQUAL("for all rules together too", fake_cuda_violations(NULL), 2);
    EQUAL("until it is taken", fake_cuda_take_violations(NULL), 2);
    EQUAL("then there is none", fake_cuda_violations(NULL), 0);
    fake_cuda_census census;
    fake_cuda_count(&census);
    CHECK("what is alive is counted", census.events == 1 && census.streams == 0 && census.retained == 1 && census.contexts == 1);
    EQUAL("and told as left behind", fake_cuda_check_end(), 2);
    EQUAL("each of it", fake_cuda_take_violations("left_behind"), 2);
    GOOD(cuEventDestroy_v2(event));
}

int main(void)
{
    context = retain(0);
    handles();
    records();
    contexts();
    host_functions();
    ends();
    many();
    captures();
    forgiven();
    BREAKS_NONE("nothing else was reported", (void)0);
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    return finish();
}
