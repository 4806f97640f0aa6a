/*
 * session_hold: the data files as a session has held them for its backup (kvstore_hold_begin). It
 * ends with the session, however that ends.
 *
 * Threads: any that holds the session; one at a time uses a hold, the others wait.
 */
#ifndef MQKV_SERVERK_SESSION_SESSION_HOLD_H
#define MQKV_SERVERK_SESSION_SESSION_HOLD_H

#include <stddef.h>
#include <stdint.h>

#include "mqkv/kvstore.h"

/* The holds of all sessions together: each may keep replaced logs on the disk. */
#define SESSION_MAX_HOLDS 4u

struct session;
struct session_hold;

/* Begins a hold, in place of an earlier one of the session, and describes it in *text, which is to
 * be freed. KV_OVERLOADED: others have all that there may be; KV_NO_MEMORY, KV_LIMIT, KV_IO. */
enum kv_status session_hold_begin(struct session *session, struct kvstore *store, char **text,
                                  size_t *size);

/* Reads of the session's hold as kvstore_hold_read does. KV_BUSY: there is none, or it has
 * lapsed. */
enum kv_status session_hold_read(struct session *session, uint32_t file, uint64_t offset,
                                 void *buffer, size_t size, size_t *got);

/* Keeps the hold from lapsing. KV_OK, or KV_BUSY as above. */
enum kv_status session_hold_touch(struct session *session);

/* Ends the hold. KV_OK, or KV_BUSY: it had ended or lapsed before. */
enum kv_status session_hold_end(struct session *session);

/* Backups since the start: those that were begun; whose client ended them with all that it wanted;
 * and those that could not begin, lapsed, or whose client went away. */
struct session_hold_event {
    uint64_t count;
    uint64_t last_ms; /* when the last was, since 1970; 0: there was none */
};
struct session_hold_counts {
    struct session_hold_event begun, finished, failed;
};
void session_hold_counts(struct session_hold_counts *counts);

/* Frees the hold of a session that is no more. NULL is harmless. */
void session_hold_free(struct session_hold *hold);

#endif
