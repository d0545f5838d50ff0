/* A mistake that must be reported: a record is written by one thread and released by another, and nothing orders the
 * two: a relaxed flag only makes them come in this order. */
#include "rte.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

static rte_output output;
static atomic_int is_written;

static void *releaser(void *user)
{
    while (!atomic_load_explicit(&is_written, memory_order_relaxed)) (void)sched_yield();
    rte_output_release(&output, NULL);
    return user;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, releaser, NULL);
    output.owner = NULL;
    atomic_store_explicit(&is_written, 1, memory_order_relaxed);
    pthread_join(thread, NULL);
    puts("ok: race");
    return 0;
}
