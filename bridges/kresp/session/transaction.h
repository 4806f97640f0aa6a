/*
 * transaction: the commands between MULTI and EXEC, and the keys that WATCH watches.
 *
 * EXEC executes them as one transaction of the store (transaction_run).
 */
#ifndef MQKV_KRESP_SESSION_TRANSACTION_H
#define MQKV_KRESP_SESSION_TRANSACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "mqkv/slice.h"

struct redis_command;

/* A queued command; offset: where its arguments' bytes are in the queue's memory. */
struct queued_command {
    const struct redis_command *command;
    size_t first_argument, arguments;
};

/* A watched key as it was; version 0: it was absent. The key's bytes are behind this struct. */
struct watched_key {
    struct watched_key *next;
    uint64_t version;
    size_t size;
    char key[];
};

enum transaction_state { TRANSACTION_NONE, TRANSACTION_QUEUEING, TRANSACTION_EXECUTING };

/* Start from {0}. */
struct redis_transaction {
    enum transaction_state state;
    bool broken; /* a command could not be queued: EXEC is refused, and nothing is kept */
    struct byte_buffer commands; /* an array of struct queued_command */
    struct byte_buffer spans;    /* offset and size in bytes of each argument */
    struct byte_buffer bytes;
    struct watched_key *watched;
    size_t watched_count;
};

/* Adds a copy of the command. False: no memory for it, or more than max_bytes in all; the caller
 * then breaks the transaction. */
bool redis_transaction_queue(struct redis_transaction *transaction,
                             const struct redis_command *command, const struct kv_slice *arguments,
                             size_t count, size_t max_bytes);

size_t redis_transaction_count(const struct redis_transaction *transaction);
struct queued_command redis_transaction_command(const struct redis_transaction *transaction,
                                                size_t i);

/* Returns argument i of the command; borrowed until the queue changes. */
struct kv_slice redis_transaction_argument(const struct redis_transaction *transaction,
                                           const struct queued_command *command, size_t i);

/* EXEC will be refused: forgets the queue; nothing more is queued. */
void redis_transaction_break(struct redis_transaction *transaction);

/* Forgets the queue; the watched keys stay. */
void redis_transaction_clear(struct redis_transaction *transaction);

/* Watches the key; NULL: no memory. A key that is watched already stays as it was first seen, and
 * is returned. */
struct watched_key *redis_transaction_watch(struct redis_transaction *transaction,
                                            struct kv_slice key, bool *is_new);
void redis_transaction_unwatch(struct redis_transaction *transaction);

void redis_transaction_free(struct redis_transaction *transaction);

#endif
