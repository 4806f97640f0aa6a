/*
 * commit: replies that wait until their writes are on disk. A worker hands over the finished reply
 * and goes on. The sync thread of the store reports how far each data file is synced, and sends, in
 * that call, the replies whose writes are on disk. One sync releases many replies, and no worker
 * sleeps in a sync.
 *
 * If a sync fails, the replies that waited for it become KV_NOT_DURABLE.
 *
 * Locks: one of its own, under which nothing else that locks is called.
 */
#ifndef MQKV_SERVERK_EXECUTE_COMMIT_H
#define MQKV_SERVERK_EXECUTE_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/kvstore.h"
#include "mqkv/slice.h"
#include "serverk/execute/statistics.h"
#include "serverk/session/session_table.h"

struct commit;

/* What one message waits for: the highest position of each data file that it wrote to. One
 * worker's. */
struct commit_waits {
    uint64_t *positions; /* by file; 0: not waited for */
    uint32_t *files;     /* those that are */
    uint32_t count;
};

/* False: out of memory. */
bool commit_waits_init(struct commit_waits *waits, uint32_t datafiles);
void commit_waits_free(struct commit_waits *waits);
void commit_waits_add(struct commit_waits *waits, struct kvstore_ticket ticket);
void commit_waits_clear(struct commit_waits *waits);

/* Registers as the sync listener of the store. NULL: out of memory. */
struct commit *commit_create(struct kvstore *store, struct session_table *sessions,
                             struct fragment_budget *budget);

/* To be called after commit_drain, when the store calls no more. NULL is harmless. */
void commit_free(struct commit *commit);

/* Sends a copy of the reply (extended as for deliver_reply) when its waits are over; asks the store
 * for the syncs. Takes a reference to the session for that time; the caller keeps its own. A
 * session of which as many replies are held as it has credits breaks their rule, and ends. */
void commit_hold(struct commit *commit, struct session *session, struct kv_slice reply,
                 bool extended, const struct commit_waits *waits);

/* Waits until no reply is held. */
void commit_drain(struct commit *commit);

/* Returns the number of replies that are held now. */
uint64_t commit_waiting(struct commit *commit);

/* Adds to *sum what was sent from here, and how long replies were held. */
void commit_statistics(struct commit *commit, struct worker_statistics *sum);

#endif
