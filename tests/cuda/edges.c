/* What happened, and what is therefore known to have happened before it.
 *
 * A clock holds for each stream up to which of its operations all is over. A stream's clock says what is over when its
 * newest operation begins (and, for its own slot, that operation); an event's, what was so when it was recorded; a
 * thread's, what it has seen. An operation comes after whatever is in the clocks of its stream and of the thread that
 * enqueues it: all of that is known when it is enqueued, whatever time the work then takes. */
#include "state.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- Clocks --- */

uint64_t fake_clock_get(const struct clock *clock, unsigned slot) { return slot < clock->width ? clock->at[slot] : 0; }

static void widen(struct clock *clock, unsigned width)
{
    if (width <= clock->width) return;
    width     = (width + 7) / 8 * 8;
    clock->at = fake_room(clock->at, width * sizeof *clock->at);
    memset(clock->at + clock->width, 0, (width - clock->width) * sizeof *clock->at);
    clock->width = width;
}

void fake_clock_set(struct clock *clock, unsigned slot, uint64_t sequence)
{
    widen(clock, slot + 1);
    clock->at[slot] = sequence;
}

void fake_clock_join(struct clock *clock, const struct clock *other)
{
    widen(clock, other->width);
    for (unsigned slot = 0; slot < other->width; ++slot)
        if (clock->at[slot] < other->at[slot]) clock->at[slot] = other->at[slot];
}

void fake_clock_copy(struct clock *clock, const struct clock *other)
{
    if (clock->width > 0) memset(clock->at, 0, clock->width * sizeof *clock->at);
    fake_clock_join(clock, other);
}

void fake_clock_free(struct clock *clock)
{
    free(clock->at);
    *clock = (struct clock){NULL, 0};
}

struct clock *fake_host_clock(struct thread *self) { return world.settings.is_one_host ? &world.seen : &self->clock; }

void fake_see(const struct clock *clock)
{
    fake_clock_join(&fake_self()->clock, clock);
    fake_clock_join(&world.seen, clock);
}

/* --- Operations that are known --- */

static struct past {
    uint64_t     op, sequence;
    unsigned     slot;
    bool         has_begun, has_ended, is_dropped;
    struct clock clock;
} *history;

static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static unsigned       movers; /* who waits for it */

static struct past *past_of(uint64_t op)
{
    if (history == NULL || op == 0) return NULL;
    struct past *past = &history[op % world.settings.history];
    return past->op == op ? past : NULL;
}

void fake_remember(CUstream stream, const struct op *op)
{
    if (history == NULL) {
        history = calloc(world.settings.history, sizeof *history);
        if (history == NULL) abort();
    }
    struct past *past = &history[op->number % world.settings.history];
    fake_clock_copy(&past->clock, &stream->clock);
    past->op        = op->number;
    past->sequence  = op->sequence;
    past->slot      = stream->slot;
    past->has_begun = past->has_ended = past->is_dropped = false;
}

static void note(CUstream stream, const struct op *op, fake_cuda_kind kind)
{
    fake_log(&(fake_cuda_entry){.kind = kind, .call = fake_call_name(op->call), .op = op->number, .stream = stream->number,
                                .event = op->event == NULL ? 0 : op->event->number, .generation = op->generation,
                                .tag = op->tag});
    struct past *past = past_of(op->number);
    if (past == NULL) return;
    past->has_begun = true;
    past->has_ended = kind == FAKE_CUDA_END;
    if (movers > 0) pthread_cond_broadcast(&moved);
}

void fake_note_begin(CUstream stream, const struct op *op) { note(stream, op, FAKE_CUDA_BEGIN); }

void fake_note_end(CUstream stream, const struct op *op) { note(stream, op, FAKE_CUDA_END); }

void fake_note_dropped(const struct op *op)
{
    struct past *past = past_of(op->number);
    if (past != NULL) past->is_dropped = true;
    if (movers > 0) pthread_cond_broadcast(&moved);
}

static int await(uint64_t op, bool is_end)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60;
    fake_control();
    const struct past *past = past_of(op);
    ++movers;
    while (past != NULL && !past->is_dropped && !(is_end ? past->has_ended : past->has_begun)) {
        if (pthread_cond_timedwait(&moved, &world.lock, &deadline) != 0) past = NULL;
        else past = past_of(op);
    }
    --movers;
    int has_come = past != NULL && (is_end ? past->has_ended : past->has_begun);
    fake_control_end();
    return has_come;
}

CONTROL int fake_cuda_await_begin(uint64_t op) { return await(op, false); }

CONTROL int fake_cuda_await_end(uint64_t op) { return await(op, true); }

CONTROL int fake_cuda_happens_before(uint64_t a, uint64_t b)
{
    fake_control();
    const struct past *first = past_of(a), *second = past_of(b);
    int                is_before = -1;
    if (first != NULL && second != NULL)
        is_before = a != b && fake_clock_get(&second->clock, first->slot) >= first->sequence;
    fake_control_end();
    return is_before;
}

CONTROL void fake_cuda_saw(uint64_t op)
{
    fake_control();
    const struct past *past = past_of(op);
    if (past != NULL) fake_see(&past->clock);
    fake_control_end();
}

CONTROL void fake_cuda_tag(uint64_t tag)
{
    fake_control()->tag = tag;
    fake_control_end();
}

CONTROL uint64_t fake_cuda_op(void)
{
    const struct thread *self = fake_control();
    uint64_t             op   = self->running != NULL ? self->running->number : self->last_op;
    fake_control_end();
    return op;
}

/* --- The log --- */

#define KIND_TEXT(NAME, name) #name,
static const char *const kinds[] = {FAKE_CUDA_KINDS(KIND_TEXT)};

static fake_cuda_entry *entries;
static uint64_t         entry_count;
static FILE            *file;

void fake_log_open(const char *path)
{
    file = fopen(path, "ae");
    if (file == NULL) {
        perror(path);
        abort();
    }
    /* Whole, also if the process is killed. */
    setvbuf(file, NULL, _IOLBF, 4096);
}

/* NULL: the last. */
void fake_log_text(const char *text)
{
    if (file == NULL) return;
    if (text != NULL) fprintf(file, "%s\n", text);
    else fflush(file);
}

static void field(const char *name, uint64_t value)
{
    if (value != 0) fprintf(file, " %s=%" PRIu64, name, value);
}

static void print(const fake_cuda_entry *entry)
{
    fprintf(file, "%" PRIu64 " %s %s", entry->number, kinds[entry->kind], entry->call);
    field("op", entry->op);
    field("stream", entry->stream);
    field("event", entry->event);
    field("generation", entry->generation);
    field("after", entry->after);
    field("thread", entry->thread);
    field("tag", entry->tag);
    field("memory", entry->memory);
    field("size", entry->size);
    fputc('\n', file);
}

void fake_log(const fake_cuda_entry *entry)
{
    const struct thread *self = fake_self();
    if (entries == NULL) {
        entries = calloc(world.settings.history, sizeof *entries);
        if (entries == NULL) abort();
    }
    fake_cuda_entry *kept = &entries[++entry_count % world.settings.history];
    *kept                 = *entry;
    kept->number          = entry_count;
    kept->thread          = self->number;
    if (kept->call == NULL) kept->call = fake_call_name(self->call);
    if (kept->tag == 0) kept->tag = self->tag;
    if (file != NULL) print(kept);
}

CONTROL uint64_t fake_cuda_log_count(void)
{
    fake_control();
    uint64_t count = entry_count;
    fake_control_end();
    return count;
}

CONTROL int fake_cuda_log_at(uint64_t number, fake_cuda_entry *entry)
{
    fake_control();
    int is_kept = number != 0 && number <= entry_count && entry_count - number < world.settings.history;
    if (is_kept) *entry = entries[number % world.settings.history];
    fake_control_end();
    return is_kept;
}
