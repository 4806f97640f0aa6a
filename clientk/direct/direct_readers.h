/*
 * direct_readers: which threads are reading the mappings of a handle at this moment, and mappings
 * that wait until no thread reads them any more.
 *
 * Each thread has a struct direct_reader, where it writes the number of the era while it reads. A
 * thread that takes a mapping out of use first removes the pointer to the mapping, then ends the
 * era: a reader of a later era cannot have found it (epoch-based reclamation: K. Fraser, "Practical
 * lock-freedom", 2004). Readers neither wait nor take a lock.
 *
 * Threads: a reader belongs to its thread; the rest is guarded as said at each function.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_READERS_H
#define MQKV_CLIENTK_DIRECT_DIRECT_READERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/memory/machine_sizes.h"

/* One thread of one handle. Start from {0}. */
struct direct_reader {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t era; /* 0: the thread is not reading */
    _Atomic uint64_t reads; /* reads without a message; only the thread writes this and asks */
    _Atomic uint64_t asks;  /* reads that had to go by message */
    _Atomic uint64_t found, absent; /* of `reads`, those of single keys */
    bool saw_end;          /* the daemon was known to have ended when the thread began to read */
    uint32_t pages_to_ask; /* pages of ranges that are asked for next, without a look */
    uint32_t pages_asked;  /* how many that are after one that was disturbed */
    struct direct_reader *next, **link; /* guarded by handles_lock */
};

/* The first member of what may be retired while threads read it. */
struct direct_retired {
    struct direct_retired *next;
    uint64_t era; /* in which it was retired */
    void (*release)(struct direct_retired *retired);
};

struct direct_readers {
    _Atomic uint64_t era; /* 1, 2, ... */

    /* Guarded by handles_lock. */
    struct direct_reader *first;
    struct direct_retired *retired;
    uint64_t reads_of_gone, asks_of_gone, found_of_gone, absent_of_gone;
};

/* Begins without readers, in era 1. */
void direct_readers_init(struct direct_readers *readers);

/* Add and remove the reader of a thread. The caller holds handles_lock. */
void direct_readers_join(struct direct_readers *readers, struct direct_reader *reader);
void direct_readers_leave(struct direct_readers *readers, struct direct_reader *reader);

/* Surround each read: a mapping that was found in between stays until the end. */
static inline void direct_reader_begin(const struct direct_readers *readers,
                                       struct direct_reader *reader)
{
    /* An exchange, which is ordered before the loads of what is read. */
    atomic_exchange(&reader->era, atomic_load(&readers->era));
}

static inline void direct_reader_end(struct direct_reader *reader)
{
    atomic_store_explicit(&reader->era, 0, memory_order_release);
}

/* Adds `more` to a counter of a reader, whose thread alone calls this. */
static inline void direct_reader_count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + more, memory_order_relaxed);
}

/* Retires `retired`, to which no pointer leads any more: this call or a later one releases it when
 * no thread can be reading it. The caller may be reading it, too. Takes handles_lock. */
void direct_readers_retire(struct direct_readers *readers, struct direct_retired *retired);

/* Releases everything that was retired. No thread may be reading. */
void direct_readers_release_all(struct direct_readers *readers);

/* Sums up the counters of all threads, also of those that have ended. Takes handles_lock. */
void direct_readers_sum(struct direct_readers *readers, uint64_t *reads, uint64_t *asks);

/* Like direct_readers_sum, for reads of single keys that were there, or were not. */
void direct_readers_sum_keys(struct direct_readers *readers, uint64_t *found, uint64_t *absent);

#endif
