#include "clientk/base/handles.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
atomic_uint handles_forks;

void handles_lock(void)
{
    pthread_mutex_lock(&lock);
}

void handles_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&handles_forks, 1);
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
