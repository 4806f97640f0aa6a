/*
 * queue_settle: what becomes of records that were claimed.
 *
 * Threads: one at a time for each queue.
 */
#ifndef MQKV_CLIENTK_QUEUE_QUEUE_SETTLE_H
#define MQKV_CLIENTK_QUEUE_QUEUE_SETTLE_H

#include "clientk/queue/queue_state.h"

/* Makes the record at that place of a lane a dead letter, if it is free and has had all of its
 * attempts. KV_OK, also if others have changed it. */
enum kv_status queue_bury_spent(struct clientk_queue *queue, unsigned lane, uint64_t number,
                                uint64_t now_ms);

/* Moves the record at that place of a lane to away:LANE:NUMBER, if it is leased, and enters a
 * reference to it at the end of its lease. KV_OK, also if others have changed it. */
enum kv_status queue_move_away(struct clientk_queue *queue, unsigned lane, uint64_t number);

#endif
