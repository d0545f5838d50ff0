/* speech: 32 live audio streams through one voice activity detector (Silero VAD, an LSTM, run by OpenVINO on the CPU).
 *
 *     stream --512 samples--> ACTION --> [ HOT: one inference for all streams that are due ]
 *                                        [ DEFERRED, meanwhile: probability of chunk N-1 -> segments of speech ] --> CHUNK
 *
 * Streams join and leave while it runs; each is stepped only in ticks for which it has a new frame (rte_engine_step). Then the
 * same streams go one by one through a second engine, and then through a plain loop without any: what is heard in a stream must
 * not depend on its company.
 *
 *     ./fetch_speech.sh && make 02_speech && ./02_speech [assets]
 *
 * Ends with "ok: ..." and 0, with 1 when a check failed, with 77 when there are no assets. */
#include "rte.h"
#include "02_speech_network.h"

/* ---- the model --------------------------------------------------------------------------------------------------------- */

enum { STREAMS = 32, ROWS = MOST };
enum { AUDIO, KEYS };
enum { NOTHING, SPEECH_BEGINS, SPEECH_ENDS };

/* What a chunk says. begin and end count samples of the stream. */
typedef struct chunk {
    uint32_t number;
    uint32_t event;
    float    probability;
    uint32_t reserved;
    uint64_t begin; /* of the segment, with both events */
    uint64_t end;   /* with SPEECH_ENDS */
} chunk;

/* Silero's own hysteresis: begins above one threshold, ends below a lower one that lasts; what is too short never was. */
typedef struct segmenter {
    int      speaking;
    int      announced;
    uint64_t begin;
    uint64_t quiet; /* since when it may be over; 0: it is not */
} segmenter;

static const float    begins_above = 0.5f, ends_below = 0.35f;
static const uint64_t shortest_speech = RATE * 250 / 1000, shortest_silence = RATE * 100 / 1000;

typedef struct detector {
    /* HOT's, by row */
    float tail[ROWS][CONTEXT];
    float memory[ROWS][2][MEMORY];
    /* by slot and row: HOT of one chunk writes one slot while DEFERRED of the chunk before reads the other */
    float latent[2][ROWS];
    /* DEFERRED's, by row */
    segmenter segment[ROWS];
    network   network;
} detector;

static rte_status seed(void *user, rte_batch *b, rte_stream stream)
{
    detector *d = user;
    (void)stream;
    for (uint32_t i = 0; i < b->count; ++i) {
        const uint32_t row = b->row[i];
        memset(d->tail[row], 0, sizeof d->tail[row]);
        memset(d->memory[row], 0, sizeof d->memory[row]);
        memset(&d->segment[row], 0, sizeof d->segment[row]);
    }
    return RTE_OK;
}

/* Gather the rows, infer once, scatter. Nothing of a row changes before the inference has succeeded: RTE_MODEL_RETRY_SAFE. */
static rte_status detect(void *user, rte_batch *b, rte_stream stream)
{
    detector    *d     = user;
    network     *n     = &d->network;
    const float *audio = b->column[AUDIO]; /* [count][FRAME] */
    const size_t count = b->count, tail_bytes = sizeof d->tail[0], half_bytes = sizeof d->memory[0][0];
    ov_status_e  status;
    (void)stream;
    for (size_t i = 0; i < count; ++i) {
        const uint32_t row = b->row[i];
        memcpy(n->window + i * WINDOW, d->tail[row], tail_bytes);
        memcpy(n->window + i * WINDOW + CONTEXT, audio + i * FRAME, FRAME * sizeof(float));
        memcpy(n->memory_in + i * MEMORY, d->memory[row][0], half_bytes);
        memcpy(n->memory_in + (count + i) * MEMORY, d->memory[row][1], half_bytes);
    }
    status = network_infer(n, b->count);
    if (status != OK) return RTE_ERR_HOST + (rte_status)status; /* comes back in the notice */
    for (size_t i = 0; i < count; ++i) {
        const uint32_t row = b->row[i];
        memcpy(d->tail[row], audio + (i + 1) * FRAME - CONTEXT, tail_bytes);
        memcpy(d->memory[row][0], n->memory_out + i * MEMORY, half_bytes);
        memcpy(d->memory[row][1], n->memory_out + (count + i) * MEMORY, half_bytes);
        d->latent[b->slot][row] = n->probability[i];
    }
    return RTE_OK;
}

static void segmenter_step(segmenter *s, chunk *c)
{
    const uint64_t now = (uint64_t)c->number * FRAME;
    uint64_t       lasts_till; /* at least */
    if (c->probability >= begins_above) {
        s->quiet = 0;
        if (!s->speaking) {
            s->speaking  = 1;
            s->announced = 0;
            s->begin     = now;
        }
    } else if (c->probability < ends_below && s->speaking && !s->quiet) {
        s->quiet = now;
    }
    if (!s->speaking) return;

    c->begin   = s->begin;
    lasts_till = s->quiet ? s->quiet : now + FRAME;
    if (!s->announced && lasts_till - s->begin > shortest_speech) {
        s->announced = 1;
        c->event     = SPEECH_BEGINS;
    } else if (s->quiet && c->probability < ends_below && now - s->quiet >= shortest_silence) {
        c->event    = s->announced ? SPEECH_ENDS : NOTHING;
        c->end      = s->quiet;
        s->speaking = 0;
        s->quiet    = 0;
    }
}

static rte_status decode(void *user, rte_batch *b, rte_stream stream)
{
    detector *d = user;
    (void)stream;
    for (uint32_t i = 0; i < b->count; ++i) {
        chunk c = {.number = (uint32_t)b->age[i], .probability = d->latent[b->slot][b->row[i]]};
        segmenter_step(&d->segment[b->row[i]], &c);
        memcpy(b->output[i], &c, sizeof c);
        b->output_size[i] = sizeof c;
    }
    return RTE_OK;
}

/* ---- the host -------------------------------------------------------------------------------------------------------- */

enum { MOST_SEGMENTS = 64 };

typedef struct heard {
    float   *probability; /* of every frame */
    uint32_t chunks, segments;
    int      open; /* the last segment has no end yet */
    span     segment[MOST_SEGMENTS];
} heard;

typedef enum state { WAITING, JOINING, LIVE, LEAVING, GONE } state;

typedef struct stream {
    recording recording;
    uint64_t  joins; /* tick */
    state     state;
    uint32_t  sent; /* frames */
    heard     heard;
} stream;

typedef struct host {
    rte_engine *engine;
    stream      stream[STREAMS];
    uint32_t    attached, gone;
    uint64_t    first_ns, last_ns;
} host;

static const char *status_text(rte_status status)
{
    return status <= RTE_ERR_HOST ? ov_get_error_info((ov_status_e)(status - RTE_ERR_HOST)) : rte_status_message(status);
}

static void push(host *h, uint32_t number, uint32_t kind, uint32_t flags)
{
    stream         *s       = &h->stream[number];
    const rte_value audio   = {.key = AUDIO, .data = s->recording.samples + (size_t)s->sent * FRAME, .size = FRAME * sizeof(float)};
    rte_message     message = {.kind = kind, .flags = flags, .session = number};
    rte_status      status;
    if (kind == RTE_ACTION) {
        message.values      = &audio;
        message.value_count = 1;
        message.tag         = ++s->sent; /* comes back in the chunk */
    }
    status = rte_inbox_push(h->engine, &message);
    if (status != RTE_OK) fatal("push to stream %u: %s", number, rte_status_message(status));
}

/* Says what every stream does in this tick; returns how many are due. */
static size_t feed(host *h, uint64_t tick, uint32_t most, uint64_t *due)
{
    size_t count = 0;
    for (uint32_t i = 0; i < STREAMS; ++i) {
        stream *s = &h->stream[i];
        if (s->state == WAITING && tick >= s->joins && h->attached < most) {
            push(h, i, RTE_ATTACH, 0);
            s->state = JOINING;
            ++h->attached;
        } else if (s->state == LIVE && s->sent < s->recording.frames) {
            push(h, i, RTE_ACTION, 0);
            due[count++] = i;
        } else if (s->state == LIVE) {
            push(h, i, RTE_DETACH, RTE_DRAIN); /* its last chunk is still in the pipeline */
            s->state = LEAVING;
        }
    }
    return count;
}

static void take_chunk(host *h, stream *s, const rte_output *out)
{
    const unsigned id = (unsigned)out->session;
    heard         *to = &s->heard;
    chunk          c;
    if (out->size != sizeof c) fatal("stream %u: a chunk of %u bytes", id, (unsigned)out->size);
    memcpy(&c, out->data, sizeof c);
    check(out->index == to->chunks && c.number == to->chunks && out->dropped == 0 && out->tag == out->index + 1,
          "stream %u: expected chunk %u, not %u made of frame %u", id, to->chunks, c.number, (unsigned)out->tag - 1);
    if (to->chunks == s->recording.frames) fatal("stream %u: more chunks than frames", id);
    to->probability[to->chunks++] = c.probability;
    check(c.probability >= 0.0f && c.probability <= 1.0f, "stream %u: %g is no probability", id, (double)c.probability);
    check(c.event == NOTHING || (c.event == SPEECH_ENDS) == to->open, "stream %u: speech begins or ends twice", id);
    if (c.event == SPEECH_BEGINS) {
        if (to->segments == MOST_SEGMENTS) fatal("stream %u: more than %d segments", id, MOST_SEGMENTS);
        to->segment[to->segments++].begin = c.begin;
        to->open = 1;
    } else if (c.event == SPEECH_ENDS && to->open) {
        to->segment[to->segments - 1].end = c.end;
        to->open = 0;
    }
    if (!h->first_ns) h->first_ns = out->start_ns;
    h->last_ns = out->done_ns;
}

static void gone(host *h, stream *s)
{
    heard *to = &s->heard;
    if (to->open) to->segment[to->segments - 1].end = (uint64_t)s->recording.frames * FRAME; /* it ended in speech */
    to->open = 0;
    s->state = GONE;
    --h->attached;
    ++h->gone;
}

static void take(host *h, const rte_output *out)
{
    const unsigned id   = (unsigned)out->session;
    const char    *text = status_text(out->status);
    stream        *s    = &h->stream[id];
    switch (out->kind) {
    case RTE_CHUNK: take_chunk(h, s, out); break;
    case RTE_ATTACHED:
        check(s->state == JOINING && out->flags == 0, "stream %u: ATTACHED out of turn", id);
        s->state = LIVE;
        break;
    case RTE_DETACHED:
        check(s->state == LEAVING && out->status == RTE_OK, "stream %u: DETACHED out of turn: %s", id, text);
        check(s->heard.chunks == s->recording.frames, "stream %u: %u chunks of %u", id, s->heard.chunks, s->recording.frames);
        gone(h, s);
        break;
    case RTE_REJECTED:
        check(0, "stream %u: REJECTED: %s", id, text);
        if (s->state == JOINING) gone(h, s);
        break;
    case RTE_ROW_FAILED:
        check(0, "stream %u: stage %u failed: %s", id, out->stage, text);
        s->sent = s->recording.frames; /* nothing more to say: it will be detached */
        break;
    case RTE_TICK_FAILED: check(0, "tick %u: stage %u failed: %s", (unsigned)out->tick, out->stage, text); break;
    default: fatal("the engine ended: %s", text);
    }
}

/* All streams, at most `most` of them at once, as fast as it goes. Returns the seconds from the first HOT to the last chunk. */
static double run(host *h, detector *d, uint32_t most)
{
    const rte_key            keys[KEYS] = {{.name = "audio", .size = FRAME * sizeof(float), .type = RTE_F32}};
    const rte_stage          stages[]   = {{.name = "detect", .lane = RTE_HOT, .run = detect},
                                           {.name = "decode", .lane = RTE_DEFERRED, .run = decode}};
    const rte_model          model      = {.struct_size = sizeof model, .name = "silero-vad", .user = d, .flags = RTE_MODEL_RETRY_SAFE,
                                           .max_sessions = ROWS, .chunk_bytes = sizeof(chunk), .rate_num = RATE, .rate_den = FRAME,
                                           .keys = keys, .key_count = KEYS, .stages = stages, .stage_count = 2, .seed = seed};
    const rte_engine_options options    = {.struct_size = sizeof options, .lanes = RTE_LANES_INLINE, .pipeline = RTE_PIPELINE_ON,
                                           .log = rte_log_stderr};
    rte_engine_info          info       = {.struct_size = sizeof info};
    rte_error                error;
    size_t                   largest = 0;
    double                   seconds;

    if (rte_engine_new(&model, &options, &h->engine, &error) != RTE_OK) fatal("%s", error.message);
    for (uint64_t tick = 0; h->gone < STREAMS && tick < 1000000; ++tick) {
        uint64_t     due[STREAMS];
        const size_t due_count = feed(h, tick, most, due);
        rte_status   status    = rte_engine_step(h->engine, due, due_count, UINT64_MAX);
        rte_output   out;
        if (due_count > largest) largest = due_count;
        if (status != RTE_OK) fatal("step: %s", rte_status_message(status));
        while ((status = rte_outbox_pop(h->engine, &out)) == RTE_OK) {
            take(h, &out);
            rte_output_release(&out, NULL);
        }
        if (status != RTE_AGAIN) fatal("pop: %s", rte_status_message(status));
    }
    if (rte_engine_get_info(h->engine, &info) != RTE_OK) fatal("no info");
    if (rte_engine_stop(h->engine, UINT64_MAX, &error) != RTE_OK) fatal("stop: %s", error.message);
    rte_engine_free(h->engine);
    seconds = (double)(h->last_ns - h->first_ns) / 1e9;
    check(h->gone == STREAMS, "only %u streams have come to their end", h->gone);
    check(largest == most, "the largest batch had %u rows, not %u", (unsigned)largest, most);
    printf("batches of up to %2u: %5u ticks in %.3f s, median HOT %.3f ms\n", most, (unsigned)info.ticks, seconds,
           (double)info.lane_ns_p50[RTE_HOT] / 1e6);
    return seconds;
}

/* ---- the checks ------------------------------------------------------------------------------------------------------- */

static host *host_new(const library *l)
{
    host *h = allocate(1, sizeof *h);
    for (uint32_t i = 0; i < STREAMS; ++i) {
        h->stream[i].recording         = record(l, i);
        h->stream[i].joins             = i * 37u % 160u;
        h->stream[i].heard.probability = allocate(h->stream[i].recording.frames, sizeof(float));
    }
    return h;
}

static void host_free(host *h)
{
    for (uint32_t i = 0; i < STREAMS; ++i) {
        free(h->stream[i].recording.samples);
        free(h->stream[i].heard.probability);
    }
    free(h);
}

static int overlap(const span *a, const span *b) { return a->begin < b->end && b->begin < a->end; }

/* Speech is heard where somebody speaks and nowhere else. */
static void check_segments(const stream *s, uint32_t number)
{
    const recording *r   = &s->recording;
    const heard     *out = &s->heard;
    printf("stream %2u, from tick %3u, %4.1f s:", number, (unsigned)s->joins, (double)r->frames * FRAME / RATE);
    for (uint32_t i = 0; i < out->segments; ++i)
        printf(" %.2f..%.2f", (double)out->segment[i].begin / RATE, (double)out->segment[i].end / RATE);
    puts(r->clips ? "" : number ? " (noise)" : " (silence)");
    check(!out->segments == !r->clips, "stream %u: %u segments, but %u clips", number, out->segments, r->clips);
    for (uint32_t i = 0; i < out->segments; ++i) {
        int real = 0;
        for (uint32_t j = 0; j < r->clips; ++j) real |= overlap(&out->segment[i], &r->clip[j]);
        check(real, "stream %u: segment %u is where nobody speaks", number, i);
    }
}

/* Returns the largest difference of a probability from what a plain loop hears. */
static float check_company(const heard *together, const heard *alone, const float *plain, uint32_t number)
{
    float largest = 0.0f;
    for (uint32_t i = 0; i < alone->chunks; ++i) {
        largest = fmaxf(largest, fabsf(together->probability[i] - plain[i]));
        largest = fmaxf(largest, fabsf(alone->probability[i] - plain[i]));
    }
    check(largest < 1e-4f, "stream %u: in the engine its probabilities differ by %g", number, (double)largest);
    check(together->segments == alone->segments && !memcmp(together->segment, alone->segment, alone->segments * sizeof(span)),
          "stream %u: other segments alone than in company", number);
    return largest;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "assets";
    library     files;
    detector   *d;
    host       *together, *alone;
    double      seconds;
    uint64_t    chunks = 0;
    uint32_t    segments = 0, identical = 0;
    float       largest = 0.0f;

    library_open(&files, folder);
    if (!files.voices || !files.noise.count || !network_exists(folder)) {
        library_close(&files);
        printf("skipped: no model and recordings in %s: run ./fetch_speech.sh, or say where they are: 02_speech FOLDER\n", folder);
        return 77;
    }
    if (rte_abi_version() != RTE_ABI_VERSION) fatal("rte.h and librte do not belong together");
    d = allocate(1, sizeof *d);
    network_open(&d->network, folder);
    together = host_new(&files);
    alone    = host_new(&files);
    seconds  = run(together, d, ROWS);
    run(alone, d, 1);

    for (uint32_t i = 0; i < STREAMS; ++i) {
        const heard *a = &together->stream[i].heard, *b = &alone->stream[i].heard;
        const size_t bytes = a->chunks * sizeof(float);
        float       *plain = allocate(together->stream[i].recording.frames, sizeof(float));
        network_listen(&d->network, &together->stream[i].recording, plain);
        check_segments(&together->stream[i], i);
        largest = fmaxf(largest, check_company(a, b, plain, i));
        identical += !memcmp(a->probability, plain, bytes) && !memcmp(b->probability, plain, bytes);
        chunks += a->chunks;
        segments += a->segments;
        free(plain);
    }
    host_free(alone);
    host_free(together);
    network_close(&d->network);
    free(d);
    library_close(&files);

    if (identical < STREAMS) puts("not bit for bit: OpenVINO takes other kernels for other batch sizes; they add in another order");
    if (failures) return printf("%u checks failed\n", failures), 1;
    printf("ok: %d streams (%u bit for bit as in a plain loop), %u chunks, %u segments, largest difference %g, ", STREAMS, identical,
           (unsigned)chunks, segments, (double)largest);
    printf("%.0f times real time\n", (double)chunks * FRAME / RATE / seconds);
    return 0;
}
