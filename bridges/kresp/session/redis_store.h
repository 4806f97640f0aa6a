/*
 * redis_store: the one place where kresp calls libclientk. All operations of a turn travel in one
 * call, so this is where reads that need no message, and transactions, are to be put once the
 * library offers them: nothing above knows how an operation is executed.
 *
 * Threads: any; each gets a session of its own from the library.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_STORE_H
#define MQKV_KRESP_SESSION_REDIS_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "mqkv/clientk.h"

struct redis_store;

/* Connects to serverk. queue NULL: as libclientk chooses. timeout_ms: of one call. */
enum kv_status redis_store_open(const char *queue, uint32_t timeout_ms, struct redis_store **store,
                                struct kv_error *error);
void redis_store_close(struct redis_store *store); /* NULL is harmless */

/* Ends the waits of all calls, now and later, as their timeout would. Async-signal-safe. */
void redis_store_interrupt(void);

/* Executes the operations in order. Every result has its status, whatever became of the call. */
void redis_store_execute(struct redis_store *store, const struct clientk_operation *operations,
                         size_t count, struct clientk_result *results);

/* Everything written before is on disk when it returns KV_OK. */
enum kv_status redis_store_sync(struct redis_store *store);

struct redis_store_figures {
    uint64_t files, keys, expiring_keys, bytes;
};

/* What the server counts now. It counts keys that have expired until it has swept them; in a store
 * of few keys they are left out here, so that nothing is there after FLUSHALL. */
enum kv_status redis_store_count(struct redis_store *store, struct redis_store_figures *figures);

/* The largest value that the server takes, as the last refresh found it (the first is that of
 * open): a server that was started again may have another. */
size_t redis_store_max_value_bytes(const struct redis_store *store);
void redis_store_refresh(struct redis_store *store);

#endif
