/*
 * last_error: the sentence that clientk_last_error() gives: one a thread.
 */
#ifndef MQKV_CLIENTK_BASE_LAST_ERROR_H
#define MQKV_CLIENTK_BASE_LAST_ERROR_H

#include "mqkv/error.h"

extern _Thread_local struct kv_error last_error_private __attribute__((visibility("hidden")));

/* Where the calling thread's failures are told. Another thread may fill it while its owner waits
 * in a call. */
static inline struct kv_error *last_error_of_thread(void)
{
    return &last_error_private;
}

/* Sees to it that the sentence speaks of `status`, if that is a failure: one that was already
 * told for it stays, else the status' own text is taken. Returns status. */
enum kv_status last_error_explain(struct kv_error *error, enum kv_status status);

#endif
