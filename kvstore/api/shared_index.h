/*
 * shared_index: the memory of a store's indexes and, where other processes may read it (enum
 * kvstore_direct), its shared-memory object: the name, the header and the life of that object.
 *
 * The object is made when the store is opened, serves once all files are recovered, and is retired
 * and removed when the store is closed. If its name is removed meanwhile, it can be made anew. A
 * process that is killed leaves its object; the next process that opens the store for writing takes
 * the object over, or retires and removes it. The store's lock ensures that there is one such
 * process at a time.
 */
#ifndef MQKV_KVSTORE_API_SHARED_INDEX_H
#define MQKV_KVSTORE_API_SHARED_INDEX_H

#include "kvstore/core/context.h"
#include "kvstore/shared/shared_store.h"
#include "mqkv/error.h"

struct shared_index {
    enum kvstore_direct mode;      /* OFF: there is no object */
    struct shared_store_name name; /* of the object; "": there can be no object */
    uint64_t device, inode;        /* of the directory */
    uint64_t number;               /* in the name (shared_store_numbered_name) */
    bool is_left;                  /* a process that was killed has left the object */
    bool was_in_the_way;           /* the last try to make the object anew failed */
};

/* Makes context->arena, with its header, or finds one that was left, and gives the files their
 * words in it. KV_NO_MEMORY, with a sentence in `error`; that there can be no object is no error.
 * The store's lock is held, its files are not open yet. */
enum kv_status shared_index_begin(struct shared_index *direct, struct store_context *context,
                                  struct kv_error *error);

/* Takes over the indexes that a process that was killed has left of the files, which are open.
 * Fails with a sentence in `error`. */
enum kv_status shared_index_take_over(struct shared_index *direct, struct store_context *context,
                                      struct kv_error *error);

/* Lets other processes read, when all files are recovered. */
void shared_index_serve(const struct shared_index *direct, const struct store_context *context);

/* Makes the object anew, under its name, if the name was removed; readers of the old object look
 * for the new one then. Writes wait while the index is copied. The reason of a failure is logged
 * once: no room, the name is taken, a file's lock cannot be had. Called by the compactor's thread,
 * between two steps. */
void shared_index_renew(struct shared_index *direct, const struct store_context *context);

/* Makes readers let the object go, before an index in it is freed: freed memory reads as zeros. */
void shared_index_retire(const struct shared_index *direct, const struct store_context *context);

/* Removes the object, which is retired, and frees the arena. The indexes are freed already. */
void shared_index_end(struct shared_index *direct, struct store_context *context);

#endif
