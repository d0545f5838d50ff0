#include "cuda_stub.h"
#include "rte.h"

void present(const void *data, size_t size, rte_stream stream);
void use(rte_output &out, rte_stream mine);

void use(rte_output &out, rte_stream mine)
{
    /* the block */
}
