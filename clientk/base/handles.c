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

bool handles_are_locked(void)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return true;
    pthread_mutex_unlock(&lock);
    return false;
}

static void handles_after_fork_in_child(void)
{
    atomic_fetch_add(&handles_forks, 1);
    handles_unlock(); /* which the parent's thread took before the fork */
}

bool handles_setup(void)
{
    static bool ready;
    handles_lock();
    if (!ready)
        ready = pthread_atfork(handles_lock, handles_unlock, handles_after_fork_in_child) == 0;
    bool done = ready;
    handles_unlock();
    return done;
}
