/*
 * last_error: the sentence that clientk_last_error() returns, one per thread.
 */
#ifndef MQKV_CLIENTK_BASE_LAST_ERROR_H
#define MQKV_CLIENTK_BASE_LAST_ERROR_H

#include "mqkv/error.h"

extern _Thread_local struct kv_error last_error_private __attribute__((visibility("hidden")));

/* Returns the calling thread's last error. Another thread may write it while the thread waits in a
 * call. */
static inline struct kv_error *last_error_of_thread(void)
{
    return &last_error_private;
}

/* Ensures that the sentence of *error describes `status`, if that is a failure: if it was written
 * for another status, it becomes kv_status_text(status). Returns `status`. */
enum kv_status last_error_explain(struct kv_error *error, enum kv_status status);

#endif
