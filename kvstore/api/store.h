/*
 * store: the inside of a store, for the modules of the engine only.
 *
 * Threads: those of the caller, the sync threads (sync.h), the compactor (compact.h) and the
 * sweeper (sweep.h). Lock order: kvstore/core/lock.h.
 */
#ifndef MQKV_KVSTORE_API_STORE_H
#define MQKV_KVSTORE_API_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvstore/table/datafile.h"
#include "kvstore/table/generation.h"
#include "kvstore/format/keyhash.h"
#include "mqkv/kvstore.h"
#include "kvstore/core/lock.h"
#include "kvstore/log/read_buffer.h"

struct sync;
struct compactor;
struct sweeper;
struct lockfile;
struct readers;
struct cache;

struct kvstore {
    /* Constant after open. */
    struct kvstore_options options; /* defaults filled in */
    char *dir;
    int dir_fd;
    struct lockfile *lockfile;
    uint64_t seed;
    struct hash_key hash_key;
    uint32_t datafiles;
    bool is_new; /* made by this open: its files are empty */
    struct lockset *locks;
    struct readers *readers; /* those without a lock; NULL unless locking is KVSTORE_OPTIMISTIC */
    struct datafile *files;
    struct cache *cache; /* NULL: none */
    /* Synchronised by themselves; NULL if the store is read-only. */
    struct sync *sync;
    struct compactor *compactor;
    struct sweeper *sweeper;
    /* clock_monotonic_coarse_ms of the last line in the log about a write without room; 0: none. */
    _Atomic uint64_t no_space_told_ms;
};

/* Where a key belongs. */
struct place {
    struct datafile *file;
    uint64_t hash; /* all 64 bits */
};

static inline struct place place_of(const struct kvstore *store, struct kv_slice key)
{
    uint32_t number = keyhash_file(store->seed, key, store->datafiles);
    struct place place = {&store->files[number], keyhash(&store->hash_key, key)};
    return place;
}

/* Ends each operation of a store: nothing of its logs is looked at any more. */
static inline void store_end_operation(const struct kvstore *store)
{
    if (__builtin_expect(store->options.io == KVSTORE_IO_PREAD, 0))
        read_buffer_trim();
}

/* The clock is read only where there is something to compare it with. */
bool record_is_live(const struct record *record);

#endif
