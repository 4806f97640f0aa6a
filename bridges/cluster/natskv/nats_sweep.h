/*
 * nats_sweep: removes expired entries and old tombstones from the streams of a bucket, since the
 * servers remove nothing by themselves (nats_entry.h). One of the daemons of a bucket sweeps at a
 * time: the one that wrote a message of its own into the first stream last, which all look at; if
 * it writes none for half a minute, another one goes on. That two may sweep together for a moment
 * is harmless: a message is removed by its sequence, so what was written to its key since stays.
 *
 * What nobody is to rely on any more is removed:
 *   - an entry two seconds after its expiry, by the clocks of this host and of the servers;
 *   - a tombstone after an hour, by the clock of the servers. So a message that comes late, as of
 *     a server that stood still, and that may only be written where the key was never there, meets
 *     the tombstone, and not an empty subject, for which 0 is the right last sequence again.
 * A conditional write on what is removed meanwhile is refused by the server, and looks again.
 *
 * Threads: its own.
 */
#ifndef MQKV_NATSKV_NATS_SWEEP_H
#define MQKV_NATSKV_NATS_SWEEP_H

#include "bridges/cluster/natskv/nats_engine.h"

struct nats_sweep;

/* A message as a sweep sees it. */
struct swept_message {
    bool tombstone;
    uint64_t expiry_ms;  /* 0: never */
    uint64_t written_ms; /* by the servers' clock */
};

/* Returns when the message may be removed, by both clocks; UINT64_MAX: never. */
uint64_t nats_sweep_due_ms(const struct swept_message *message);

/* Reads the sequence of a message, and when it was written (milliseconds since 1970), from the
 * subject to which a consumer acknowledges it. False: the subject is another one. */
bool nats_sweep_read_ack_subject(const char *subject, uint64_t *sequence, uint64_t *written_ms);

/* Reads "2026-11-23T19:52:01.123456789Z" as milliseconds since 1970. False: it is no such time. */
bool nats_sweep_take_time(struct kv_slice text, uint64_t *time_ms);

/* Begins to sweep. Errors: KV_NO_MEMORY, KV_LIMIT (no thread). */
enum kv_status nats_sweep_start(struct nats_engine *engine, struct nats_sweep **sweep,
                                struct kv_error *error);

/* Ends the sweeping, before anything else of the engine is closed. Waits some seconds if the
 * cluster does not answer. NULL is harmless. */
void nats_sweep_stop(struct nats_sweep *sweep);

/* Returns how many messages were removed so far. Any thread; NULL: 0. */
uint64_t nats_sweep_removed(const struct nats_sweep *sweep);

#endif
