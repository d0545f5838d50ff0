#include "rte.h"

void show(uint64_t session, const void *data, size_t size);
void note(uint32_t kind, uint64_t session, rte_status status);
void consume(rte_engine *engine);

void consume(rte_engine *engine)
{
    /* the block */
}
