/* consumers: whichever way a consumer takes them, outputs are the same, each once, and none is missed.
 *
 *   consumers same     one script, four engines, four ways: the records are equal
 *   consumers four     four threads at one engine, two ways each twice: each chunk once, a session's in order
 *   consumers poll N   N chunks, one at a time: the engine sleeps until one is popped, the consumer until one is made
 *   consumers wait N   the same with rte_outbox_wait */
#include "check.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { DEADLINE_MS = 60000 };

static rte_engine *make(const rte_model *changes, rte_engine_options *options)
{
    rte_model   model = {.struct_size = sizeof model};
    rte_engine *engine;
    rte_error   error;

    rte_reference_model(&model);
    model.max_sessions = changes->max_sessions;
    model.rate_num     = 0;
    model.rate_den     = 0;
    options->struct_size = sizeof *options;
    if (rte_engine_new(&model, options, &engine, &error) != RTE_OK) {
        printf("%s\n", error.message);
        exit(1);
    }
    return engine;
}

static int poller(rte_engine *engine)
{
    int                epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, (int)rte_outbox_fd(engine), &event) != 0) exit(1);
    return epoll;
}

/* 1: readable. 0: not within `timeout` ms. */
static int polls(int epoll, int timeout)
{
    struct epoll_event event;
    int                count;
    do count = epoll_wait(epoll, &event, 1, timeout);
    while (count < 0 && errno == EINTR);
    return count;
}

/* ---- same ---- */

typedef struct { rte_output output; unsigned char first, last; } Line;
typedef struct { Line lines[20000]; size_t count; } Record;

static void note(void *user, rte_output *output)
{
    Record *record = user;
    Line   *line   = &record->lines[record->count++];

    line->output = *output;
    if (output->kind == RTE_CHUNK) {
        line->first = *(const unsigned char *)output->data;
        line->last  = ((const unsigned char *)output->data)[output->size - 1];
    }
    line->output.data     = NULL; /* what legitimately differs: addresses and times */
    line->output.owner    = NULL;
    line->output.start_ns = line->output.done_ns = 0;
    rte_output_release(output, NULL);
}

/* What the last pop returned. */
static rte_status pop_all(rte_engine *engine, Record *record)
{
    rte_output output;
    rte_status status;
    while ((status = rte_outbox_pop(engine, &output)) == RTE_OK) note(record, &output);
    return status;
}

enum { POP, WAIT, POLL, CALLED, WAYS };

static void take(rte_engine *engine, int way, int epoll, Record *record)
{
    if (way == POP) pop_all(engine, record);
    if (way == WAIT) while (rte_outbox_wait(engine, 0) == RTE_OK && pop_all(engine, record) == RTE_AGAIN) {}
    if (way == POLL) while (polls(epoll, 0) == 1 && pop_all(engine, record) == RTE_AGAIN) {}
}

static void script(int way, Record *record)
{
    rte_model          model   = {.max_sessions = 5};
    rte_engine_options options = {.lanes = RTE_LANES_INLINE, .pipeline = RTE_PIPELINE_ON};
    uint32_t           random  = 7;
    rte_engine        *engine;
    int                epoll = -1, tick;

    if (way == CALLED) {
        options.on_output      = note;
        options.on_output_user = record;
    }
    engine = make(&model, &options);
    if (way == POLL) epoll = poller(engine);
    for (tick = 0; tick < 2000; ++tick) {
        int64_t     number  = tick;
        rte_value   value   = {.key = RTE_REFERENCE_ACTION, .data = &number, .size = sizeof number};
        rte_message message = {.tag = (uint64_t)tick};
        random              = random * 1664525u + 1013904223u;
        message.kind        = random >> 28 < 12 ? (random >> 28) % 6 + 1 : RTE_ACTION;
        message.session     = (random >> 20) % 7;
        if (message.kind == RTE_ACTION) message.values = &value, message.value_count = 1;
        if (message.kind == RTE_DETACH && (random >> 18) % 2) message.flags = RTE_DRAIN;
        if (rte_inbox_push(engine, &message) != RTE_OK) exit(1);
        if (rte_engine_tick(engine, 0) != RTE_OK) exit(1);
        take(engine, way, epoll, record);
    }
    take(engine, way, epoll, record);
    rte_engine_stop(engine, UINT64_MAX, NULL);
    take(engine, way, epoll, record);
    if (way == CALLED) {
        rte_output output;
        EQUAL("with on_output a pop is refused", rte_outbox_pop(engine, &output), RTE_ERR_STATE);
        EQUAL("with on_output a wait is refused", rte_outbox_wait(engine, 0), RTE_ERR_STATE);
        EQUAL("with on_output there is no descriptor", rte_outbox_fd(engine), -1);
    } else {
        rte_output output;
        EQUAL("all was taken", rte_outbox_pop(engine, &output), RTE_CLOSED);
    }
    if (epoll >= 0) {
        EQUAL("after the end the descriptor stays readable", polls(epoll, 0), 1);
        close(epoll);
    }
    rte_engine_free(engine);
}

/* Of one session, in its order: sessions may be taken in another turn. */
static size_t of_session(const Record *record, uint64_t session, Line *out)
{
    size_t count = 0, i;
    for (i = 0; i < record->count; ++i)
        if (record->lines[i].output.session == session) out[count++] = record->lines[i];
    return count;
}

static void same(void)
{
    static Record records[WAYS];
    static Line   one[20000], other[20000];
    const char *names[WAYS] = {"pop", "wait", "poll", "on_output"};
    uint64_t    session;
    int         way;

    for (way = 0; way < WAYS; ++way) script(way, &records[way]);
    CHECK("the script gives much", records[POP].count > 2000);
    for (way = 1; way < WAYS; ++way) {
        int are_equal = records[way].count == records[POP].count;
        for (session = 0; session < 7 && are_equal; ++session) {
            size_t count = of_session(&records[POP], session, one);
            are_equal    = of_session(&records[way], session, other) == count && memcmp(one, other, count * sizeof *one) == 0;
        }
        CHECK(names[way], are_equal);
    }
    CHECK("poll and pop take in the same turn", memcmp(&records[POLL], &records[POP], sizeof records[POP]) == 0);
}

/* ---- four, poll, wait ---- */

enum { SESSIONS = 8 };

static rte_engine    *shared;
static uint64_t       wanted;       /* chunks of each session */
static atomic_uchar  *seen;         /* by session and index */
static atomic_ullong  taken, disorder, lost;

static int take_chunk(rte_output *output, uint64_t last[SESSIONS])
{
    int is_new = 0;
    if (output->kind == RTE_CHUNK && output->index < wanted) {
        uint64_t session = output->session;
        if (last[session] != UINT64_MAX && output->index <= last[session]) atomic_fetch_add(&disorder, 1);
        last[session] = output->index;
        atomic_fetch_add(&seen[session * wanted + output->index], 1);
        if (output->dropped) atomic_fetch_add(&lost, output->dropped);
        is_new = 1;
    }
    rte_output_release(output, NULL);
    return is_new;
}

/* Takes outputs as `way` says until all are there; a hang ends it, as lost. */
static void *consume(void *user)
{
    int        way = *(const int *)user, epoll = way == POLL ? poller(shared) : -1;
    uint64_t   last[SESSIONS];
    rte_output output;

    memset(last, 0xff, sizeof last);
    while (atomic_load(&taken) < wanted * SESSIONS) {
        rte_status status = rte_outbox_pop(shared, &output);
        if (status == RTE_OK) {
            if (take_chunk(&output, last)) atomic_fetch_add(&taken, 1);
        } else if (status == RTE_CLOSED) {
            break;
        } else if (way == POLL ? polls(epoll, DEADLINE_MS) != 1
                               : rte_outbox_wait(shared, DEADLINE_MS * UINT64_C(1000000)) == RTE_TIMEOUT) {
            atomic_fetch_add(&lost, 1);
            printf("a wake was lost after %llu chunks\n", (unsigned long long)atomic_load(&taken));
            break;
        }
    }
    rte_engine_stop(shared, 0, NULL); /* wakes the others */
    if (epoll >= 0) close(epoll);
    return NULL;
}

static void consumers(const int *ways, int count, uint64_t chunks, uint32_t depth)
{
    rte_model          model   = {.max_sessions = SESSIONS};
    rte_engine_options options = {.lanes = RTE_LANES_INLINE, .outbox_policy = RTE_HOLD, .outbox_depth = depth};
    pthread_t          threads[4];
    uint64_t           session, twice = 0;
    int                i;

    wanted = chunks / SESSIONS;
    seen   = calloc(wanted * SESSIONS, 1);
    shared = make(&model, &options);
    for (session = 0; session < SESSIONS; ++session) {
        rte_message message = {.kind = RTE_ATTACH, .session = session};
        rte_inbox_push(shared, &message);
    }
    EQUAL("the engine starts", rte_engine_start(shared, NULL), RTE_OK);
    for (i = 0; i < count; ++i) pthread_create(&threads[i], NULL, consume, (void *)(uintptr_t)&ways[i]);
    for (i = 0; i < count; ++i) pthread_join(threads[i], NULL);
    for (session = 0; session < wanted * SESSIONS; ++session) twice += atomic_load(&seen[session]) != 1;
    EQUAL("each chunk came once", twice, 0);
    EQUAL("a session's chunks came in order", atomic_load(&disorder), 0);
    EQUAL("nothing was lost", atomic_load(&lost), 0);
    EQUAL("all came", atomic_load(&taken), wanted * SESSIONS);
    rte_engine_free(shared);
    free(seen);
}

int main(int count, char **arguments)
{
    const char    *what   = count > 1 ? arguments[1] : "same";
    const uint64_t chunks = count > 2 ? strtoull(arguments[2], NULL, 10) : 10000;
    const int      ways[] = {POLL, WAIT, POLL, WAIT};

    if (strcmp(what, "same") == 0) same();
    if (strcmp(what, "four") == 0) consumers(ways, 4, chunks, 4);
    if (strcmp(what, "poll") == 0) consumers(&ways[0], 1, chunks, 1);
    if (strcmp(what, "wait") == 0) consumers(&ways[1], 1, chunks, 1);
    return finish();
}
