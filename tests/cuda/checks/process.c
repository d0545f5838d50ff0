/* A process that does one thing: its end, and what the environment told the driver, are the test's to look at. */
#include "kit.h"

static int is(const char *name, const char *other) { return strcmp(name, other) == 0; }

/* Leaves one of each. */
static void leave(void)
{
    CUcontext made;
    char     *host = new_pinned(10);
    new_memory(10);
    new_stream();
    new_event();
    GOOD(cuMemHostRegister_v2(malloc(100), 100, 0));
    GOOD(cuCtxCreate_v2(&made, 0, 1));
    host[10] = 0;
}

static void print_delays(void)
{
    CUstream stream = new_stream();
    for (int at = 0; at < 5; ++at) work(stream);
    end_stream(stream);
    puts("done");
}

/* What the environment made fail. */
static void query_thrice(void)
{
    CUevent event = new_event();
    for (int at = 0; at < 3; ++at) printf("%d ", (int)cuEventQuery(event));
    puts("");
    (void)cuEventDestroy_v2(event);
}

static void run_held(void)
{
    CUstream first = new_stream(), second = new_stream();
    work(first);
    work(second);
    GOOD(cuStreamSynchronize(first));
    printf("second %d\n", (int)cuStreamQuery(second));
    fake_cuda_open(second);
    end_stream(first);
    end_stream(second);
}

int main(int count, char **arguments)
{
    const char *what   = count > 1 ? arguments[1] : "";
    int         number = 0;
    if (is(what, "init")) {
        CUresult result = cuInit(0);
        (void)cuDeviceGetCount(&number);
        printf("%d %d ", (int)result, number);
        GOOD(cuDriverGetVersion(&number));
        printf("%d\n", number);
        return 0;
    }
    retain(0);
    if (is(what, "leave")) leave();
    if (is(what, "delays")) print_delays();
    if (is(what, "queries")) query_thrice();
    if (is(what, "held")) run_held();
    if (is(what, "break")) (void)cuStreamQuery(NULL);
    puts("end");
    if (!is(what, "leave")) GOOD(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
