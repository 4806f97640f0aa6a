/*
 * direct_readers: which threads are reading the mappings of a handle just now, and mappings that
 * wait until nobody reads them any more.
 *
 * Each thread has a struct direct_reader, and writes the number of the era there while it reads.
 * Who takes a mapping out of use first takes away the pointer to it, then ends the era: a reader of
 * a later era cannot have found it (epoch-based reclamation: K. Fraser, "Practical lock-freedom",
 * 2004). Readers neither wait nor take a lock.
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
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t era; /* 0: it is not reading */
    _Atomic uint64_t reads; /* written by its thread only, as is the next */
    _Atomic uint64_t asks;  /* reads that had to be asked for by message */
    bool saw_end;           /* when it began to read, the daemon was known to have ended */
    struct direct_reader *next, **link; /* guarded by handles_lock */
};

/* Of what may be out of use while others read it: its first member. */
struct direct_retired {
    struct direct_retired *next;
    uint64_t era; /* in which it went out of use */
    void (*release)(struct direct_retired *retired);
};

struct direct_readers {
    _Atomic uint64_t era; /* 1, 2, ... */

    /* Guarded by handles_lock. */
    struct direct_reader *first;
    struct direct_retired *retired;
    uint64_t reads_of_gone, asks_of_gone;
};

void direct_readers_init(struct direct_readers *readers);

/* A thread comes, or goes. Hold handles_lock. */
void direct_readers_join(struct direct_readers *readers, struct direct_reader *reader);
void direct_readers_leave(struct direct_readers *readers, struct direct_reader *reader);

/* Around each read: what was found in between stays until the end. */
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

/* By the thread of the reader alone. */
static inline void direct_reader_count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + more, memory_order_relaxed);
}

/* Nothing points to it any more: it is released, here or by a later call, when nobody can be
 * reading it. Who calls may be reading it too. Takes handles_lock. */
void direct_readers_retire(struct direct_readers *readers, struct direct_retired *retired);

/* Releases everything; no thread may be reading. */
void direct_readers_release_all(struct direct_readers *readers);

/* All threads together, those that are gone too. Takes handles_lock. */
void direct_readers_sum(struct direct_readers *readers, uint64_t *reads, uint64_t *asks);

#endif
