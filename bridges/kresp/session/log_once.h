/*
 * log_once: log lines that clients cause: one for each name, and only for a limited number of
 * names.
 */
#ifndef MQKV_KRESP_SESSION_LOG_ONCE_H
#define MQKV_KRESP_SESSION_LOG_ONCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define LOG_ONCE_NAMES      64u
#define LOG_ONCE_NAME_BYTES 64u

/* Start from LOG_ONCE_EMPTY. */
struct log_once {
    pthread_mutex_t lock;
    size_t count;
    char names[LOG_ONCE_NAMES][LOG_ONCE_NAME_BYTES];
};

#define LOG_ONCE_EMPTY                    \
    {                                     \
        .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* Returns true the first time that this name comes. Names are told apart by their first
 * LOG_ONCE_NAME_BYTES - 1 bytes. From any thread. */
bool log_once_is_new(struct log_once *seen, const char *name);

#endif
