/*
 * context: the facts of an open store that every part of it may look at, and that none changes:
 * options, directory, the keys of its hashes, its locks, and where its data files are. A context is
 * constant from the end of kvstore_open to kvstore_close, so that no lock covers it; what `files`,
 * `locks` and `readers` point at changes by rules of its own (datafile.h, lock.h, variants.h).
 * Three options change while the store is open (kvstore_set_sync, kvstore_set_max_value_bytes); the
 * calls below read them.
 */
#ifndef MQKV_KVSTORE_CORE_CONTEXT_H
#define MQKV_KVSTORE_CORE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/core/lock.h"
#include "kvstore/core/variants.h"
#include "kvstore/format/keyhash.h"
#include "mqkv/kvstore.h"

struct arena;
struct datafile;
struct shared_store;
struct commit_replay;

struct store_context {
    struct kvstore_options options; /* defaults filled in */
    char *dir;
    int dir_fd;
    uint64_t seed;
    struct hash_key hash_key;
    uint32_t datafiles;
    bool is_new; /* made by this open: its files are empty */
    struct lockset *locks;
    const struct lockless_reads *lockless; /* of the strategy; NULL: all reads take the lock */
    struct readers *readers;               /* of lockless */
    struct datafile *files;                /* `datafiles` of them */
    struct arena *arena;                   /* of their indexes */
    struct shared_store *shared;           /* its first bytes */
    const struct commit_replay *replay;    /* while they are opened */
};

static inline enum kvstore_durability context_durability(const struct store_context *context)
{
    return __atomic_load_n(&context->options.durability, __ATOMIC_RELAXED);
}

static inline uint32_t context_sync_interval_ms(const struct store_context *context)
{
    return __atomic_load_n(&context->options.sync_interval_ms, __ATOMIC_RELAXED);
}

static inline uint32_t context_max_value_bytes(const struct store_context *context)
{
    return __atomic_load_n(&context->options.max_value_bytes, __ATOMIC_RELAXED);
}

#endif
