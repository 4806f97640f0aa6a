/* What the lab registers with the engine. */
#include "kvstore/core/variants.h"

#include "lab/locking/optimistic.h"
#include "lab/locking/readers.h"
#include "mqkv/allocator.h"

static int init_reader_first(struct lock *lock)
{
    return lock_init_rwlock(lock, PTHREAD_RWLOCK_PREFER_READER_NP);
}

static const struct lockless_reads optimistic_reads = {.create = readers_create,
                                                       .free = readers_free,
                                                       .enter = readers_enter,
                                                       .leave = readers_leave,
                                                       .find = optimistic_find,
                                                       .wait = readers_wait,
                                                       .memory_bytes = readers_memory_bytes};

static const struct locking_strategy file_mutex = {"file-mutex", &lock_kind_mutex, true, NULL},
                                     global_rwlock = {"global-rwlock", &lock_kind_rwlock, false,
                                                      NULL},
                                     global_mutex = {"global-mutex", &lock_kind_mutex, false, NULL},
                                     optimistic = {"optimistic", &lock_kind_rwlock, true,
                                                   &optimistic_reads};

const struct store_variants store_variants = {
    .strategies = {[KVSTORE_FILE_MUTEX] = &file_mutex,
                   [KVSTORE_GLOBAL_RWLOCK] = &global_rwlock,
                   [KVSTORE_GLOBAL_MUTEX] = &global_mutex,
                   [KVSTORE_OPTIMISTIC] = &optimistic},
    .preferences = {[KVSTORE_PREFER_READER] = {"prefer-reader", init_reader_first}},
    .allocators = {[KVSTORE_ALLOCATOR_LOCKED] = &kv_allocator_locked,
                   [KVSTORE_ALLOCATOR_THREAD_LOCAL] = &kv_allocator_thread_local},
};
