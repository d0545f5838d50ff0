#include "rte.h"

void draw(const rte_output *output);
void frame(rte_engine *engine, rte_message action, rte_output out);

void frame(rte_engine *engine, rte_message action, rte_output out)
{
    /* the block */
    (void)keys;
}
