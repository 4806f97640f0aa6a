/*
 * transaction: the commands between MULTI and EXEC, and the keys that WATCH looks after.
 *
 * EXEC gives the queued commands to the turn one by one, as if they came from the client, so that
 * they travel in one message where none of them needs the result of another. That is not isolated
 * from other clients of the store. Once the store has transactions, EXEC hands the queue over as a
 * whole instead: everything it needs (commands, keys, versions) is here.
 */
#ifndef MQKV_KRESP_SESSION_TRANSACTION_H
#define MQKV_KRESP_SESSION_TRANSACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "mqkv/slice.h"

struct redis_command;

/* What a queued command is made of; offset: of its arguments' bytes in the queue's memory. */
struct queued_command {
    const struct redis_command *command;
    size_t first_argument, arguments;
};

/* A key that is watched, as it was; version 0: absent. key: behind this struct. */
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
    struct byte_buffer commands; /* of struct queued_command */
    struct byte_buffer spans;    /* offset and size in bytes of each argument */
    struct byte_buffer bytes;
    size_t next; /* EXECUTING: of commands */
    struct watched_key *watched;
    size_t watched_count;
    bool conditional; /* EXECUTING: the first write depends on the watched key being as it was */
    uint64_t condition_version; /* conditional: of that key, 0: absent */
    size_t reply_mark;          /* conditional: bytes of the reply before that of EXEC */
};

/* Adds a copy. False: no memory for it, or more than max_bytes in all; then it is to be broken. */
bool redis_transaction_queue(struct redis_transaction *transaction,
                             const struct redis_command *command, const struct kv_slice *arguments,
                             size_t count, size_t max_bytes);

size_t redis_transaction_count(const struct redis_transaction *transaction);
struct queued_command redis_transaction_command(const struct redis_transaction *transaction,
                                                size_t i);

/* Argument i of the command; borrowed until the queue changes. */
struct kv_slice redis_transaction_argument(const struct redis_transaction *transaction,
                                           const struct queued_command *command, size_t i);

/* EXEC will be refused: what was queued is forgotten, and nothing more is to be queued. */
void redis_transaction_break(struct redis_transaction *transaction);

/* Forgets the queue; the watched keys stay. */
void redis_transaction_clear(struct redis_transaction *transaction);

/* Watches a key; NULL: no memory. One that is watched already stays as it was, and is returned. */
struct watched_key *redis_transaction_watch(struct redis_transaction *transaction,
                                            struct kv_slice key, bool *is_new);
void redis_transaction_unwatch(struct redis_transaction *transaction);

void redis_transaction_free(struct redis_transaction *transaction);

#endif
