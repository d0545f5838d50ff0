/* Messages that cannot be: each is refused at the push, nothing of it is taken, and its release does not run. */
#include "kit.h"

typedef struct post {
    rte_engine *engine;
    rte_value   values[RTE_MAX_KEYS + 1];
    rte_message message;
    int         released;
} post;

static char large[65536 + 8];

static void release(void *user) { ++((post *)user)->released; }

/* A good message of `kind` with one value for the key "mode". */
static post *letter(post *p, uint32_t kind)
{
    static const int64_t mode    = 1;
    const rte_value      value   = {.key = MODE, .data = &mode, .size = sizeof mode};
    const rte_message    message = {.kind = kind, .session = 1, .values = p->values, .value_count = 1,
                                    .release = release, .release_user = p};
    memset(p->values, 0, sizeof p->values);
    p->values[0] = value;
    p->message   = message;
    return p;
}

/* One case: what is spoilt of a message of `kind` comes last, with the post as `p`. */
#define PUSH(name, sort, expected, ...)                                  \
    do {                                                                 \
        letter(p, sort);                                                 \
        __VA_ARGS__;                                                     \
        EQUAL(name, rte_inbox_push(p->engine, &p->message), expected);   \
    } while (0)

static void envelopes(post *p)
{
    PUSH("no kind", 0, RTE_ERR_ARGUMENT, (void)0);
    PUSH("a kind after the last", RTE_RESUME + 1, RTE_ERR_ARGUMENT, p->message.value_count = 0);
    PUSH("a kind far away", UINT32_MAX, RTE_ERR_ARGUMENT, p->message.value_count = 0);
    PUSH("a flag of ATTACH", RTE_ATTACH, RTE_ERR_ARGUMENT, p->message.flags = RTE_PARTIAL);
    PUSH("a flag of RESET", RTE_RESET, RTE_ERR_ARGUMENT, p->message.flags = RTE_DRAIN);
    PUSH("ACTION with the flag of DETACH", RTE_ACTION, RTE_ERR_ARGUMENT, p->message.flags = RTE_DRAIN);
    PUSH("DETACH with the flag of ACTION", RTE_DETACH, RTE_ERR_ARGUMENT, p->message.flags = RTE_PARTIAL, p->message.value_count = 0);
    PUSH("a flag of PAUSE", RTE_PAUSE, RTE_ERR_ARGUMENT, p->message.flags = 1, p->message.value_count = 0);
    PUSH("a flag of RESUME", RTE_RESUME, RTE_ERR_ARGUMENT, p->message.flags = 2, p->message.value_count = 0);
    PUSH("an unknown flag", RTE_ACTION, RTE_ERR_ARGUMENT, p->message.flags = 0x80000000u);
    PUSH("a generation with ATTACH", RTE_ATTACH, RTE_ERR_ARGUMENT, p->message.generation = 1);
    PUSH("the first reserved word", RTE_ACTION, RTE_ERR_ARGUMENT, p->message.reserved[0] = 1);
    PUSH("the second reserved word", RTE_ACTION, RTE_ERR_ARGUMENT, p->message.reserved[1] = 1);
    PUSH("values with DETACH", RTE_DETACH, RTE_ERR_ARGUMENT, (void)0);
    PUSH("values with PAUSE", RTE_PAUSE, RTE_ERR_ARGUMENT, (void)0);
    PUSH("values with RESUME", RTE_RESUME, RTE_ERR_ARGUMENT, (void)0);
    PUSH("65 values", RTE_ACTION, RTE_ERR_ARGUMENT, p->message.value_count = RTE_MAX_KEYS + 1);
    PUSH("values without end", RTE_ACTION, RTE_ERR_ARGUMENT, p->message.value_count = SIZE_MAX);
}

static void values(post *p)
{
    PUSH("a key that the model has not", RTE_ACTION, RTE_ERR_ARGUMENT, p->values[0].key = KEYS);
    PUSH("a key far away", RTE_ATTACH, RTE_ERR_ARGUMENT, p->values[0].key = UINT32_MAX);
    PUSH("a key twice", RTE_ACTION, RTE_ERR_ARGUMENT, p->values[1] = p->values[0], p->message.value_count = 2);
    PUSH("a key twice, once absent", RTE_ACTION, RTE_ERR_ARGUMENT,
         p->values[1].key = MODE, p->message.value_count = 2);
    PUSH("a value too small", RTE_ACTION, RTE_ERR_ARGUMENT, p->values[0].size = 4);
    PUSH("a value too large", RTE_ACTION, RTE_ERR_ARGUMENT, p->values[0].size = 16, p->values[0].data = large);
    PUSH("eight bytes for a key of four", RTE_ACTION, RTE_ERR_ARGUMENT, p->values[0].key = BUTTONS);
    PUSH("a value without bytes", RTE_ACTION, RTE_ERR_ARGUMENT, p->values[0].data = NULL);
    PUSH("an unknown flag of a value", RTE_ACTION, RTE_ERR_ARGUMENT, p->values[0].flags = 4);
    PUSH("a bad value behind a good one", RTE_ACTION, RTE_ERR_ARGUMENT,
         p->values[1].key = STEER, p->values[1].data = large, p->values[1].size = 7, p->message.value_count = 2);
}

static void sizes(post *p)
{
    PUSH("more bytes than options.message_bytes", RTE_ATTACH, RTE_ERR_TOO_LARGE,
         p->values[0].key = NOTE, p->values[0].data = large, p->values[0].size = 65537);
    PUSH("more bytes in two values", RTE_ATTACH, RTE_ERR_TOO_LARGE,
         p->values[0].key = NOTE, p->values[0].data = large, p->values[0].size = 65530,
         p->values[1].key = PROMPT, p->values[1].data = large, p->values[1].size = 7, p->message.value_count = 2);
    PUSH("a size without end", RTE_ATTACH, RTE_ERR_TOO_LARGE,
         p->values[0].key = NOTE, p->values[0].data = large, p->values[0].size = SIZE_MAX / 2,
         p->values[1].key = PROMPT, p->values[1].data = large, p->values[1].size = SIZE_MAX / 2, p->message.value_count = 2);
}

static void what_is_fine(post *p)
{
    PUSH("as many bytes as options.message_bytes", RTE_ATTACH, RTE_OK,
         p->values[0].key = NOTE, p->values[0].data = large, p->values[0].size = 65536);
    PUSH("more of them, borrowed", RTE_ACTION, RTE_OK,
         p->values[0].key = PROMPT, p->values[0].data = large, p->values[0].size = sizeof large,
         p->values[0].flags = RTE_VALUE_BORROWED);
    PUSH("an absent value of a key with a size", RTE_ACTION, RTE_OK, p->values[0].size = 0, p->values[0].data = NULL);
    PUSH("values that nobody counts", RTE_DETACH, RTE_OK, p->message.value_count = 0);
}

int main(void)
{
    kit  k;
    post p = {0};

    kit_init(&k);
    p.engine = kit_engine(&k);
    if (p.engine == NULL) return 1;
    envelopes(&p);
    values(&p);
    sizes(&p);
    EQUAL("no release has run", p.released, 0);
    EQUAL("the engine ticks", rte_engine_tick(p.engine, 0), RTE_OK);
    EQUAL("and nothing got in", drain(p.engine), 0);
    what_is_fine(&p);
    rte_engine_tick(p.engine, 0);
    EQUAL("a life that ends before its seed: DETACHED alone", drain(p.engine), 1);
    rte_engine_free(p.engine);
    EQUAL("each message that got in is released once", p.released, 4);
    return finish();
}
