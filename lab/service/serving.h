/*
 * serving: time added to each operation (--service-time), so that an experiment can make operations
 * as long as those of another server: as waiting, like that for a disk, or as work; while the lock
 * of the data file is held, or after it. Operations on keys, and scans, take their time each;
 * STATS, PING and SYNC take none.
 *
 * The way of an operation without a service time does not know of all this: contexts differ in
 * their table of runners.
 */
#ifndef MQKV_LAB_SERVICE_SERVING_H
#define MQKV_LAB_SERVICE_SERVING_H

/* What it counts, of statistics.h: operations with a service time; the time that was asked for, and
 * that was taken. */
enum serving_counter { SERVING_OPERATIONS, SERVING_ASKED_NS, SERVING_TAKEN_NS };

struct execution_context;
struct service_time;

/* From now on, the operations of the context take this time. service_time stays the caller's. */
void serving_begin(struct execution_context *context, const struct service_time *service_time);

/* Spends the time of the calling thread's operation, if it is still to be spent. The store calls it
 * before it releases a lock (kvstore_options.before_unlock), where the time is to pass under it. */
void serving_before_unlock(void);

#endif
