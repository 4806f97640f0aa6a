/*
 * thread: how the engine makes threads: with nearly every signal blocked, so that the program's
 * signals go to the program's threads, and with a name for ps and top.
 */
#ifndef MQKV_KVSTORE_CORE_THREAD_H
#define MQKV_KVSTORE_CORE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "mqkv/error.h"

/* Starts *thread, which runs run(argument) under `name`, of at most 15 characters. Returns 0 or an
 * errno. */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

/* Makes *condition one whose deadlines are times of clock_monotonic_ns. Returns 0 or an errno. */
int thread_condition_init(pthread_cond_t *condition);

/* pthread_cond_timedwait on such a condition, until deadline_ns. */
int thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns);

/* Calls work(context, i, error) once for each i of 0 .. count-1, on several threads, the caller's
 * among them, and returns when all are done. Of several failures, the status and the sentence of
 * the lowest i are given back. */
enum kv_status thread_run_parallel(uint32_t count,
                                   enum kv_status (*work)(void *context, uint32_t i,
                                                          struct kv_error *error),
                                   void *context, struct kv_error *error);

#endif
