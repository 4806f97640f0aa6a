/*
 * direct_store: the shared store of a daemon (kvstore/shared/shared_store.h) as a reader in another
 * process has it: the object, which was found and checked, its mapping, which grows with it, and
 * the logs that were opened so far. Everything is mapped for reading only.
 *
 * A reader believes nothing that lies in the object: it copies the constant part and checks it;
 * each other word that it loads it compares with usable_bytes before it uses the word as a place.
 *
 * Threads: any may read, between direct_reader_begin and direct_reader_end. Mappings and logs are
 * replaced by one thread at a time, which holds `changing`; readers do not wait for that.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_STORE_H
#define MQKV_CLIENTK_DIRECT_DIRECT_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "clientk/direct/direct_log.h"
#include "clientk/direct/direct_readers.h"
#include "clientk/direct/direct_reason.h"
#include "common/memory/mapguard.h"
#include "common/time/clock.h"
#include "kvstore/shared/shared_store.h"

/* A descriptor that shows whether the server has ended. */
struct direct_server {
    int fd;       /* a pidfd, or, where the kernel does not show the process, a lane, by its lock */
    bool is_lane; /* fd is a lane */
};

/* What the server says of its store, and who the server is. */
struct direct_offer {
    uint64_t server_instance; /* a new one at each start of the daemon */
    uint64_t device, inode;   /* of the store's directory */
    uint64_t number;          /* in the name of the object */
    uid_t server_uid;
    bool of_any_user;            /* the store is to be read whoever the server's user is */
    struct direct_server server; /* the offer owns the descriptor */
};

/* The object, mapped. The mapping may be larger than usable_bytes, so that the object can grow. */
struct direct_view {
    struct direct_retired retired; /* first */
    const uint8_t *base;
    uint64_t map_bytes;
    _Atomic uint64_t usable_bytes;
    struct mapguard *guard;
};

struct direct_store {
    struct direct_retired retired; /* first */
    struct direct_readers *readers;
    struct direct_view *_Atomic view;

    /* Constant. */
    bool map_logs;     /* false: logs are read with calls */
    uint32_t stale_ms; /* how long to read on once the daemon has ended */
    uint32_t datafiles;
    uint32_t log_slots; /* data file n has slot n % log_slots; with calls, files may share a slot */
    uint64_t files_offset;
    uint64_t store_seed;
    struct hash_key hash_key;
    uint64_t instance; /* of the daemon that served the object when it was opened */
    int object_fd, dir_fd;
    struct direct_server server;

    _Atomic uint64_t looked_ms; /* when the daemon was seen alive (CLOCK_MONOTONIC_COARSE) */
    _Atomic uint64_t ended_ms;  /* when it was first seen to have ended; 0: it was not */
    _Atomic uint64_t no_log_ms; /* when a log could not be opened; 0: the last one could */

    pthread_mutex_t changing;
    struct direct_log *_Atomic logs[]; /* log_slots of them; NULL: not opened */
};

/* Opens and checks the store of *offer, whose descriptor of the server it then owns. map_logs,
 * stale_ms: as in struct direct_store; readers: where replaced mappings are retired. NULL: *reason
 * says why not. */
struct direct_store *direct_store_open(const struct direct_offer *offer, bool map_logs,
                                       uint32_t stale_ms, struct direct_readers *readers,
                                       enum direct_reason *reason);

/* Closes and frees the store, which no other thread uses. NULL is harmless. */
void direct_store_close(struct direct_store *store);

/* Asks the kernel whether the daemon still runs, for direct_store_is_usable, once a clock tick.
 * now_ms: the tick. True: it runs, or has ended less than stale_ms ago. */
bool direct_store_look(struct direct_store *store, uint64_t now_ms);

/* Returns true if no daemon has put the object out of use. */
static inline bool direct_store_in_use(const struct shared_store *header)
{
    return __atomic_load_n(&header->condition, __ATOMIC_ACQUIRE) == SHARED_STORE_IN_USE;
}

/* Returns true if reads of the object count: no daemon has put it out of use, and its daemon runs,
 * or has ended less than stale_ms ago, as far as is known at this tick of the clock. */
static inline bool direct_store_is_usable(struct direct_store *store,
                                          const struct shared_store *header)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    bool looked = atomic_load_explicit(&store->looked_ms, memory_order_relaxed) == now_ms &&
                  __atomic_load_n(&header->instance, __ATOMIC_ACQUIRE) == store->instance;
    return direct_store_in_use(header) && (looked || direct_store_look(store, now_ms));
}

/* Returns true if the daemon that served the object was seen to have ended. */
static inline bool direct_store_has_ended(const struct direct_store *store)
{
    return atomic_load_explicit(&store->ended_ms, memory_order_relaxed) != 0;
}

/* Returns true if a daemon that still runs has put the object out of use. For a thread that is not
 * reading. */
bool direct_store_is_replaced(struct direct_store *store);

/* Like direct_store_is_usable, for a thread that is not reading: no mapping goes away meanwhile. */
bool direct_store_is_served(struct direct_store *store);

/* Sequentially consistent, here and for a log: C11 lets an acquire load pass the store of the
 * reader's era (direct_reader_begin). */
static inline struct direct_view *direct_store_view(const struct direct_store *store)
{
    return atomic_load(&store->view);
}

/* Returns the `size` bytes at `offset` of the object; NULL: they are not usable
 * (direct_store_grow). */
static inline const void *direct_view_at(const struct direct_view *view, uint64_t offset,
                                         uint64_t size)
{
    uint64_t usable = atomic_load_explicit(&view->usable_bytes, memory_order_relaxed);
    return offset <= usable && size <= usable - offset ? view->base + offset : NULL;
}

/* Makes more of the object usable, which may have grown. True: more of it is usable now. */
bool direct_store_grow(struct direct_store *store);

/* Returns the log that *facts describe, usable up to facts->tail if that is possible. NULL: the log
 * cannot be had; another generation may be in use. */
struct direct_log *direct_store_log(struct direct_store *store,
                                    const struct direct_log_facts *facts);

/* Returns true if each data file has a log slot of its own. Else who looks at many files by turns
 * would open each log again and again. */
static inline bool direct_store_keeps_logs(const struct direct_store *store)
{
    return store->log_slots >= store->datafiles;
}

/* Returns the log of that data file and generation if it is open; NULL: it is not. */
static inline struct direct_log *direct_store_known_log(const struct direct_store *store,
                                                        uint32_t file, uint64_t generation)
{
    uint32_t slot = file < store->log_slots ? file : file % store->log_slots;
    struct direct_log *log = atomic_load(&store->logs[slot]);
    return log && log->generation == generation && log->file == file ? log : NULL;
}

#endif
