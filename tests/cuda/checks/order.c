/* Streams keep their order, events order them among each other, and both can be shown whatever time the work takes. */
#include "kit.h"
#include <sched.h>

static void one_stream(void)
{
    static struct trail trail;
    static struct mark  marks[50];
    CUstream            stream = new_stream();
    int                 wrong  = 0;
    fake_cuda_delay(200, 7);
    for (int at = 0; at < 50; ++at) {
        marks[at] = (struct mark){&trail, at};
        GOOD(cuLaunchHostFunc(stream, leave_mark, &marks[at]));
    }
    GOOD(cuStreamSynchronize(stream));
    for (int at = 0; at < 50; ++at) wrong += trail.marks[at] != at;
    EQUAL("a synchronised stream has done all its work", trail.count, 50);
    EQUAL("in its order, with random delays too", wrong, 0);
    fake_cuda_delay(0, 0);
    end_stream(stream);
}

static void gates(void)
{
    static struct trail trail;
    static struct mark  first = {&trail, 1}, second = {&trail, 2};
    CUstream            stream = new_stream();
    fake_cuda_stream    info;

    fake_cuda_hold(stream);
    GOOD(cuLaunchHostFunc(stream, leave_mark, &first));
    uint64_t first_op = fake_cuda_op();
    GOOD(cuLaunchHostFunc(stream, leave_mark, &second));
    uint64_t second_op = fake_cuda_op();
    EQUAL("a held stream is not ready", cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    fake_cuda_step(stream, 1);
    CHECK("one operation is let through", fake_cuda_await_end(first_op));
    fake_cuda_stream_info(stream, &info);
    CHECK("and no more", info.ended == 1 && info.enqueued == 2 && trail.count == 1);
    fake_cuda_open(stream);
    CHECK("opened, all of them", fake_cuda_await_end(second_op));
    EQUAL("in order", trail.marks[1], 2);
    EQUAL("then it is ready", cuStreamQuery(stream), CUDA_SUCCESS);
    fake_cuda_hold_all();
    CUstream other = new_stream();
    work(other);
    EQUAL("a stream that is made while all are held is held", cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    fake_cuda_open_all();
    end_stream(other);
    end_stream(stream);
}

/* The wait means the record that there was, however often the event is recorded after it. */
static void generations(void)
{
    CUstream        a = new_stream(), b = new_stream();
    CUevent         event = new_event();
    fake_cuda_event info;

    EQUAL("an event that was never recorded has passed", cuEventQuery(event), CUDA_SUCCESS);
    EQUAL("is waited for at once", cuEventSynchronize(event), CUDA_SUCCESS);
    fake_cuda_hold(a);
    GOOD(cuStreamWaitEvent(b, event, 0));
    EQUAL("and holds up no stream", cuStreamSynchronize(b), CUDA_SUCCESS);

    uint64_t in_a = work(a);
    GOOD(cuEventRecord(event, a));
    GOOD(cuStreamWaitEvent(b, event, 0));
    uint64_t in_b = work(b);
    EQUAL("a recorded event has not passed", cuEventQuery(event), CUDA_ERROR_NOT_READY);
    EQUAL("who waits for it neither", cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    fake_cuda_event_info(event, &info);
    CHECK("its generation and its waits are told", info.generation == 1 && info.waits == 1 && info.is_pending);
    EQUAL("the work behind it comes after the work before it", fake_cuda_happens_before(in_a, in_b), 1);
    EQUAL("not the other way round", fake_cuda_happens_before(in_b, in_a), 0);
    fake_cuda_step(a, 2);
    EQUAL("it passes", cuEventSynchronize(event), CUDA_SUCCESS);
    EQUAL("and so does who waited", cuStreamSynchronize(b), CUDA_SUCCESS);

    GOOD(cuEventRecord(event, a)); /* a second generation, held */
    EQUAL("recorded again it has not passed", cuEventQuery(event), CUDA_ERROR_NOT_READY);
    fake_cuda_hold(b);
    work(b);
    fake_cuda_open(a);
    GOOD(cuEventSynchronize(event));
    GOOD(cuStreamWaitEvent(b, event, 0)); /* of the second */
    fake_cuda_hold(a);
    uint64_t third = work(a);
    BREAKS("a record while a wait is pending", "recorded_while_waited", GOOD(cuEventRecord(event, a)));
    uint64_t behind = work(b);
    fake_cuda_open(b);
    EQUAL("a wait means the record of its time, not a later one", cuStreamSynchronize(b), CUDA_SUCCESS);
    EQUAL("so it orders nothing behind the later one", fake_cuda_happens_before(third, behind), 0);
    fake_cuda_open(a);
    GOOD(cuEventSynchronize(event));
    GOOD(cuEventDestroy_v2(event));
    end_stream(a);
    end_stream(b);
}

/* Two streams in turns, each waiting for the other's last work. */
static void turns(void)
{
    enum { TURNS = 100 };
    static struct trail trail;
    static struct mark  marks[TURNS];
    CUstream            streams[] = {new_stream(), new_stream()};
    CUevent             events[TURNS];
    int                 wrong = 0;
    fake_cuda_delay(200, 11);
    for (int at = 0; at < TURNS; ++at) {
        marks[at]  = (struct mark){&trail, at};
        events[at] = new_event();
        if (at > 0) GOOD(cuStreamWaitEvent(streams[at % 2], events[at - 1], 0));
        GOOD(cuLaunchHostFunc(streams[at % 2], leave_mark, &marks[at]));
        GOOD(cuEventRecord(events[at], streams[at % 2]));
    }
    GOOD(cuStreamSynchronize(streams[(TURNS - 1) % 2]));
    for (int at = 0; at < TURNS; ++at) {
        wrong += trail.marks[at] != at;
        GOOD(cuEventDestroy_v2(events[at]));
    }
    fake_cuda_delay(0, 0);
    EQUAL("events keep two streams in turns, with random delays", wrong, 0);
    end_stream(streams[0]);
    end_stream(streams[1]);
}

static void *see_event(void *event)
{
    GOOD(cuEventSynchronize(event));
    return NULL;
}

static void *see_and_work(void *streams)
{
    CUstream *of = streams;
    CUcontext context;
    GOOD(cuStreamGetCtx(of[0], &context));
    GOOD(cuCtxPushCurrent_v2(context));
    GOOD(cuStreamSynchronize(of[0]));
    work(of[1]);
    GOOD(cuCtxPopCurrent_v2(NULL));
    return NULL;
}

/* What is known, and from whom. */
static void edges(void)
{
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUevent  event = new_event(), other = new_event();
    uint64_t first = work(a);
    uint64_t beside = work(b);
    EQUAL("streams alone order nothing", fake_cuda_happens_before(first, beside), 0);
    EQUAL("an operation is not before itself", fake_cuda_happens_before(first, first), 0);
    EQUAL("a stream orders its own", fake_cuda_happens_before(first, work(a)), 1);
    GOOD(cuEventRecord(event, a));
    uint64_t too_late = work(a);
    GOOD(cuStreamWaitEvent(b, event, 0));
    GOOD(cuEventRecord(other, b));
    GOOD(cuStreamWaitEvent(c, other, 0));
    uint64_t last = work(c);
    EQUAL("events order over several streams", fake_cuda_happens_before(first, last), 1);
    EQUAL("not what came behind the record", fake_cuda_happens_before(too_late, last), 0);
    EQUAL("what is unknown is said to be so", fake_cuda_happens_before(first, 1u << 30), -1);
    for (int at = 0; at < 3; ++at) GOOD(cuStreamSynchronize(at == 0 ? a : at == 1 ? b : c));
    EQUAL("what a thread has waited for is before what it enqueues", fake_cuda_happens_before(too_late, work(b)), 1);

    uint64_t unseen = work(a);
    GOOD(cuEventRecord(event, a));
    on_a_thread(see_event, event);
    EQUAL("what another thread has waited for is not", fake_cuda_happens_before(unseen, work(b)), 0);
    fake_cuda_one_host(1);
    EQUAL("but where all count as one", fake_cuda_happens_before(unseen, work(c)), 1);
    fake_cuda_one_host(0);

    uint64_t  before    = work(a);
    CUstream  streams[] = {a, c};
    uint64_t  count     = fake_cuda_log_count();
    on_a_thread(see_and_work, streams);
    fake_cuda_entry entry = {0};
    while (fake_cuda_log_at(++count, &entry))
        if (entry.kind == FAKE_CUDA_ENQUEUE) break;
    EQUAL("that thread's own work comes after it", fake_cuda_happens_before(before, entry.op), 1);
    uint64_t polled = work(a);
    GOOD(cuEventRecord(event, a));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) (void)sched_yield();
    EQUAL("an event that is seen to have passed is as one that was waited for", fake_cuda_happens_before(polled, work(b)), 1);
    polled = work(a);
    while (cuStreamQuery(a) == CUDA_ERROR_NOT_READY) (void)sched_yield();
    EQUAL("so is a stream", fake_cuda_happens_before(polled, work(b)), 1);
    uint64_t told = work(a);
    CHECK("an operation's end can be awaited", fake_cuda_await_end(told));
    EQUAL("which is not to have seen it", fake_cuda_happens_before(told, work(c)), 0);
    fake_cuda_saw(told);
    EQUAL("unless the thread says so", fake_cuda_happens_before(told, work(c)), 1);
    end_stream(a);
    end_stream(b);
    end_stream(c);
    GOOD(cuEventDestroy_v2(event));
    GOOD(cuEventDestroy_v2(other));
}

static int count_kind(uint64_t from, fake_cuda_kind kind, uint64_t op)
{
    fake_cuda_entry entry;
    int             count = 0;
    for (uint64_t at = from; fake_cuda_log_at(at, &entry); ++at) count += entry.kind == kind && (op == 0 || entry.op == op);
    return count;
}

static void log_entries(void)
{
    CUstream        a = new_stream(), b = new_stream();
    CUevent         event = new_event();
    fake_cuda_entry entry = {0};
    uint64_t        from  = fake_cuda_log_count() + 1;

    fake_cuda_tag(77);
    uint64_t op = work(a);
    fake_cuda_tag(0);
    GOOD(cuEventRecord(event, a));
    uint64_t record = fake_cuda_op();
    GOOD(cuStreamWaitEvent(b, event, 0));
    uint64_t wait = fake_cuda_op();
    GOOD(cuStreamSynchronize(b));
    for (uint64_t at = from; fake_cuda_log_at(at, &entry); ++at)
        if (entry.op == op && entry.kind == FAKE_CUDA_ENQUEUE) break;
    CHECK("an entry has its call and its mark", entry.tag == 77 && strcmp(entry.call, "cuLaunchHostFunc") == 0);
    EQUAL("work begins once", count_kind(from, FAKE_CUDA_BEGIN, op), 1);
    EQUAL("and ends once", count_kind(from, FAKE_CUDA_END, op), 1);
    for (uint64_t at = from; fake_cuda_log_at(at, &entry); ++at)
        if (entry.op == wait && entry.kind == FAKE_CUDA_WAIT) break;
    CHECK("a wait names the record", entry.after == record && entry.generation == 1);
    EQUAL("what the host has seen is there", count_kind(from, FAKE_CUDA_SEEN, 0), 1);
    EQUAL("entries that are not there yet are not told", fake_cuda_log_at(fake_cuda_log_count() + 1, &entry), 0);
    GOOD(cuStreamSynchronize(a));
    fake_cuda_forget_calls();
    (void)cuEventQuery(event);
    (void)cuEventQuery(event);
    (void)cuStreamQuery(a);
    CHECK("calls are counted", fake_cuda_calls("cuEventQuery") == 2 && fake_cuda_calls(NULL) == 3);
    end_stream(a);
    end_stream(b);
    GOOD(cuEventDestroy_v2(event));
}

static struct trail  running;
static atomic_ullong in_function;

static void ask_which(void *user)
{
    (void)user;
    atomic_store(&in_function, fake_cuda_op());
}

static void two_at_once(void)
{
    static struct mark first = {&running, 1};
    CUstream           a = new_stream(), b = new_stream();
    fake_cuda_hold(a);
    GOOD(cuLaunchHostFunc(a, leave_mark, &first));
    GOOD(cuLaunchHostFunc(b, ask_which, NULL));
    uint64_t op = fake_cuda_op();
    EQUAL("one stream goes on while another is held", cuStreamSynchronize(b), CUDA_SUCCESS);
    CHECK("a host function can tell which operation it is", atomic_load(&in_function) == op);
    EQUAL("the other is", running.count, 0);
    fake_cuda_open(a);
    end_stream(a);
    end_stream(b);
}

int main(void)
{
    retain(0);
    one_stream();
    gates();
    generations();
    turns();
    edges();
    log_entries();
    two_at_once();
    BREAKS_NONE("nothing else was reported", (void)0);
    GOOD(cuDevicePrimaryCtxRelease_v2(0));
    return finish();
}
