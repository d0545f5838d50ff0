/* A host that was compiled with an older header: each descriptor has the size that is named on the command line, and
 * the page behind it can be neither read nor written.
 *
 *     released rte_model 144
 */
#define _DEFAULT_SOURCE
#include "rte.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *of;
static size_t      size;

/* What such a host has of a struct of `type`: zero, and as long as it knows. */
static void *old(const char *type, size_t now)
{
    const size_t   page  = (size_t)sysconf(_SC_PAGESIZE);
    const size_t   bytes = strcmp(of, type) == 0 ? size : now;
    unsigned char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || bytes > page || mprotect(pages + page, page, PROT_NONE) != 0) exit(2);
    const uint32_t said   = (uint32_t)bytes;
    void          *result = pages + page - bytes;
    memcpy(result, &said, sizeof said);
    return result;
}
#define OLD(type) ((type *)old(#type, sizeof(type)))

static void must(const char *what, rte_status seen, rte_status expected)
{
    if (seen == expected) return;
    printf("%s: %d\n", what, (int)seen);
    exit(1);
}

static uint64_t now(void *user)
{
    (void)user;
    return 1;
}

static void sleep_until(void *user, uint64_t ns)
{
    (void)user, (void)ns;
}

static rte_status stream_new(void *user, uint32_t lane, rte_stream *out)
{
    (void)lane;
    *out = user;
    return RTE_OK;
}

static void stream_free(void *user, rte_stream stream)
{
    (void)user, (void)stream;
}

static rte_status event_new(void *user, rte_event *out)
{
    *out = user;
    return RTE_OK;
}

static void event_free(void *user, rte_event event)
{
    (void)user, (void)event;
}

static rte_status record(void *user, rte_event event, rte_stream stream)
{
    (void)user, (void)event, (void)stream;
    return RTE_OK;
}

static rte_status wait(void *user, rte_stream stream, rte_event event)
{
    (void)user, (void)event, (void)stream;
    return RTE_OK;
}

static rte_status query(void *user, rte_event event)
{
    (void)user, (void)event;
    return RTE_OK;
}

static rte_status wait_for(void *user, rte_event event, uint64_t timeout_ns)
{
    (void)user, (void)event, (void)timeout_ns;
    return RTE_OK;
}

int main(int count, char **arguments)
{
    if (count != 3) return 2;
    of   = arguments[1];
    size = strtoul(arguments[2], NULL, 10);

    rte_model          *model   = OLD(rte_model);
    rte_engine_options *options = OLD(rte_engine_options);
    rte_engine_info    *info    = OLD(rte_engine_info);
    rte_session_info   *session = OLD(rte_session_info);
    rte_backend        *backend = OLD(rte_backend);
    rte_clock          *clock   = OLD(rte_clock);
    const rte_message   attach  = {.kind = RTE_ATTACH, .session = 7};
    rte_engine         *engine;
    rte_error           error;
    rte_output          out;
    int                 chunks = 0;

    must("rte_reference_model", rte_reference_model(model), RTE_OK);
    clock->now           = now;
    clock->sleep_until   = sleep_until;
    backend->user        = &chunks;
    backend->stream_new  = stream_new;
    backend->stream_free = stream_free;
    backend->event_new   = event_new;
    backend->event_free  = event_free;
    backend->record      = record;
    backend->wait        = wait;
    backend->query       = query;
    backend->sync        = wait_for;
    options->lanes       = RTE_LANES_HOST;
    options->clock       = clock;
    options->backend     = backend;
    if (rte_engine_new(model, options, &engine, &error) != RTE_OK) return puts(error.message), 1;
    must("rte_inbox_push", rte_inbox_push(engine, &attach), RTE_OK);
    for (int tick = 0; tick < 8; ++tick) {
        must("rte_engine_tick", rte_engine_tick(engine, UINT64_MAX), RTE_OK);
        while (rte_outbox_pop(engine, &out) == RTE_OK) {
            chunks += out.kind == RTE_CHUNK;
            rte_output_release(&out, NULL);
        }
    }
    must("rte_engine_get_info", rte_engine_get_info(engine, info), RTE_OK);
    must("rte_session_get_info", rte_session_get_info(engine, 7, session), RTE_OK);
    printf("%d chunks, %u attached, session in state %u\n", chunks, (unsigned)info->attached, (unsigned)session->state);
    rte_engine_free(engine);
    return 0;
}
