/*
 * slow_log: the latest requests whose work took long (--slow): which, for whom, and how long. It
 * holds SLOW_LOG_ENTRIES of them; the log gets a line a second at most.
 *
 * Threads: any.
 */
#ifndef MQKV_SERVERK_EXECUTE_SLOW_LOG_H
#define MQKV_SERVERK_EXECUTE_SLOW_LOG_H

#include <stdint.h>
#include <sys/types.h>

#include "mqkv/slice.h"

#define SLOW_LOG_ENTRIES   128u
#define SLOW_LOG_KEY_BYTES 128u /* of a key, the rest is left out */

struct slow_request {
    uint64_t time_ms; /* since 1970, when it was done */
    uint64_t work_ns; /* with the waits for locks, without that for the disk */
    uint64_t lock_wait_ns;
    uint32_t session;
    pid_t pid;
    uid_t uid;
    unsigned opcode; /* of its first operation */
    unsigned operations;
    uint32_t key_bytes; /* of the first operation's key */
    char key[SLOW_LOG_KEY_BYTES];
};

struct slow_log;

/* NULL: out of memory. */
struct slow_log *slow_log_create(void);
void slow_log_free(struct slow_log *slow_log);

/* Copies the request. */
void slow_log_note(struct slow_log *slow_log, const struct slow_request *request);

/* Copies the requests that the log has, the latest first, to `requests`, which has
 * SLOW_LOG_ENTRIES. Returns how many; *noted: how many were noted since the start. */
unsigned slow_log_take(struct slow_log *slow_log, struct slow_request *requests, uint64_t *noted);

/* Forgets all of them. */
void slow_log_clear(struct slow_log *slow_log);

/* Returns the part of the key that is kept. */
static inline struct kv_slice slow_request_key(const struct slow_request *request)
{
    return kv_slice(request->key, request->key_bytes < SLOW_LOG_KEY_BYTES ? request->key_bytes
                                                                          : SLOW_LOG_KEY_BYTES);
}

#endif
