/* Memory: what copies and fills do, who may touch it, and when it may be freed. */
#include "kit.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf touched;

static void note_touch(int signal)
{
    (void)signal;
    siglongjmp(touched, 1);
}

static int is_out_of_reach(const void *memory)
{
    struct sigaction action = {.sa_handler = note_touch}, before_segv, before_bus;
    volatile int     is_so  = 0;
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
    if (sigsetjmp(touched, 1) == 0) (void)*(const volatile char *)memory;
    else is_so = 1;
    sigaction(SIGSEGV, &before_segv, NULL);
    sigaction(SIGBUS, &before_bus, NULL);
    return is_so;
}

static void copies(void)
{
    enum { SIZE = 1000 };
    CUstream       stream = new_stream();
    CUdeviceptr    one = new_memory(SIZE), two = new_memory(SIZE);
    unsigned char *from = new_pinned(SIZE), *to = new_pinned(SIZE), plain[SIZE], back[SIZE], seen[SIZE];
    for (int at = 0; at < SIZE; ++at) from[at] = (unsigned char)(at * 7);

    GOOD(cuMemcpyHtoDAsync_v2(one, from, SIZE, stream));
    GOOD(cuMemcpyDtoDAsync_v2(two, one, SIZE, stream));
    GOOD(cuMemcpyDtoHAsync_v2(to, two, SIZE, stream));
    GOOD(cuStreamSynchronize(stream));
    EQUAL("a copy over two pieces of a device comes back", memcmp(from, to, SIZE), 0);
    GOOD(cuMemsetD8Async(one, 9, SIZE, stream));
    GOOD(cuMemsetD32Async(one + 4, 0x01020304, 2, stream));
    GOOD(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, one, SIZE, stream));
    GOOD(cuStreamSynchronize(stream));
    CHECK("fills are of bytes and of words", to[3] == 9 && to[4] == 4 && to[11] == 1 && to[12] == 9);
    CHECK("a device's memory can be looked at beside the driver", fake_cuda_peek(seen, one, SIZE) && memcmp(seen, to, SIZE) == 0);
    EQUAL("a word must be aligned", cuMemsetD32Async(one + 2, 0, 1, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK("the host cannot touch it", is_out_of_reach((const void *)(uintptr_t)one));
    EQUAL("none of that was of pageable memory", fake_cuda_pageable_copies(), 0);

    fake_cuda_hold(stream);
    memset(plain, 5, SIZE);
    GOOD(cuMemcpyHtoDAsync_v2(one, plain, SIZE, stream));
    memset(plain, 6, SIZE);
    fake_cuda_open(stream);
    GOOD(cuMemcpyDtoHAsync_v2(back, one, SIZE, stream));
    CHECK("pageable memory is read at once, and written before the call returns", back[0] == 5 && back[SIZE - 1] == 5);
    EQUAL("and is counted", fake_cuda_pageable_copies(), 2);
    GOOD(cuMemHostRegister_v2(plain, SIZE, 0));
    EQUAL("memory is registered once", cuMemHostRegister_v2(plain + 10, 5, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    GOOD(cuMemcpyDtoHAsync_v2(plain, one, SIZE, stream));
    EQUAL("registered memory is page-locked", fake_cuda_pageable_copies(), 2);
    GOOD(cuStreamSynchronize(stream));
    GOOD(cuMemHostUnregister(plain));
    BREAKS("what is not registered is not unregistered", "memory",
           EQUAL("which is refused", cuMemHostUnregister(plain), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
    GOOD(cuMemFree_v2(one));
    GOOD(cuMemFree_v2(two));
    GOOD(cuMemFreeHost(from));
    CHECK("page-locked memory that was freed is out of reach", is_out_of_reach(from));
    CHECK("and so is what lies behind such memory", is_out_of_reach(to + 4096));
    GOOD(cuMemFreeHost(to));
    end_stream(stream);
}

static void bounds(void)
{
    CUstream       stream = new_stream();
    CUdeviceptr    memory = new_memory(100), gone = new_memory(100);
    unsigned char *host = new_pinned(100);
    GOOD(cuMemFree_v2(gone));
    BREAKS("a copy over the end", "memory",
           EQUAL("is refused", cuMemcpyHtoDAsync_v2(memory + 50, host, 51, stream), CUDA_ERROR_INVALID_VALUE));
    BREAKS("a copy from over the end of page-locked memory", "memory", (void)cuMemcpyHtoDAsync_v2(memory, host + 50, 51, stream));
    BREAKS("a copy to what was freed", "memory", (void)cuMemcpyHtoDAsync_v2(gone, host, 1, stream));
    BREAKS("a copy to what is none", "memory", (void)cuMemcpyHtoDAsync_v2(12345, host, 1, stream));
    BREAKS("a copy from a device as if from the host", "memory",
           (void)cuMemcpyHtoDAsync_v2(memory, (const void *)(uintptr_t)memory, 1, stream));
    BREAKS("memory that is freed twice", "memory", (void)cuMemFree_v2(gone));
    BREAKS("memory that is freed from its middle", "memory", (void)cuMemFree_v2(memory + 1));
    BREAKS("a device's memory that is freed as page-locked", "memory", (void)cuMemFreeHost((void *)(uintptr_t)memory));
    host[100] = 1;
    BREAKS("a byte behind page-locked memory", "overrun", GOOD(cuMemFreeHost(host)));
    fake_cuda_memory(1000);
    CUdeviceptr more;
    EQUAL("a device has so much memory", cuMemAlloc_v2(&more, 901), CUDA_ERROR_OUT_OF_MEMORY);
    GOOD(cuMemAlloc_v2(&more, 900));
    GOOD(cuMemFree_v2(more));
    fake_cuda_memory((size_t)1 << 30);
    GOOD(cuMemFree_v2(memory));
    end_stream(stream);
}

static void in_use(void)
{
    CUstream       stream = new_stream();
    CUevent        event  = new_event();
    CUdeviceptr    memory = new_memory(100);
    unsigned char *host   = new_pinned(100);

    memset(host, 1, 100);
    GOOD(cuMemcpyHtoDAsync_v2(memory, host, 100, stream));
    CHECK("a copy may be over", fake_cuda_await_end(fake_cuda_op()));
    BREAKS("but was not seen to be: page-locked memory is in use", "freed_in_use", GOOD(cuMemFreeHost(host)));
    BREAKS("a device's memory is, too", "freed_in_use", GOOD(cuMemFree_v2(memory)));

    memory = new_memory(100), host = new_pinned(100);
    fake_cuda_hold(stream);
    GOOD(cuMemcpyDtoHAsync_v2(host, memory, 100, stream));
    BREAKS("memory of work that is held", "freed_in_use", GOOD(cuMemFree_v2(memory)));
    BREAKS("a host that looks too early", "unseen", fake_cuda_expect_seen(host, 100));
    fake_cuda_open(stream);
    GOOD(cuEventRecord(event, stream));
    GOOD(cuEventSynchronize(event));
    BREAKS_NONE("after the event it may look", fake_cuda_expect_seen(host, 100));
    EQUAL("what was freed too early was still copied", host[0], 0xcd);
    BREAKS_NONE("and free", GOOD(cuMemFreeHost(host)));
    GOOD(cuEventDestroy_v2(event));
    end_stream(stream);
}

static void *see(void *stream)
{
    GOOD(cuStreamSynchronize(stream));
    return NULL;
}

static void races(void)
{
    CUstream       a = new_stream(), b = new_stream();
    CUevent        event  = new_event();
    CUdeviceptr    memory = new_memory(100);
    unsigned char *host   = new_pinned(100);

    GOOD(cuMemsetD8Async(memory, 1, 100, a));
    CHECK("a fill may be over", fake_cuda_await_end(fake_cuda_op()));
    BREAKS("work of another stream that nothing orders", "race", GOOD(cuMemcpyDtoHAsync_v2(host, memory, 10, b)));
    BREAKS_NONE("other bytes are no matter", GOOD(cuMemsetD8Async((CUdeviceptr)(uintptr_t)host + 50, 1, 10, a)));
    GOOD(cuStreamSynchronize(b));
    GOOD(cuStreamSynchronize(a));
    GOOD(cuMemsetD8Async(memory, 2, 100, a));
    GOOD(cuEventRecord(event, a));
    GOOD(cuStreamWaitEvent(b, event, 0));
    BREAKS_NONE("work that an event orders", GOOD(cuMemcpyDtoHAsync_v2(host, memory, 100, b)));
    BREAKS("a write that is too early for a read", "race", GOOD(cuMemsetD8Async(memory, 3, 1, a)));
    GOOD(cuStreamSynchronize(b));
    BREAKS_NONE("not when the host has seen the read", GOOD(cuMemsetD8Async(memory + 1, 3, 1, a)));
    on_a_thread(see, a);
    BREAKS_NONE("on any of its threads", GOOD(cuMemsetD8Async(memory + 1, 3, 1, b)));
    GOOD(cuStreamSynchronize(b));
    GOOD(cuStreamSynchronize(a));
    GOOD(cuMemcpyDtoHAsync_v2(host, memory, 50, a));
    BREAKS_NONE("two may read", GOOD(cuMemcpyDtoHAsync_v2(host + 50, memory, 50, b)));
    GOOD(cuStreamSynchronize(a));
    GOOD(cuStreamSynchronize(b));

    fake_cuda_watch(1);
    fake_cuda_hold(a);
    GOOD(cuMemcpyHtoDAsync_v2(memory, host, 100, a));
    host[3] ^= 1;
    BREAKS("a host that changes what is to be copied", "changed", {
        fake_cuda_open(a);
        GOOD(cuStreamSynchronize(a));
    });
    fake_cuda_hold(a);
    GOOD(cuMemsetD8Async(memory, 77, 100, a));
    GOOD(cuMemcpyDtoHAsync_v2(host, memory, 100, a));
    GOOD(cuMemcpyHtoDAsync_v2(memory, host, 100, a));
    BREAKS_NONE("not work that does so before", {
        fake_cuda_open(a);
        GOOD(cuStreamSynchronize(a));
    });
    fake_cuda_watch(0);
    GOOD(cuMemFree_v2(memory));
    GOOD(cuMemFreeHost(host));
    GOOD(cuEventDestroy_v2(event));
    end_stream(a);
    end_stream(b);
}

static CUdeviceptr input, output, stranger;
static int         saw_stranger;

static void add_one(void *user)
{
    const unsigned char *in  = fake_cuda_content(input, 10);
    unsigned char       *out = fake_cuda_content(output, 10);
    (void)user;
    for (int at = 0; at < 10; ++at) out[at] = (unsigned char)(in[at] + 1);
}

static void reach_out(void *user)
{
    (void)user;
    saw_stranger = fake_cuda_content(stranger, 1) != NULL;
}

static void kernels(void)
{
    unsigned char bytes[10];
    CUstream      stream = new_stream();
    input = new_memory(10), output = new_memory(10), stranger = new_memory(10);
    fake_cuda_range ranges[] = {{input, 10, 0}, {output, 10, 1}};
    GOOD(cuMemsetD8Async(input, 4, 10, stream));
    GOOD(fake_cuda_launch(stream, add_one, NULL, ranges, 2));
    GOOD(cuMemcpyDtoHAsync_v2(bytes, output, 10, stream));
    CHECK("a kernel reaches its ranges", bytes[0] == 5 && bytes[9] == 5);
    BREAKS("and nothing else", "memory", {
        GOOD(fake_cuda_launch(stream, reach_out, NULL, ranges, 2));
        GOOD(cuStreamSynchronize(stream));
    });
    EQUAL("which it is told", saw_stranger, 0);
    GOOD(fake_cuda_launch(stream, add_one, NULL, ranges, 2));
    BREAKS("memory of a kernel is in use", "freed_in_use", GOOD(cuMemFree_v2(input)));
    GOOD(cuStreamSynchronize(stream));
    GOOD(cuMemFree_v2(output));
    GOOD(cuMemFree_v2(stranger));
    end_stream(stream);
}

int main(void)
{
    retain(0);
    copies();
    bounds();
    in_use();
    races();
    kernels();
    BREAKS_NONE("nothing else was reported", (void)0);
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    return finish();
}
