/*
 * steward: a thread that looks after the workers that share all lanes. By the timer of their
 * parking it finds those that do not come back, and calls others in their place.
 *
 * While all workers are away, as on a disk that does not answer, it stands in for them: it takes
 * what comes through the lanes, and handles what needs no data file: HELLO, BYE (unless messages
 * of the session wait before it), fragments of replies, segments, PING, STATS and those commands of
 * ADMIN that never wait. So the owner is told of the trouble, and clients that read the store
 * without messages get their sessions. The rest it sets aside (aside.h) for the first worker that
 * comes back. What has no room there is answered KV_OVERLOADED; a BYE without room ends its session
 * at once, and what the session has there is executed later. Where messages have an order
 * (message_order.h), which has all that came, it does not stand in.
 *
 * It takes no lock that is held while somebody waits for a data file, and its own requests do not
 * count as slow. It waits all the same where the audit log or the log is on the disk that does not
 * answer: sessions that begin and end, and ADMIN, leave a record in the one (audit.h); faults of
 * sessions and some commands leave a line in the other. So it does where a worker that writes to
 * one of them holds a lock: the file's own, or those of a HELLO.
 */
#ifndef MQKV_SERVERK_DISPATCH_STEWARD_H
#define MQKV_SERVERK_DISPATCH_STEWARD_H

#include "mqkv/error.h"
#include "serverk/dispatch/worker.h"

struct steward;

/* Starts the steward for workers that have started. statistics: a block of its own. receiver: as
 * that of a worker of all lanes, with a pulse of its own, without a place and a buffer. KV_LIMIT,
 * KV_NO_MEMORY, with a sentence. */
enum kv_status steward_start(const struct service *service, struct worker_statistics *statistics,
                             const struct receiver *receiver, struct steward **steward,
                             struct kv_error *error);

/* To be called after parking_stop. NULL is harmless. */
void steward_stop(struct steward *steward);

#endif
