#include "rte.h"
#include <stdio.h>

void end(rte_engine *engine);

void end(rte_engine *engine)
{
    rte_error error;
    /* the block */
}
