/*
 * readers: which threads are reading a store without a lock, so that what they may be looking at is
 * freed only after they have left.
 *
 * Each reading thread has a place of its own, a counter alone on its cache line, which it makes odd
 * when it enters and even when it leaves. Who has taken something out of the readers' reach waits
 * until every counter that was odd has changed: who enters later cannot find it any more. This is
 * the quiescence of Fraser, "Practical lock-freedom" (PhD thesis, Cambridge, 2004), 5.2.3, with one
 * thread (the compactor) that frees, and which may wait: so there are no epochs and no lists of
 * things to be freed later.
 *
 * What readers may be looking at, and what becomes of it:
 * - the generation in use, with its index and the mapping of its log: a compaction replaces it,
 *   waits (readers_wait), and frees it;
 * - the index: segments are never freed before the whole index, nor are directories that were
 *   replaced, all of which together are smaller than the one in use;
 * - the mapping: never moves while the log grows (logfile.h);
 * - everything else of a store: constant until kvstore_close, which no call may outlast.
 *
 * In a process that was forked (kvstore_fork_in_child) nothing is replaced, so nobody waits for
 * readers that were inside at the fork and will never leave.
 *
 * A thread keeps its number in the process until it ends; with more than READERS_MAX threads at a
 * time the rest get no place, and take the lock.
 */
#ifndef MQKV_LAB_LOCKING_READERS_H
#define MQKV_LAB_LOCKING_READERS_H

#include <stdint.h>

#define READERS_MAX 512u

struct readers;
struct reader;

/* NULL: out of memory. */
struct readers *readers_create(void);
void readers_free(struct readers *readers);

/* Makes the calling thread a reader: until readers_leave, nothing is freed that is in reach now.
 * NULL: there is no place. Does not wait; not twice at a time in one thread. */
struct reader *readers_enter(struct readers *readers);
void readers_leave(struct reader *reader);

/* Returns when all who were reading at the time of the call have left. Sleeps meanwhile; holds no
 * lock that a reader could wait for. */
void readers_wait(struct readers *readers);

uint64_t readers_memory_bytes(void);

#endif
