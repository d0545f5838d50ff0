/* A fake of the CUDA driver, and what tests tell it.
 *
 * Each stream is worked off in order by a thread of its own. Device memory is address space that nobody can touch but
 * work on streams; its content lies elsewhere. No device is simulated: what is shown is order, ownership and errors.
 *
 * A broken rule (below) is written to stderr and the log: "fake_cuda: RULE: CALL: what". At the end of the process what
 * is left is reported too; a process that broke a rule ends with FAKE_CUDA_BROKEN, unless it was told otherwise.
 *
 * Settings are read from the environment when the library is loaded:
 *   FAKE_CUDA_MODE=report|abort|count    report: see above. abort: at once. count: for who asks fake_cuda_violations.
 *   FAKE_CUDA_FORGIVE=RULE,...           These are not looked at.
 *   FAKE_CUDA_LOG=PATH                   Appends the log to a file, a line for each entry.
 *   FAKE_CUDA_DEVICES=N|none             2. none: cuInit fails with 100; 0: it does not, and counts none.
 *   CUDA_VISIBLE_DEVICES=-1              As for any driver: none.
 *   FAKE_CUDA_VERSION=N                  12040.
 *   FAKE_CUDA_PRIORITIES=N               The greatest priority: -5; 0: there are none. The least is 0.
 *   FAKE_CUDA_MEMORY=BYTES               Of each device, and what can be page-locked: 4 GiB.
 *   FAKE_CUDA_DELAY=US | SEED:US         Before each enqueued operation: always, or a random time up to it.
 *   FAKE_CUDA_HOLD=STREAM:US,...         The nth stream that is made (from 1) is held for so long. 0: for ever.
 *   FAKE_CUDA_FAIL=CALL:N:CODE[:FLAGS],...  The nth call fails. FLAGS: letters of s (sticky), a (and all after it), d (done all
 *                                        the same).
 *   FAKE_CUDA_STRICT_CONTEXT=1           Calls on a stream or an event need a current context too.
 *   FAKE_CUDA_ONE_HOST=1                 See fake_cuda_one_host.
 *   FAKE_CUDA_WATCH=1                    See fake_cuda_watch.
 *   FAKE_CUDA_HISTORY=N                  65536: so many operations and log entries are kept.
 * All functions: on any thread, in any callback. They are no calls of the driver: none counts, none needs a context. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit code of a process that broke a rule. */
#define FAKE_CUDA_BROKEN 86

/* RULE, what it says. */
#define FAKE_CUDA_RULES(X) \
    X(handle, "a handle is of something that was made and not destroyed") \
    X(default_stream, "no work on the null, the legacy or the per-thread default stream") \
    X(no_context, "a context is current where the call needs one") \
    X(wrong_context, "memory is freed, and work enqueued, with its own context current") \
    X(record_across, "an event is recorded on a stream of its own context") \
    X(wait_across, "a stream waits for an event of its own context") \
    X(recorded_while_waited, "an event is not recorded again while a stream has yet to pass a wait for it") \
    X(recorded_before_passed, "an event is recorded again when its last record was seen to have passed") \
    X(host_function, "no call from a host function") \
    X(destroyed_unseen, "a stream is destroyed when its work was seen to be over") \
    X(freed_in_use, "memory is freed when the work on it was seen to be over") \
    X(memory, "what is copied or set lies within one piece of memory, and not in one that was freed") \
    X(overrun, "nothing is written behind page-locked memory") \
    X(race, "work on the same memory is ordered by streams, events and what the host saw") \
    X(unseen, "the host looks at memory when the work on it was seen to be over") \
    X(changed, "the host leaves alone what a copy has yet to read; only where watched for") \
    X(capture, "no call disturbs a capture") \
    X(not_restored, "a call leaves the caller's current context as it was") \
    X(left_behind, "all is destroyed at the end, and before its context")

/* --- Rules --- */

/* How often a rule was broken since it was last asked or taken; NULL: any. */
uint64_t fake_cuda_violations(const char *rule);
/* The same; they are forgotten, and do not count at the end. */
uint64_t fake_cuda_take_violations(const char *rule);
/* The last thing written about a broken rule; valid until the next. */
const char *fake_cuda_last_violation(void);
/* A rule is not looked at from now on; again. */
void fake_cuda_forgive(const char *rule, int is_forgiven);
/* "report", "abort" or "count". */
void fake_cuda_mode(const char *mode);
/* Reports what is left as the end of the process would; returns how many things those are. */
uint64_t fake_cuda_check_end(void);
/* The calling thread's current context must be this one. */
void fake_cuda_expect_current(CUcontext context);
/* How many contexts are on the calling thread's stack. */
int fake_cuda_context_depth(void);
/* The work on these bytes was seen to be over: by a query or a wait that succeeded, on any thread. */
void fake_cuda_expect_seen(const void *memory, size_t size);
/* From now on: page-locked memory that is to be copied must not change before it is. Not for what other work writes. */
void fake_cuda_watch(int is_on);
/* All threads of the host count as one: what one has seen, all have. Else an edge from thread to thread is not known. */
void fake_cuda_one_host(int is_on);
void fake_cuda_strict_context(int is_on);

/* --- The machine --- */

/* As the environment's. -1 device: cuInit fails with 100. */
void fake_cuda_devices(int count);
void fake_cuda_version(int version);
void fake_cuda_priorities(int greatest);
void fake_cuda_memory(size_t bytes);

/* --- Time --- */

/* Microseconds before each enqueued operation; with a seed that is not 0: random, up to so many. */
void fake_cuda_delay(uint64_t microseconds, uint64_t seed);
/* Nothing more on the stream begins. */
void fake_cuda_hold(CUstream stream);
/* So many operations of a held stream may begin. */
void fake_cuda_step(CUstream stream, uint64_t count);
void fake_cuda_open(CUstream stream);
/* Every stream, and those that will be made. */
void fake_cuda_hold_all(void);
void fake_cuda_open_all(void);
/* Waits until an operation has begun, or is over; 0: not within a minute, or it is not known any more. */
int fake_cuda_await_begin(uint64_t op);
int fake_cuda_await_end(uint64_t op);

/* --- Failures --- */

enum {
    FAKE_CUDA_STICKY = 1, /* Every later call on the context fails too. Always so for codes that are so on a device. */
    FAKE_CUDA_ALWAYS = 2, /* Each call from the nth on. */
    FAKE_CUDA_DONE   = 4  /* What was called for is done all the same. */
};

/* The nth call from now on (1: the next) of the function of this name fails. 0: there is no such function. */
int fake_cuda_fail(const char *call, uint64_t nth, CUresult code, unsigned flags);
/* Takes back all of these that have not come about. */
void fake_cuda_fail_no_more(void);
/* Enqueues an operation that ends its context with this code when it runs. */
CUresult fake_cuda_fault(CUstream stream, CUresult code);
/* The stream's context fails now. */
void fake_cuda_lose(CUcontext context, CUresult code);

/* --- Work --- */

/* Memory that an operation reads, or writes. */
typedef struct fake_cuda_range {
    CUdeviceptr memory; /* On the device, or page-locked. */
    size_t      size;
    int         is_written;
} fake_cuda_range;

/* Enqueues a kernel: runs on the stream's thread, and reaches the device memory among its ranges (8 at most). */
CUresult fake_cuda_launch(CUstream stream, CUhostFn kernel, void *user, const fake_cuda_range *ranges, int count);
/* In a kernel: where the content of device memory lies. NULL: it is in none of the kernel's ranges. */
void *fake_cuda_content(CUdeviceptr memory, size_t size);
/* Beside the driver, at any time: what is there. 0: it is no such memory. */
int fake_cuda_peek(void *target, CUdeviceptr memory, size_t size);

/* --- What happened --- */

/* How often a function was called, refusals included; NULL: all together. */
uint64_t fake_cuda_calls(const char *call);
void     fake_cuda_forget_calls(void);
/* Copies from and to memory that is not page-locked. */
uint64_t fake_cuda_pageable_copies(void);
/* Operations that were captured. */
uint64_t fake_cuda_graph_nodes(CUgraph graph);
/* A number that the calling thread's operations are marked with from now on. */
void fake_cuda_tag(uint64_t tag);
/* The last operation that the calling thread enqueued; in a host function or a kernel: itself. From 1. */
uint64_t fake_cuda_op(void);
/* Operation a is over before b begins, however long either takes: by streams, events, and what the thread that enqueued
 * b had seen. -1: one of them is not known any more. */
int fake_cuda_happens_before(uint64_t a, uint64_t b);
/* The calling thread knows by other means (a host function told it) that the operation is over. */
void fake_cuda_saw(uint64_t op);

typedef struct fake_cuda_stream {
    uint64_t number; /* In the order in which they were made, from 1. */
    int      device;
    unsigned flags;
    int      priority;
    int      is_alive;
    uint64_t enqueued, ended; /* Operations. */
} fake_cuda_stream;

typedef struct fake_cuda_event {
    uint64_t number;
    int      device;
    unsigned flags;
    int      is_alive;
    uint64_t generation; /* Records so far. */
    uint64_t waits;      /* Enqueued, and not passed. */
    int      is_pending; /* The last record has not passed. */
} fake_cuda_event;

/* 0: there never was one. */
int      fake_cuda_stream_info(CUstream stream, fake_cuda_stream *info);
int      fake_cuda_event_info(CUevent event, fake_cuda_event *info);
CUstream fake_cuda_stream_numbered(uint64_t number);
/* Alive now. */
typedef struct fake_cuda_census {
    uint64_t streams, events, contexts, device_blocks, pinned_blocks, registered_blocks;
    uint64_t device_bytes, pinned_bytes;
    uint64_t retained; /* Of primary contexts. */
} fake_cuda_census;
void fake_cuda_count(fake_cuda_census *census);

/* Kinds of log entries. begin, end: of an operation on its stream; seen: by the host. */
#define FAKE_CUDA_KINDS(X) \
    X(CREATE, create) \
    X(DESTROY, destroy) \
    X(RECORD, record) \
    X(WAIT, wait) \
    X(ENQUEUE, enqueue) \
    X(BEGIN, begin) \
    X(END, end) \
    X(SEEN, seen) \
    X(ALLOC, alloc) \
    X(FREE, free)

#define FAKE_CUDA_KIND_(NAME, name) FAKE_CUDA_##NAME,
typedef enum fake_cuda_kind { FAKE_CUDA_KINDS(FAKE_CUDA_KIND_) } fake_cuda_kind;
#undef FAKE_CUDA_KIND_

/* Zero where there is none. */
typedef struct fake_cuda_entry {
    uint64_t       number; /* From 1, without a gap. */
    fake_cuda_kind kind;
    const char    *call; /* What was called, or enqueued the operation. */
    uint64_t       op;
    uint64_t       stream, event; /* Their numbers. */
    uint64_t       generation;    /* Of the event: the record that is made, waited for or seen. 0: there was none yet. */
    uint64_t       after;         /* wait, seen: the operation of that record. */
    uint64_t       thread, tag;
    uint64_t       memory, size;
} fake_cuda_entry;

/* Entries so far; the last FAKE_CUDA_HISTORY are kept. */
uint64_t fake_cuda_log_count(void);
/* 0: it is not kept, or not there yet. */
int fake_cuda_log_at(uint64_t number, fake_cuda_entry *entry);

#ifdef __cplusplus
}
#endif

#endif
