/* hello: two live sessions of the built-in model; one changes its prompt. */
#include "rte.h"
#include <stdio.h>
#include <string.h>

static void say(rte_engine *engine, uint32_t kind, uint64_t session, const char *prompt)
{
    rte_value   prompt_value = {.key = RTE_REFERENCE_PROMPT, .data = prompt, .size = strlen(prompt)};
    rte_message message      = {.kind = kind, .session = session, .values = &prompt_value, .value_count = 1};
    if (rte_inbox_push(engine, &message) != RTE_OK) puts("inbox full");
}

int main(void)
{
    rte_model   model = {.struct_size = sizeof model};
    rte_engine *engine;
    rte_error   error;
    rte_output  out;
    int         chunks = 0;

    rte_reference_model(&model);
    if (rte_engine_new(&model, NULL, &engine, &error) || rte_engine_start(engine, &error)) {
        puts(error.message);
        return 1;
    }
    say(engine, RTE_ATTACH, 7, "a castle");
    say(engine, RTE_ATTACH, 8, "a harbour");
    while (chunks < 20 && rte_outbox_wait(engine, 5000000000) == RTE_OK)
        while (rte_outbox_pop(engine, &out) == RTE_OK) {
            if (out.kind == RTE_CHUNK) {
                printf("session %u chunk %u: %u\n", (unsigned)out.session, (unsigned)out.index, *(const uint8_t *)out.data);
                if (++chunks == 10) say(engine, RTE_ACTION, 7, "the same castle at night");
            }
            rte_output_release(&out, NULL);
        }
    rte_engine_free(engine);
    return chunks < 20;
}
