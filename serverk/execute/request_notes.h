/*
 * request_notes: what is noted of some requests after they were executed: those that took long
 * (slow_log), and, for some seconds, the keys of all (hot_keys). While neither is wanted a request
 * costs one comparison.
 *
 * Threads: any.
 */
#ifndef MQKV_SERVERK_EXECUTE_REQUEST_NOTES_H
#define MQKV_SERVERK_EXECUTE_REQUEST_NOTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "serverk/execute/hot_keys.h"
#include "serverk/execute/slow_log.h"
#include "serverk/session/session.h"

struct request_notes {
    _Atomic uint64_t attention_ns; /* requests that took this long or longer are to be taken */
    _Atomic uint64_t slow_ns;      /* UINT64_MAX: none is slow */
    struct slow_log *slow_log;
    struct hot_keys *hot_keys;
};

/* NULL: out of memory. */
struct request_notes *request_notes_create(void);
void request_notes_free(struct request_notes *notes); /* NULL is harmless */

/* Sets how long the work of a slow request takes; 0: no request is slow. */
void request_notes_set_slow(struct request_notes *notes, uint64_t slow_ms);

void request_notes_begin_hot(struct request_notes *notes, uint64_t duration_ms);

static inline bool request_notes_wants(const struct request_notes *notes, uint64_t work_ns)
{
    return work_ns >= atomic_load_explicit(&notes->attention_ns, memory_order_relaxed);
}

/* A request that was executed: its operations as they came, and how many the header says. */
struct noted_request {
    const struct session *session;
    struct read_cursor operations;
    unsigned count;
    uint64_t work_ns, lock_wait_ns;
};

void request_notes_take(struct request_notes *notes, const struct noted_request *request);

#endif
