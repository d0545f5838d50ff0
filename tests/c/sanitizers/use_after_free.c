/* A mistake that must be reported: a record is released whose memory is gone. */
#include "rte.h"
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    rte_output *output = calloc(1, sizeof *output);
    free(output);
    rte_output_release(output, NULL);
    puts("ok: use after free");
    return 0;
}
