/*
 * translate: operations and results of clientk.h become those of the wire, and the other way round;
 * and the properties of operations: which write, which give a value, which may be repeated.
 *
 * Threads: any.
 */
#ifndef MQKV_CLIENTK_MESSAGE_TRANSLATE_H
#define MQKV_CLIENTK_MESSAGE_TRANSLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/clientk.h"
#include "clientk/base/large_values.h"
#include "wire/operation.h"
#include "wire/transact_value.h"

/* Translates *from to *to. KV_OK; or the status of an operation that cannot be sent: KV_USAGE: an
 * unknown opcode, options that the operation does not take, or that exclude each other;
 * KV_UNSUPPORTED: options of a newer header. The thread's last error then names the member. */
enum kv_status translate_operation(const struct clientk_operation *from, struct wire_operation *to);

/* Put *options into *to, whose opcode says which of them it takes: translate_write those of a write
 * that is no ADD, translate_add those of an ADD, with its `delta`. Return as translate_operation
 * does. */
enum kv_status translate_write(const struct clientk_write_options *options,
                               struct wire_operation *to);
enum kv_status translate_add(const struct clientk_add_options *options, int64_t delta,
                             struct wire_operation *to);

/* Returns the flags of an operation that is to be that durable. */
unsigned translate_durability(enum clientk_durability durability);

/* Returns KV_OK, or the status of an operation that is not sent: KV_BAD_KEY, KV_VALUE_TOO_BIG.
 * max_value_bytes: the server's limit. */
static inline enum kv_status translate_check(const struct wire_operation *operation,
                                             uint64_t max_value_bytes)
{
    bool key_optional = operation->opcode >= WIRE_OP_SCAN;
    uint64_t extra_bytes = wire_extra_value_bytes(operation->opcode);
    if (operation->key.size > WIRE_MAX_KEY_BYTES || (operation->key.size == 0 && !key_optional))
        return KV_BAD_KEY;
    if (operation->value.size > max_value_bytes + extra_bytes ||
        operation->value.size > WIRE_MAX_VALUE_BYTES + extra_bytes)
        return KV_VALUE_TOO_BIG;
    return KV_OK;
}

/* Returns true if `result`, of a SCAN, is a page that ends at a record that is damaged or cannot be
 * read. The page has the entries before that record; number is the cursor behind the record, and
 * value.version its offset in the data file. */
bool result_is_cut_short(const struct clientk_result *result);

/* Copies *from to *to, and, if gives_value (the operation gives a value), the value, out of the
 * message or out of the segment of `values`. If only the size of the value came, to->value gets the
 * size and no data. A failure has a value only if that is the sentence about the failure (ADMIN),
 * or a page that is cut short. to->status is KV_IO if *from makes no sense (as a success without
 * the value), KV_NO_MEMORY if there is no memory. */
void translate_result(const struct wire_result *from, const struct large_values *values,
                      bool gives_value, struct clientk_result *to);

/* Sets of opcodes: bit 1 << opcode. */
enum {
    OPERATIONS_THAT_WRITE = 1 << WIRE_OP_PUT | 1 << WIRE_OP_DELETE | 1 << WIRE_OP_ADD |
                            1 << WIRE_OP_APPEND | 1 << WIRE_OP_EXCHANGE | 1 << WIRE_OP_TOUCH |
                            1 << WIRE_OP_ADMIN | 1 << WIRE_OP_TRANSACT | 1 << WIRE_OP_RANGE_DELETE,
    OPERATIONS_THAT_GIVE_A_VALUE = 1 << WIRE_OP_GET | 1 << WIRE_OP_EXCHANGE | 1 << WIRE_OP_SCAN |
                                   1 << WIRE_OP_STATS | 1 << WIRE_OP_PING | 1 << WIRE_OP_BACKUP |
                                   1 << WIRE_OP_ADMIN | 1 << WIRE_OP_WATCH | 1 << WIRE_OP_TRANSACT |
                                   1 << WIRE_OP_RANGE | 1 << WIRE_OP_RANGE_COUNT |
                                   1 << WIRE_OP_RANGE_DELETE
};

static inline bool operation_writes(const struct wire_operation *operation)
{
    return (OPERATIONS_THAT_WRITE >> operation->opcode & 1) &&
           (operation->opcode != WIRE_OP_TRANSACT || wire_transaction_writes(operation->value));
}

/* Returns true if the result of the operation has a value. Then the server may refuse the operation
 * with KV_BUFFER_TOO_SMALL, for lack of room for that value. */
static inline bool operation_gives_value(enum wire_opcode opcode)
{
    return OPERATIONS_THAT_GIVE_A_VALUE >> opcode & 1;
}

/* Returns true if the result carries an entry's value, so that its size predicts the next one. */
static inline bool operation_reads_entry(enum wire_opcode opcode)
{
    return opcode == WIRE_OP_GET || opcode == WIRE_OP_EXCHANGE;
}

/* Returns true if the operation may be sent again although it may have been executed: it only
 * reads; or repeat_writes is set, and executing it twice has the effect of once, except for the
 * version. */
bool operation_repeatable(const struct wire_operation *operation, bool repeat_writes);

/* Returns the outcome of a write that was sent again and then ended with `status`. A refusal or
 * failure says nothing of the first time: KV_OUTCOME_UNKNOWN; but a delete that finds nothing left
 * is KV_OK. */
enum kv_status operation_status_of_repeat(const struct wire_operation *operation,
                                          enum kv_status status);

/* Sets result->status to `status`, clears the rest, and keeps the memory of the value. */
static inline void result_clear(struct clientk_result *result, enum kv_status status)
{
    result->status = status;
    result->found = false;
    result->number = 0;
    result->value.size = 0;
    result->value.version = 0;
    result->value.expiry_ms = 0;
}

#endif
