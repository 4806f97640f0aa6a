/*
 * direct_store: the shared store of a daemon (kvstore/shared/shared_store.h) as a reader in another
 * process has it: the object, found and checked, its mapping, which grows with it, and the logs
 * that were opened so far. Everything is mapped for reading only.
 *
 * Nothing that lies in the object is believed: the constant part is copied once it was checked;
 * whatever else is loaded is compared with `usable_bytes` before it is used as a place.
 *
 * Threads: any may read, between direct_reader_begin and direct_reader_end. What changes (another
 * mapping, another log) is changed by one thread at a time, which holds `changing`; nobody waits
 * for that in order to read.
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

/* By what it is seen that the server has ended. */
struct direct_server {
    int fd;       /* its pidfd */
    bool is_lane; /* no, a lane: its lock says so where the kernel does not show the process */
};

/* What the server says of its store, and who the server is. */
struct direct_offer {
    uint64_t server_instance; /* another one for each start of the daemon */
    uint64_t device, inode;   /* of the store's directory */
    uint64_t number;          /* in the name of the object */
    uid_t server_uid;
    bool of_any_user;            /* what is offered is to be read whoever the server is */
    struct direct_server server; /* belongs to the offer */
};

/* The object in memory. More may be mapped than is usable, so that it can grow. */
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
    bool map_logs;     /* else they are read with calls */
    uint32_t stale_ms; /* how long to read on once the daemon has ended */
    uint32_t datafiles;
    uint32_t log_slots; /* data file n has slot n % log_slots; fewer than files with calls */
    uint64_t files_offset;
    uint64_t store_seed;
    struct hash_key hash_key;
    uint64_t instance; /* of the object: the daemon that served it then */
    int object_fd, dir_fd;
    struct direct_server server;

    _Atomic uint64_t looked_ms; /* when the daemon was seen alive (CLOCK_MONOTONIC_COARSE) */
    _Atomic uint64_t ended_ms;  /* when it was first seen to have ended; 0: not */
    _Atomic uint64_t no_log_ms; /* when a log could not be opened; 0: not since one could be had */

    pthread_mutex_t changing;
    struct direct_log *_Atomic logs[]; /* log_slots of them; NULL: not opened */
};

/* Opens and checks what is offered; the server's descriptor is the store's then. NULL: *reason
 * says why not. */
struct direct_store *direct_store_open(const struct direct_offer *offer, bool map_logs,
                                       uint32_t stale_ms, struct direct_readers *readers,
                                       enum direct_reason *reason);

/* By who has it alone. NULL is harmless. */
void direct_store_close(struct direct_store *store);

/* direct_store_is_usable, once a clock tick: asks the kernel whether the daemon still runs. */
bool direct_store_look(struct direct_store *store, uint64_t now_ms);

/* Whether nobody has put the object out of use. */
static inline bool direct_store_in_use(const struct shared_store *header)
{
    return __atomic_load_n(&header->condition, __ATOMIC_ACQUIRE) == SHARED_STORE_IN_USE;
}

/* Whether the daemon still serves the object, as far as is known at this tick of the clock. */
static inline bool direct_store_is_usable(struct direct_store *store,
                                          const struct shared_store *header)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    bool looked = atomic_load_explicit(&store->looked_ms, memory_order_relaxed) == now_ms &&
                  __atomic_load_n(&header->instance, __ATOMIC_ACQUIRE) == store->instance;
    return direct_store_in_use(header) && (looked || direct_store_look(store, now_ms));
}

/* Whether the daemon that served the object was seen to have ended. */
static inline bool direct_store_has_ended(const struct direct_store *store)
{
    return atomic_load_explicit(&store->ended_ms, memory_order_relaxed) != 0;
}

/* Whether the object was put out of use by a daemon that still runs. By a thread that is not
 * reading. */
bool direct_store_is_replaced(struct direct_store *store);

/* direct_store_is_usable for a thread that is not reading: nothing is unmapped meanwhile. */
bool direct_store_is_served(struct direct_store *store);

static inline struct direct_view *direct_store_view(const struct direct_store *store)
{
    return atomic_load_explicit(&store->view, memory_order_acquire);
}

/* `size` bytes at the offset; NULL: they are not usable (direct_store_grow). */
static inline const void *direct_view_at(const struct direct_view *view, uint64_t offset,
                                         uint64_t size)
{
    uint64_t usable = atomic_load_explicit(&view->usable_bytes, memory_order_relaxed);
    return offset <= usable && size <= usable - offset ? view->base + offset : NULL;
}

/* The object may have grown beyond what of it is usable. True: now more of it is. */
bool direct_store_grow(struct direct_store *store);

/* The data file's log of that generation, usable up to the tail that the facts tell if that is
 * possible at all. NULL: it cannot be had; another generation may be in use. */
struct direct_log *direct_store_log(struct direct_store *store,
                                    const struct direct_log_facts *facts);

/* The log as it was opened before; NULL: none, or of another generation. */
static inline struct direct_log *direct_store_known_log(const struct direct_store *store,
                                                        uint32_t file, uint64_t generation)
{
    uint32_t slot = file < store->log_slots ? file : file % store->log_slots;
    struct direct_log *log = atomic_load_explicit(&store->logs[slot], memory_order_acquire);
    return log && log->generation == generation && log->file == file ? log : NULL;
}

#endif
