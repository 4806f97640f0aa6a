/*
 * transaction_view: the keys of a transaction while its commands are executed, before the store
 * hears of it: as they were read, and as the commands so far have left them. It executes the
 * operations of commands as the store would.
 *
 * A command may need a key that was not read: then the view says so (is_missing), and takes it as
 * absent for the rest of the round; the caller reads what is needed and begins anew. A key that is
 * only written is never read.
 *
 * Threads: one.
 */
#ifndef MQKV_KRESP_SESSION_TRANSACTION_VIEW_H
#define MQKV_KRESP_SESSION_TRANSACTION_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "mqkv/clientk.h"

#define MAX_STORED_KEY_BYTES 65535u

/* What is known, or needed, of a key as it was. */
enum viewed_part {
    VIEWED_NOTHING,
    VIEWED_SIZE, /* whether it is there, its version, expiry and size */
    VIEWED_VALUE /* its value, too */
};

struct viewed_key {
    struct kv_slice key; /* a copy */
    enum viewed_part known, needed;
    struct clientk_result before; /* as it was read; its value's memory is the view's */
    /* As the commands have left it: */
    bool is_looked_at; /* what they did depends on how it was */
    bool is_there;
    bool is_written; /* put or deleted: nothing of `before` counts any more */
    bool is_touched; /* only its expiry was changed */
    uint64_t version, expiry_ms;
    struct kv_slice value; /* in `before`, or in bytes[in_use] */
    struct byte_buffer bytes[2];
    unsigned in_use;
};

/* Start by transaction_view_init. Callers read the fields, and fill in `known` and `before`. */
struct transaction_view {
    struct viewed_key *keys;
    size_t count;
    uint64_t last_version;
    uint64_t work_bytes; /* about how many bytes the operations have dealt with, in all rounds */
    size_t max_value_bytes;
    struct buffer_owner *owner;
    bool is_missing; /* a key is needed that was not read */
    bool is_full;    /* there are more keys than a transaction has */
    bool failed;     /* no memory */
};

/* Starts a view without keys. owner: to whom the memory of values is counted. */
void transaction_view_init(struct transaction_view *view, struct buffer_owner *owner,
                           size_t max_value_bytes);
void transaction_view_free(struct transaction_view *view);

/* Begins anew: every key is as it was read. */
void transaction_view_restart(struct transaction_view *view);

/* Looks at what the operations will need before they are executed: is_missing says that some of it
 * was not read. */
void transaction_view_require(struct transaction_view *view,
                              const struct clientk_operation *operations, size_t count);

/* The key is needed as well, in advance: nothing if it was read or written already, or if there is
 * no room for it. */
void transaction_view_expect(struct transaction_view *view, struct kv_slice key);

/* `before` of a key was read while commands are executed; was: what was known of it until then. */
void transaction_view_take_read(struct viewed_key *key, enum viewed_part was);

/* Executes the operations of one command in order. Values in the results are borrowed from the view
 * until the next call. */
void transaction_view_execute(struct transaction_view *view,
                              const struct clientk_operation *operations, size_t count,
                              struct clientk_result *results);

/* Returns the key, or NULL: no command has named it. */
struct viewed_key *transaction_view_find(const struct transaction_view *view, struct kv_slice key);

#endif
