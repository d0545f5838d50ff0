/* Operations, and the threads that work them off, stream by stream. */
#include "state.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct op *spare_ops;

struct op *fake_op(enum work work)
{
    struct op *op = spare_ops;
    if (op != NULL) spare_ops = op->next;
    else op = fake_room(NULL, sizeof *op);
    memset(op, 0, sizeof *op);
    op->work = work;
    return op;
}

void fake_op_free(struct op *op)
{
    free(op->staged);
    op->next  = spare_ops;
    spare_ops = op;
}

uint64_t fake_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

void fake_wake(CUstream stream)
{
    pthread_cond_broadcast(&stream->work);
    pthread_cond_broadcast(&stream->done);
}

static fake_cuda_kind kind_of(enum work work)
{
    if (work == WORK_WAIT) return FAKE_CUDA_WAIT;
    return work == WORK_RECORD ? FAKE_CUDA_RECORD : FAKE_CUDA_ENQUEUE;
}

static void log_enqueue(CUstream stream, const struct op *op)
{
    fake_cuda_entry entry = {.kind = kind_of(op->work), .op = op->number, .stream = stream->number,
                             .generation = op->generation, .after = op->target.op, .size = op->size};
    if (op->event != NULL) entry.event = op->event->number;
    if (op->use_count > 0) entry.memory = op->uses[0].block->address + op->uses[0].offset;
    fake_log(&entry);
}

void fake_enqueue(CUstream stream, struct op *op)
{
    struct thread *self = fake_self();
    fake_clock_join(&stream->clock, fake_host_clock(self));
    op->number   = ++world.op_count;
    op->sequence = ++stream->enqueued;
    op->call     = self->call;
    op->tag      = self->tag;
    self->last_op             = op->number;
    world.slots[stream->slot] = op->sequence;
    fake_clock_set(&stream->clock, stream->slot, op->sequence);
    if (op->work != WORK_WAIT && op->work != WORK_RECORD) stream->last_work = op->sequence;
    fake_remember(stream, op);
    fake_note_uses(stream, op);
    log_enqueue(stream, op);
    *stream->last = op;
    stream->last  = &op->next;
    pthread_cond_signal(&stream->work);
}

bool fake_reached(const struct record *record)
{
    return record->stream == NULL || record->stream->ended >= record->sequence;
}

CUresult fake_wait(const struct record *record)
{
    if (record->stream == NULL) return CUDA_SUCCESS;
    while (!fake_reached(record) && record->stream->context->error == CUDA_SUCCESS)
        pthread_cond_wait(&record->stream->done, &world.lock);
    return record->stream->context->error;
}

/* --- A stream's thread --- */

static bool is_lost(CUstream stream) { return stream->context->error != CUDA_SUCCESS; }

/* Whether the first operation may begin; else waits for a change. */
static bool may_begin(CUstream stream)
{
    if (!stream->is_held || is_lost(stream)) return true;
    if (stream->held_until != 0 && fake_now() >= stream->held_until) {
        stream->is_held = false;
        return true;
    }
    if (stream->permits > 0) {
        --stream->permits;
        return true;
    }
    struct timespec until = time_of(stream->held_until);
    if (stream->held_until == 0) pthread_cond_wait(&stream->work, &world.lock);
    else pthread_cond_timedwait(&stream->work, &world.lock, &until);
    return false;
}

/* NULL: the stream is destroyed. */
static struct op *next(CUstream stream)
{
    for (;;) {
        if (stream->first == NULL) {
            if (!stream->is_alive) return NULL;
            pthread_cond_wait(&stream->work, &world.lock);
        } else if (may_begin(stream)) {
            struct op *op = stream->first;
            stream->first = op->next;
            if (stream->first == NULL) stream->last = &stream->first;
            return op;
        }
    }
}

static uint64_t delay_of(CUstream stream)
{
    if (world.settings.seed == 0) return world.settings.delay;
    /* splitmix64: each stream's delays are the same in each run. */
    uint64_t mixed = stream->random += 0x9e3779b97f4a7c15u;
    mixed          = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed          = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (mixed ^ (mixed >> 31)) % (world.settings.delay + 1);
}

static void delay(CUstream stream)
{
    if (world.settings.delay == 0) return;
    struct timespec time = time_of(delay_of(stream) * 1000);
    pthread_mutex_unlock(&world.lock);
    nanosleep(&time, NULL);
    pthread_mutex_lock(&world.lock);
}

static void await_target(CUstream stream, const struct op *op)
{
    CUstream other = op->target.stream;
    if (other == NULL) return;
    /* Its own context may be lost meanwhile: then the other's thread says so too. */
    while (!fake_reached(&op->target) && !is_lost(other) && !is_lost(stream))
        pthread_cond_wait(&other->done, &world.lock);
}

static void set32(void *to, unsigned value, size_t size)
{
    unsigned char *bytes = to;
    for (size_t at = 0; at + sizeof value <= size; at += sizeof value) memcpy(bytes + at, &value, sizeof value);
}

/* Without the lock: nothing here is freed before the operation is over. */
static void execute(const struct op *op)
{
    switch (op->work) {
    case WORK_COPY: memmove(op->to, op->from, op->size); break;
    case WORK_SET8: memset(op->to, (int)op->value, op->size); break;
    case WORK_SET32: set32(op->to, op->value, op->size); break;
    case WORK_HOST:
    case WORK_KERNEL: op->function(op->user); break;
    case WORK_WAIT:
    case WORK_RECORD:
    case WORK_FAULT: break;
    }
}

static void perform(struct thread *self, CUstream stream, struct op *op)
{
    fake_note_begin(stream, op);
    if (op->work == WORK_FAULT) {
        fake_lose(stream->context, (CUresult)op->value);
        return;
    }
    if (op->work == WORK_WAIT || op->work == WORK_RECORD) return;
    if (op->is_watched && op->sum != fake_sum(op->from, op->size))
        fake_break(RULE_changed, "%zu bytes at %p, before operation %llu had read them", op->size, op->from,
                   (unsigned long long)op->number);
    if (op->work == WORK_HOST || op->work == WORK_KERNEL) self->running = op;
    pthread_mutex_unlock(&world.lock);
    execute(op);
    pthread_mutex_lock(&world.lock);
    self->running = NULL;
}

void *fake_work_thread(void *argument)
{
    CUstream stream = argument;
    pthread_mutex_lock(&world.lock);
    struct thread *self = fake_self();
    self->stream        = stream;
    for (struct op *op; (op = next(stream)) != NULL;) {
        self->call = op->call;
        if (!is_lost(stream)) delay(stream);
        if (op->work == WORK_WAIT) await_target(stream, op);
        bool is_dropped = is_lost(stream);
        if (!is_dropped) perform(self, stream, op);
        fake_end_uses(op);
        if (op->work == WORK_WAIT) --op->event->waits;
        if (is_dropped) fake_note_dropped(op);
        else fake_note_end(stream, op);
        stream->ended = op->sequence;
        pthread_cond_broadcast(&stream->done);
        fake_op_free(op);
    }
    pthread_mutex_unlock(&world.lock);
    return NULL;
}
