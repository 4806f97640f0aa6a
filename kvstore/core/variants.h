/*
 * variants: what a store can be opened with beside the defaults: other locking strategies, among
 * them reads without a lock, other preferences of reader-writer locks, other allocators. The lab
 * has them (lab/locking/store_variants.c); a library without the lab links variants_absent.c, which
 * has none.
 *
 * Constant. What has no entry has no name (kvstore_locking_name and the like), and kvstore_open
 * refuses it.
 */
#ifndef MQKV_KVSTORE_CORE_VARIANTS_H
#define MQKV_KVSTORE_CORE_VARIANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/core/lock_kind.h"
#include "mqkv/kvstore.h"
#include "mqkv/slice.h"

struct allocator;
struct datafile;
struct generation;
struct lookup;
struct reader;
struct readers;
struct store_context;

/* How kvstore_get and kvstore_prefetch read without the lock of the file. Threads: any. */
struct lockless_reads {
    /* Makes what those who read are registered with. NULL: out of memory. */
    struct readers *(*create)(void);
    void (*free)(struct readers *readers); /* NULL is harmless */

    /* Registers the calling thread: from here until `leave` nothing is freed that it can reach.
     * NULL: it has to take the lock. */
    struct reader *(*enter)(struct readers *readers);
    void (*leave)(struct reader *reader);

    /* Registers the calling thread and looks the key up: in *generation, which was in use at some
     * moment of the call. NULL: to be done under the lock. */
    struct reader *(*find)(const struct store_context *context, struct datafile *file,
                           uint32_t hash, struct kv_slice key, const struct generation **generation,
                           struct lookup *lookup);

    /* Returns when all who were registered at the time of the call have left. */
    void (*wait)(struct readers *readers);
    uint64_t (*memory_bytes)(void);
};

struct locking_strategy {
    const char *name;
    const struct lock_kind *kind;
    bool lock_per_file;                 /* else one for all files */
    const struct lockless_reads *reads; /* NULL: all reads take the lock */
};

struct store_variants {
    const struct locking_strategy *strategies[KVSTORE_LOCKING_COUNT];
    struct {
        const char *name;
        int (*init)(struct lock *lock); /* of a reader-writer lock */
    } preferences[KVSTORE_RWLOCK_COUNT];
    const struct allocator *allocators[KVSTORE_ALLOCATOR_COUNT];
};

extern const struct store_variants store_variants;

#endif
