/* What the files of the fake driver share. All of it is under `world.lock`, but where it says otherwise. */
#ifndef STATE_H
#define STATE_H

#include "fake_cuda.h"
#include <pthread.h>
#include <stdbool.h>

/* A symbol of the driver; with -DFAKE_CUDA_LACKS_name the library lacks it. */
#define EXPORT(name) __attribute__((visibility(VISIBLE(IS_ONE(FAKE_CUDA_LACKS_##name)))))
#define CONTROL      __attribute__((visibility("default")))

#define ONE_1                         0,
#define SECOND(first, second, ...)    second
#define IS_ONE(value)                 IS_ONE_(value)
#define IS_ONE_(value)                IS_ONE__(ONE_##value)
#define IS_ONE__(zero_or_junk)        SECOND(zero_or_junk 1, 0, 0)
#define VISIBLE(is_lacking)           VISIBLE_(is_lacking)
#define VISIBLE_(is_lacking)          VISIBLE_##is_lacking
#define VISIBLE_0                     "default"
#define VISIBLE_1                     "hidden"

/* Every function of the driver that is there. */
#define CALLS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet) \
    X(cuDeviceGetName) X(cuDeviceGetUuid_v2) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) \
    X(cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxPushCurrent_v2) \
    X(cuCtxPopCurrent_v2) X(cuCtxGetDevice) X(cuCtxGetStreamPriorityRange) X(cuStreamCreateWithPriority) \
    X(cuStreamDestroy_v2) X(cuStreamWaitEvent) X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamGetCtx) \
    X(cuStreamIsCapturing) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) X(cuThreadExchangeStreamCaptureMode) \
    X(cuGraphDestroy) X(cuLaunchHostFunc) X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventQuery) \
    X(cuEventSynchronize) X(cuEventElapsedTime) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemHostAlloc) X(cuMemFreeHost) \
    X(cuMemHostRegister_v2) X(cuMemHostUnregister) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) \
    X(cuMemcpyDtoDAsync_v2) X(cuMemcpyAsync) X(cuMemsetD8Async) X(cuMemsetD32Async) \
    X(fake_cuda_launch) X(fake_cuda_fault) X(fake_cuda)

#define CALL_(name) CALL_##name,
enum call { CALLS(CALL_) CALL_COUNT };
#define RULE_(name, text) RULE_##name,
enum rule { FAKE_CUDA_RULES(RULE_) RULE_COUNT };

enum { MOST_STREAMS = 128, MOST_USES = 8, MOST_DEVICES = 16 };

/* How far each stream was, by slot: operations up to that number. */
struct clock {
    uint64_t *at;
    unsigned  width;
};

struct CUctx_st {
    uint64_t number;
    bool     is_alive, is_primary;
    int      device;
    CUresult error; /* Sticky. */
};

/* An event's record: passed when its stream has ended `sequence`. */
struct record {
    CUstream stream; /* NULL: never recorded. */
    uint64_t sequence, op, generation;
};

struct CUevent_st {
    uint64_t      number;
    bool          is_alive;
    unsigned      flags;
    CUcontext     context;
    struct record last;
    struct clock  clock; /* Of the last record. */
    uint64_t      waits;
    CUstream      capturing; /* Last recorded in a capture, of this stream. */
};

/* A piece of memory that work uses. */
struct use {
    struct block *block;
    size_t        offset, size;
    bool          is_written;
};

enum work { WORK_WAIT, WORK_RECORD, WORK_COPY, WORK_SET8, WORK_SET32, WORK_HOST, WORK_KERNEL, WORK_FAULT };

struct op {
    struct op    *next;
    enum work     work;
    enum call     call;
    uint64_t      number, sequence, tag;
    CUevent       event;  /* wait, record */
    struct record target; /* wait */
    uint64_t      generation;
    void         *to;
    const void   *from;
    void         *staged; /* A copy of pageable memory. */
    size_t        size;
    unsigned      value; /* set; fault: the code */
    CUhostFn      function;
    void         *user;
    int           use_count;
    struct use    uses[MOST_USES];
    bool          is_watched; /* The source must still sum up to this. */
    uint64_t      sum;
};

struct CUstream_st {
    uint64_t       number;
    bool           is_alive;
    unsigned       slot, flags;
    int            priority;
    CUcontext      context;
    pthread_t      thread;
    pthread_cond_t work, done; /* for its thread; for who waits for it */
    struct op     *first, **last;
    uint64_t       base, enqueued, ended; /* sequences; the first is base + 1 */
    uint64_t       last_work;             /* sequence of the last that is no wait and no record */
    bool           is_held;
    uint64_t       permits;    /* while held */
    uint64_t       held_until; /* 0: by nobody's clock; CLOCK_MONOTONIC, ns */
    uint64_t       random;
    struct clock   clock;
    struct {
        CUstreamCaptureStatus status;
        CUstreamCaptureMode   mode;
        uint64_t              thread, nodes;
        CUstream              origin;
    } capture;
};

enum memory_kind { MEMORY_DEVICE, MEMORY_PINNED, MEMORY_REGISTERED };

/* Work on a block; what newer work on the same bytes comes after is left out. */
struct access {
    unsigned slot;
    bool     is_written;
    uint64_t sequence, op;
    size_t   begin, end;
};

struct block {
    uint64_t         address;
    size_t           size, pages; /* pages: bytes of the mapping */
    enum memory_kind kind;
    bool             is_alive;
    CUcontext        context;
    unsigned char   *content; /* device: elsewhere; else the memory itself */
    unsigned         pending; /* operations that refer to it */
    struct access   *accesses;
    unsigned         access_count, access_room;
};

enum { DEEPEST_STACK = 64 };

/* A thread that has called. */
struct thread {
    struct thread   *next;
    uint64_t         number; /* of the host's threads, from 1; 0: a stream's */
    CUcontext        stack[DEEPEST_STACK];
    int              depth;
    uint64_t         tag, last_op;
    struct clock     clock;   /* what it has seen */
    struct clock     scratch; /* what it will have, when its wait is over */
    const struct op *running; /* host function or kernel; of its own thread alone */
    CUstream         stream;  /* whose thread this is */
    CUstreamCaptureMode mode;
    enum call        call;
    CUresult         planned;   /* what this call is to fail with */
    unsigned         planned_flags;
};

struct settings {
    int      mode; /* 0 report, 1 abort, 2 count */
    int      devices;
    int      version, greatest_priority;
    size_t   memory;
    uint64_t delay, seed;
    bool     is_strict, is_one_host, is_watching, is_holding;
    uint64_t history;
};

/* A set of things of one size that are never freed: whether a handle was ever one can be told. */
struct arena {
    char **chunks;
    size_t chunk_count, used, size;
};

struct world {
    pthread_mutex_t lock;
    bool            is_initialised;
    struct settings settings;
    struct arena    streams, events, contexts;
    uint64_t        op_count;
    uint64_t        slots[MOST_STREAMS]; /* the last sequence of each */
    CUstream        slot_owner[MOST_STREAMS];
    struct clock    seen; /* by any thread */
    uint64_t        captures; /* streams that are in one */
    struct {
        CUcontext context;
        uint64_t  retained;
    } primary[MOST_DEVICES];
    uint64_t pageable_copies;
};

extern struct world world;

/* --- fake_cuda.c: calls and rules --- */

/* Begins a call: takes the lock. Each is ended by fake_leave. */
struct thread *fake_enter(enum call call);
/* Whether it may go on, on this context (NULL: none needed). */
CUresult fake_admit(CUcontext context);
CUresult fake_leave(CUresult result);
/* The calling thread's own record. Takes no lock where it is there already. */
struct thread *fake_self(void);
void           fake_break(enum rule rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool           fake_has_broken(void);
const char    *fake_call_name(enum call call);
int            fake_call_named(const char *name);
void          *fake_new(struct arena *arena);
bool           fake_is_one(const struct arena *arena, const void *handle);
void          *fake_at(const struct arena *arena, size_t index);
/* malloc, which does not fail. */
void *fake_room(void *old, size_t size);
/* A control function: takes the lock, and counts as no call. */
struct thread *fake_control(void);
void           fake_control_end(void);

/* --- faults.c: settings and failures --- */

void     fake_read_environment(void);
void     fake_plan(struct thread *self);
bool     fake_is_sticky(CUresult code);
uint64_t fake_hold_of(uint64_t stream_number, bool *is_held);
void     fake_set_mode(const char *mode);

/* --- contexts.c --- */

/* The current one. `needed`: 201 and a broken rule if there is none. */
CUresult fake_current(CUcontext *context);
CUresult fake_check_context(CUcontext context);
/* It is lost: nothing of it runs any more, whoever waits is woken. */
void fake_lose(CUcontext context, CUresult code);
/* What the call on a thing of `owner` needs to have current. `must`: also where it is not strict. */
CUresult fake_need(CUcontext owner, bool must);

/* --- streams.c --- */

CUresult fake_check_stream(CUstream stream);
/* What enqueues on it goes on. */
CUresult fake_admit_work(CUstream stream, bool must_be_current);

/* --- captures.c --- */

/* It is in a capture: what would be enqueued is counted, and not run. */
bool fake_captures(CUstream stream);
/* The call is none that captures forbid. */
CUresult fake_unsafe(void);
void     fake_invalidate(CUstream origin, const char *why);

/* --- work.c --- */

struct op *fake_op(enum work work);
/* Appends it; `at`: what a wait is for. Its clock is the stream's. */
void fake_enqueue(CUstream stream, struct op *op);
void fake_op_free(struct op *op);
bool fake_reached(const struct record *record);
/* Waits for it. What its context was lost by. */
CUresult fake_wait(const struct record *record);
void    *fake_work_thread(void *stream);
void     fake_wake(CUstream stream);
uint64_t fake_now(void);

/* --- events.c --- */

CUresult fake_check_event(CUevent event);

/* --- memory.c --- */

/* Where memory must lie. HOST and ANY: it may be unknown, then it is the host's and counts as no use. KNOWN: neither. */
enum side { SIDE_DEVICE, SIDE_HOST, SIDE_ANY, SIDE_KNOWN };

/* The operation touches these bytes. */
CUresult fake_use(struct op *op, uint64_t address, size_t size, bool is_written, enum side side);
/* Order of all uses of an operation that has just got its place on `stream`. */
void           fake_note_uses(CUstream stream, struct op *op);
void           fake_end_uses(struct op *op);
bool           fake_is_still(const struct use *use);
unsigned char *fake_use_bytes(const struct use *use);
uint64_t       fake_sum(const void *bytes, size_t size);
uint64_t       fake_memory_left(CUcontext context); /* NULL: any; reports each */
void           fake_census_memory(fake_cuda_census *census);

/* --- edges.c: clocks, history, log --- */

uint64_t fake_clock_get(const struct clock *clock, unsigned slot);
void     fake_clock_set(struct clock *clock, unsigned slot, uint64_t sequence);
void     fake_clock_join(struct clock *clock, const struct clock *other);
void     fake_clock_copy(struct clock *clock, const struct clock *other);
void     fake_clock_free(struct clock *clock);
/* The calling thread has seen all that is in the clock. */
void          fake_see(const struct clock *clock);
struct clock *fake_host_clock(struct thread *self);
void          fake_remember(CUstream stream, const struct op *op);
void          fake_note_begin(CUstream stream, const struct op *op);
void          fake_note_end(CUstream stream, const struct op *op);
void          fake_note_dropped(const struct op *op); /* its context was lost */
void          fake_log(const fake_cuda_entry *entry);
void          fake_log_text(const char *text);
void          fake_log_open(const char *path);

#endif
