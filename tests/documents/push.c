#include "rte.h"

void give_back(void *bytes);
rte_status push(rte_engine *engine, void *pixels, size_t bytes);

rte_status push(rte_engine *engine, void *pixels, size_t bytes)
{
    rte_status status;
    /* the block */
    return status;
}
