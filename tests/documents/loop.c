#include "rte.h"

void leave_the_loop(rte_status status);
unsigned frame(rte_engine *engine, unsigned frames_that_the_model_was_busy);

unsigned frame(rte_engine *engine, unsigned frames_that_the_model_was_busy)
{
    /* the block */
    return frames_that_the_model_was_busy;
}
