/*
 * redis_store: the one place where kresp calls libclientk. All operations of a batch travel in one
 * call: nothing above knows how an operation is executed.
 *
 * Threads: any; each gets a session of its own from the library.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_STORE_H
#define MQKV_KRESP_SESSION_REDIS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/clientk.h"

struct redis_store;

/* Keys that begin so are kresp's own: its clients are not shown them, and FLUSHALL lets them be. */
#define REDIS_STORE_OWN_PREFIX "kresp:channels:"

static inline bool redis_store_owns(struct kv_slice key)
{
    return kv_slice_has_prefix(key, kv_slice_from_string(REDIS_STORE_OWN_PREFIX));
}

/* Connects to serverk. queue NULL: as libclientk chooses. timeout_ms: the limit of one call. */
enum kv_status redis_store_open(const char *queue, uint32_t timeout_ms, struct redis_store **store,
                                struct kv_error *error);
void redis_store_close(struct redis_store *store); /* NULL is harmless */

/* Ends the waits of all calls, now and later, as their timeout would. Async-signal-safe. */
void redis_store_interrupt(void);

/* Executes the operations in order. Every result has its status, even if the call fails. */
void redis_store_execute(struct redis_store *store, const struct clientk_operation *operations,
                         size_t count, struct clientk_result *results);

/* Executes a transaction, as clientk_transact does. */
enum kv_status redis_store_transact(struct redis_store *store,
                                    const struct clientk_transaction *transaction,
                                    struct clientk_result *results,
                                    struct clientk_transacted *transacted);

/* Visits the entries of the range in their order, until the visitor returns false; records that are
 * damaged or cannot be read are left out. KV_UNSUPPORTED, KV_BUSY: the server has no order, or none
 * yet, and nothing was visited. */
enum kv_status redis_store_range(struct redis_store *store, const struct clientk_range *range,
                                 clientk_visit visit, void *context);

/* Opens a watch of the keys that begin with the prefix; NULL: *error says why not. */
struct clientk_watch *redis_store_watch(struct redis_store *store, struct kv_slice prefix,
                                        bool keys_only, struct kv_error *error);

/* Returns why the last call of this thread failed, as clientk_last_error. */
const char *redis_store_last_error(void);

/* KV_OK: everything that was written before is on disk. */
enum kv_status redis_store_sync(struct redis_store *store);

struct redis_store_figures {
    uint64_t files, keys, expiring_keys, bytes;
};

/* Asks the server what it counts now. The server counts expired keys until it has swept them; in a
 * store of few keys they are left out here, so that a store is empty after FLUSHALL. */
enum kv_status redis_store_count(struct redis_store *store, struct redis_store_figures *figures);

/* Returns the size of the largest value that the server takes, and if its data are in a cluster, as
 * the last refresh found it (the first is that of redis_store_open): a server that was started
 * again may be another. */
size_t redis_store_max_value_bytes(const struct redis_store *store);
bool redis_store_is_in_cluster(const struct redis_store *store);
void redis_store_refresh(struct redis_store *store);

#endif
