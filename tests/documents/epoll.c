#include "rte.h"
#include <sys/epoll.h>

void consume(rte_engine *engine, int poller);

void consume(rte_engine *engine, int poller)
{
    rte_output out;
    /* the block */
}
