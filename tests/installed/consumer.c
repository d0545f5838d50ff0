/* Who has an installed library and nothing else: the versions belong together, and the built-in model makes chunks. */
#include <rte.h>
#include <stdio.h>

int main(void)
{
    rte_model   model  = {.struct_size = sizeof model};
    rte_message attach = {.kind = RTE_ATTACH, .session = 7};
    rte_engine *engine;
    rte_error   error;
    rte_output  out;
    int         chunks = 0;

    if (rte_abi_version() != RTE_ABI_VERSION || rte_reference_model(&model) != RTE_OK) return 1;
    if (rte_engine_new(&model, NULL, &engine, &error) != RTE_OK) return puts(error.message), 1;
    if (rte_inbox_push(engine, &attach) != RTE_OK) return 1;
    for (int tick = 0; tick < 8 && rte_engine_tick(engine, UINT64_MAX) == RTE_OK; ++tick)
        while (rte_outbox_pop(engine, &out) == RTE_OK) {
            chunks += out.kind == RTE_CHUNK;
            rte_output_release(&out, NULL);
        }
    rte_engine_free(engine);
    printf("C %ld: %s, %d chunks\n", __STDC_VERSION__, rte_version_string(), chunks);
    return chunks == 0;
}
