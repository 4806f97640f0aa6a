#include "clientk/base/handles.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint fork_generation;

void handles_lock(void)
{
    pthread_mutex_lock(&lock);
}

void handles_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

unsigned handles_fork_generation(void)
{
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&fork_generation, 1);
    handles_unlock();
}

static void setup_once(void)
{
    pthread_atfork(handles_lock, handles_unlock, after_fork_in_child);
}

void handles_setup(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, setup_once);
}
