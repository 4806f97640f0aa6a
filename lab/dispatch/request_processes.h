/*
 * request_processes: --dispatch process: a process for each request that only reads (GET, EXISTS,
 * SCAN, RANGE, RANGE_COUNT, and batches of these). Whatever else comes, the receiving thread
 * executes itself, at once.
 *
 * The snapshot. The receiving thread forks while it holds every lock of the store, so that nobody
 * is in the middle of a change (kvstore_fork_begin). The child then reads
 *   - the index as it was then: its memory is the child's own by copy-on-write;
 *   - the records that this index points at: the mapping of a log is shared, but from the first
 *     fork on a log is only appended to, and what lies in it stays (the places of large values that
 *     were replaced are not used again); a compaction puts another file in the place of the log and
 *     leaves the mapped one to those who have it;
 * hence all operations of the request see the store as it was at one moment between the arrival of
 * the request and its reply. It sees every write that was acknowledged before the request was sent,
 * for these were executed before the fork.
 *
 * The child takes no lock that a thread of the daemon may have held at the fork: it leaves sessions
 * alone and sends its reply with one mq_send. It builds the reply in memory that was there before;
 * what the C library allocates for it besides (a read of a value by --io pread may) comes from its
 * own copy of the heap, which glibc makes usable after a fork. What it counts, it adds to shared
 * memory. The receiving thread holds the session for it. The reply of a batch, which may be larger
 * than a message, goes into memory shared with the daemon, which has reserved fragments for it: the
 * reaper sends it. What the child cannot do (a single large value, or a batch for which none could
 * be reserved) it leaves to the daemon: it ends with a status that says so.
 *
 * A reaper thread waits for the children by pidfd. It executes itself what a child left, or what a
 * child died with. Reads change nothing, so doing one again is safe; if the child died between
 * sending the reply and saying so, a second reply goes out, which clients ignore (its request id is
 * done with).
 *
 * A child dies with the receiving thread (PR_SET_PDEATHSIG) and at the latest after
 * REQUEST_PROCESS_LIFE_S (SIGALRM). At most service->options->workers are alive; at that limit the
 * receiving thread waits (slots.h).
 */
#ifndef MQKV_LAB_DISPATCH_REQUEST_PROCESSES_H
#define MQKV_LAB_DISPATCH_REQUEST_PROCESSES_H

#include "serverk/dispatch/pool.h"

#define REQUEST_PROCESS_LIFE_S 30u

/* The time of a message in a process of its own (allowance.h). docs/PROTOCOL.md 4.6 and serverk(1)
 * state it. */
#define REQUEST_PROCESS_ALLOWANCE_MS 500u

/* Starts the reaper and makes the feed of a pool of one (pool.h). Of service->statistics the second
 * block is the reaper's, and those from the third on are the children's. KV_NO_MEMORY, KV_LIMIT,
 * KV_IO. */
enum kv_status request_processes_create(const struct service *service, struct pool_feed *feed,
                                        struct kv_error *error);

#endif
