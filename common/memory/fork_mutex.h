/*
 * fork_mutex: a mutex of the whole process that a fork leaves usable. A child has only the thread
 * that forked: a mutex that another thread held at that moment would stay locked in it for ever.
 * Here the fork waits until nobody holds the mutex, and parent and child go on with it unlocked.
 */
#ifndef MQKV_COMMON_MEMORY_FORK_MUTEX_H
#define MQKV_COMMON_MEMORY_FORK_MUTEX_H

#include <pthread.h>

/* Defines the mutex `name`, static. No other such mutex may be locked while it is held, and no
 * thread forks that holds it. */
#define FORK_MUTEX(name)                                                                          \
    static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                      \
    static void name##_lock_for_fork(void)                                                        \
    {                                                                                             \
        pthread_mutex_lock(&name);                                                                \
    }                                                                                             \
    static void name##_unlock_after_fork(void)                                                    \
    {                                                                                             \
        pthread_mutex_unlock(&name);                                                              \
    }                                                                                             \
    __attribute__((constructor)) static void name##_watch_forks(void)                             \
    {                                                                                             \
        pthread_atfork(name##_lock_for_fork, name##_unlock_after_fork, name##_unlock_after_fork); \
    }                                                                                             \
    _Static_assert(sizeof(name) > 0, "a semicolon follows")

#endif
