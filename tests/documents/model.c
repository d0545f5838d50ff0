#include "rte.h"

void declare(rte_model *model_to_fill);

void declare(rte_model *model_to_fill)
{
    rte_model model = {.struct_size = sizeof model};
    /* the block */
    *model_to_fill = model;
}
