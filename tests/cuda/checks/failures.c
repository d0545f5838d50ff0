/* What is made to fail, fails as on a real machine: once, for ever, or the whole context with it. */
#include "kit.h"

static CUcontext context;

static void machine(void)
{
    int         number = 0, least = 1, greatest = 1;
    char        name[32];
    CUuuid      one, two;
    CUdevice    device;
    const char *text = NULL;

    EQUAL("nothing works before cuInit", cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
    EQUAL("but the version", cuDriverGetVersion(&number), CUDA_SUCCESS);
    EQUAL("which is that of the names that are used", number, 12040);
    fake_cuda_version(11000);
    GOOD(cuDriverGetVersion(&number));
    EQUAL("or an old one", number, 11000);
    fake_cuda_version(12040);
    fake_cuda_devices(-1);
    EQUAL("a machine without devices has no driver", cuInit(0), CUDA_ERROR_NO_DEVICE);
    fake_cuda_devices(0);
    GOOD(cuInit(0));
    GOOD(cuDeviceGetCount(&number));
    EQUAL("or one that counts none", number, 0);
    fake_cuda_devices(2);
    GOOD(cuDeviceGetCount(&number));
    EQUAL("mostly there are two", number, 2);
    EQUAL("and no third", cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
    GOOD(cuDeviceGetName(name, (int)sizeof name, 1));
    CHECK("they have names", strcmp(name, "Fake GPU 1") == 0);
    GOOD(cuDeviceGetUuid_v2(&one, 0));
    GOOD(cuDeviceGetUuid_v2(&two, 1));
    CHECK("and numbers of their own", memcmp(&one, &two, sizeof one) != 0);
    GOOD(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    CHECK("errors have names", strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
    GOOD(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK("and texts", strcmp(text, "out of memory") == 0);
    EQUAL("but only those that there are", cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    EQUAL("whose text is none", text == NULL, 1);

    context = retain(0);
    GOOD(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK("there are priorities", least == 0 && greatest == -5);
    CUstream         stream;
    fake_cuda_stream info;
    GOOD(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -9));
    fake_cuda_stream_info(stream, &info);
    CHECK("one that is out of range is the next that is not", info.priority == -5 && info.flags == 1 && info.device == 0);
    CHECK("a stream is found by its number", fake_cuda_stream_numbered(info.number) == stream);
    GOOD(cuStreamDestroy_v2(stream));
    fake_cuda_priorities(0);
    GOOD(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK("or there are none", least == 0 && greatest == 0);
    fake_cuda_priorities(-5);
}

static void once(void)
{
    CUevent event = new_event(), other;
    CHECK("a failure is planned", fake_cuda_fail("cuEventQuery", 2, CUDA_ERROR_UNKNOWN, 0));
    EQUAL("the first call succeeds", cuEventQuery(event), CUDA_SUCCESS);
    EQUAL("the second fails", cuEventQuery(event), CUDA_ERROR_UNKNOWN);
    EQUAL("the third succeeds", cuEventQuery(event), CUDA_SUCCESS);
    CHECK("of a function that there is not, none is planned", !fake_cuda_fail("cuNothing", 1, CUDA_ERROR_UNKNOWN, 0));
    fake_cuda_fail("cuEventCreate", 1, CUDA_ERROR_OUT_OF_MEMORY, 0);
    EQUAL("memory runs out", cuEventCreate(&other, 2), CUDA_ERROR_OUT_OF_MEMORY);
    fake_cuda_fail("cuEventQuery", 2, CUDA_ERROR_UNKNOWN, FAKE_CUDA_ALWAYS);
    EQUAL("one call goes well", cuEventQuery(event), CUDA_SUCCESS);
    EQUAL("then none", cuEventQuery(event), CUDA_ERROR_UNKNOWN);
    EQUAL("ever", cuEventQuery(event), CUDA_ERROR_UNKNOWN);
    fake_cuda_fail_no_more();
    EQUAL("until it is taken back", cuEventQuery(event), CUDA_SUCCESS);
    fake_cuda_fail("cuEventDestroy_v2", 1, CUDA_ERROR_UNKNOWN, FAKE_CUDA_DONE);
    EQUAL("what fails", cuEventDestroy_v2(event), CUDA_ERROR_UNKNOWN);
    BREAKS("may be done all the same", "handle", (void)cuEventQuery(event));
}

static void *see_held(void *held)
{
    EQUAL("who waits for what is held is woken with it", cuStreamSynchronize(held), CUDA_ERROR_ILLEGAL_ADDRESS);
    return NULL;
}

/* Everything of a context that was lost answers why; a new one works. */
static void lost(void)
{
    static struct trail trail;
    static struct mark  mark   = {&trail, 1};
    CUstream            stream = new_stream(), held = new_stream();
    CUevent             event = new_event(), more;
    CUdeviceptr         memory = new_memory(10);
    void               *host   = new_pinned(10);
    CUcontext           other, current;
    pthread_t           waiter;

    GOOD(cuDevicePrimaryCtxRetain(&other, 1));
    GOOD(cuCtxPushCurrent_v2(other));
    CUstream elsewhere = new_stream();
    GOOD(cuCtxPopCurrent_v2(NULL));
    fake_cuda_hold(stream);
    fake_cuda_hold(held);
    GOOD(cuEventRecord(event, held));
    BREAKS("a stream of another context waits", "wait_across", GOOD(cuStreamWaitEvent(elsewhere, event, 0)));
    GOOD(fake_cuda_fault(stream, CUDA_ERROR_ILLEGAL_ADDRESS));
    GOOD(cuLaunchHostFunc(stream, leave_mark, &mark));
    if (pthread_create(&waiter, NULL, see_held, held) != 0) exit(2);
    fake_cuda_open(stream);
    pthread_join(waiter, NULL);
    EQUAL("who waits for what failed is told", cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("what was behind the fault is not run", trail.count, 0);
    EQUAL("a held stream has failed", cuStreamQuery(held), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("an event has", cuEventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("waiting for it has", cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("recording it has", cuEventRecord(event, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("making one has", cuEventCreate(&more, 2), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("and copying", cuMemcpyHtoDAsync_v2(memory, host, 1, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("another context has not", cuStreamSynchronize(elsewhere), CUDA_SUCCESS);
    GOOD(cuStreamDestroy_v2(elsewhere));
    GOOD(cuDevicePrimaryCtxRelease_v2(1));
    GOOD(cuCtxGetCurrent(&current));
    CHECK("which context is current can be asked", current == context);
    EQUAL("to destroy a stream says why", cuStreamDestroy_v2(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("a held one too", cuStreamDestroy_v2(held), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("an event too", cuEventDestroy_v2(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("memory too", cuMemFree_v2(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL("page-locked memory too", cuMemFreeHost(host), CUDA_ERROR_ILLEGAL_ADDRESS);
    GOOD(cuCtxSetCurrent(NULL));
    BREAKS_NONE("all is gone with it", GOOD(cuDevicePrimaryCtxRelease_v2(0)));
    context = retain(0);
    EQUAL("a new context works", cuEventCreate(&more, 2), CUDA_SUCCESS);
    GOOD(cuEventDestroy_v2(more));
}

/* A call's own error may be the end of the context. */
static void sticky(CUresult code, unsigned flags, const char *name, int is_sticky)
{
    CUevent event = new_event();
    fake_cuda_fail("cuEventQuery", 1, code, flags);
    CUresult first = cuEventQuery(event), second = cuEventQuery(event);
    CHECK(name, first == code && second == (is_sticky ? code : CUDA_SUCCESS));
    (void)cuEventDestroy_v2(event);
    GOOD(cuCtxSetCurrent(NULL));
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    context = retain(0);
}

int main(void)
{
    machine();
    once();
    lost();
    sticky(CUDA_ERROR_ILLEGAL_ADDRESS, 0, "700 stays", 1);
    sticky(CUDA_ERROR_LAUNCH_FAILED, 0, "719 stays", 1);
    sticky(CUDA_ERROR_OUT_OF_MEMORY, 0, "2 does not", 0);
    sticky(CUDA_ERROR_UNKNOWN, 0, "999 does not", 0);
    sticky(CUDA_ERROR_UNKNOWN, FAKE_CUDA_STICKY, "999 does where it is told to", 1);
    CUevent event = new_event();
    fake_cuda_lose(context, CUDA_ERROR_ECC_UNCORRECTABLE);
    EQUAL("a context can be lost at any time", cuEventQuery(event), CUDA_ERROR_ECC_UNCORRECTABLE);
    (void)cuEventDestroy_v2(event);
    BREAKS_NONE("nothing else was reported", (void)0);
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    return finish();
}
