/*
 * copy_page: changes on their way to the cluster: of each key the last. They are written together,
 * each on condition that nothing else was written to its key meanwhile, so that a late message of
 * an earlier daemon changes nothing; what is not taken is written again. The keys of transactions
 * that lie in one shard are written as one transaction: a page has whole transactions only, so that
 * what it makes of a shard is as if each of them had been done, or none.
 *
 * Threads: one, beside those of the engine.
 */
#ifndef MQKV_MIRROR_COPY_PAGE_H
#define MQKV_MIRROR_COPY_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/store_engine.h"

#define COPY_PAGE_ITEMS 256u
#define COPY_PAGE_MOST_BYTES \
    (4u << 20) /* a page may exceed this by one value, or one transaction */

/* The keys of transactions in a page. */
#define COPY_PAGE_TOGETHER KVSTORE_MAX_TRANSACTION_STEPS

struct copy_page;

struct copy_counts {
    uint64_t written; /* puts and deletes that the cluster has taken */
    uint64_t refused; /* puts and deletes that the cluster will never take */
    uint64_t repeats; /* pages that were not taken at once */
};

/* Returns the shard of the engine in which the key lies. */
typedef uint32_t copy_page_shard(const struct store_engine *engine, struct kv_slice key);

/* Makes a page. stop: set when the mirror must end. NULL: out of memory. */
struct copy_page *copy_page_create(const atomic_bool *stop, copy_page_shard *shard_of);
void copy_page_free(struct copy_page *page);

/* Adds a put or, value NULL, a delete; copies both slices. False: there is no room, or no memory.
 * An empty page has room. together: it is a change of a transaction, for which copy_page_takes has
 * found room. */
bool copy_page_add(struct copy_page *page, struct kv_slice key, const struct kv_slice *value,
                   uint64_t expiry_ms, bool together);

/* Returns true if there is room for a transaction of so many changes. An empty page has room for
 * COPY_PAGE_TOGETHER. */
bool copy_page_takes(const struct copy_page *page, uint32_t changes);

/* Until it is empty again, the page, which is empty, takes changes of as many keys as it has room
 * for, whatever their bytes: those that it had before, perhaps in another order. */
void copy_page_take_again(struct copy_page *page);

/* Returns true if the page has changes of transactions. */
bool copy_page_has_transactions(const struct copy_page *page);

/* Forgets all that was added. */
void copy_page_clear(struct copy_page *page);

/* Writes all changes and empties the page. KV_BUSY: the mirror must end, and something was not
 * written. Nothing else fails: what the cluster does not take is tried again, and logged once. */
enum kv_status copy_page_send(struct copy_page *page, struct store_engine *engine);

bool copy_page_is_empty(const struct copy_page *page);

/* Returns the counts. Any thread. */
struct copy_counts copy_page_counts(const struct copy_page *page);

/* Returns true if the cluster did not take the last try. Any thread. */
bool copy_page_is_stuck(const struct copy_page *page);

#endif
