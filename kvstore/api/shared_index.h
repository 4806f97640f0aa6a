/*
 * shared_index: the memory of a store's indexes, and where others are let in (enum kvstore_direct),
 * the shared-memory object that it is in: its name, its header, its life.
 *
 * The object is made when the store is opened, serves once all files are recovered, and is retired
 * and removed when the store is closed. Where its name is removed meanwhile, it can be made anew. A
 * process that is killed leaves it. Whoever opens the store for writing next takes it over, or
 * retires and removes it: the store's lock sees to it that there is one at a time.
 */
#ifndef MQKV_KVSTORE_API_SHARED_INDEX_H
#define MQKV_KVSTORE_API_SHARED_INDEX_H

#include "kvstore/core/context.h"
#include "kvstore/shared/shared_store.h"
#include "mqkv/error.h"

struct shared_index {
    enum kvstore_direct mode;      /* OFF: there is no object */
    struct shared_store_name name; /* of the object; "": there can be none */
    uint64_t device, inode;        /* of the directory */
    uint64_t number;               /* in the name (shared_store_numbered_name) */
    bool is_left;                  /* the object is that of a process that was killed */
    bool was_in_the_way;           /* something, when it was to be made anew last */
};

/* Makes context->arena, with its header, or finds one that was left, and tells the files their
 * places in it. KV_NO_MEMORY; that there can be no object is no error. The store's lock is held,
 * its files are not open yet. */
enum kv_status shared_index_begin(struct shared_index *direct, struct store_context *context,
                                  struct kv_error *error);

/* Takes over what a process that was killed has left of the files, which are open. */
enum kv_status shared_index_take_over(struct shared_index *direct, struct store_context *context,
                                      struct kv_error *error);

/* All files are there: others may read. */
void shared_index_serve(const struct shared_index *direct, const struct store_context *context);

/* Makes the object anew, under its name, if that was removed; who reads in the old one looks for it
 * then. Writes wait while the index is copied. What is in the way is in the log, once: no room, the
 * name taken, a file whose lock is not to be had. By the compactor's thread, between two steps. */
void shared_index_renew(struct shared_index *direct, const struct store_context *context);

/* Readers let the object go. Before an index in it is freed: what is punched reads as zeros. */
void shared_index_retire(const struct shared_index *direct, const struct store_context *context);

/* Removes the object, which is retired, and frees the arena. The indexes are freed. */
void shared_index_end(struct shared_index *direct, struct store_context *context);

#endif
