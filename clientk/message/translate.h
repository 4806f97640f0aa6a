/*
 * translate: between the operations and results of clientk.h and those of the wire, and the
 * properties of operations: which write, which give a value, which may be repeated.
 */
#ifndef MQKV_CLIENTK_MESSAGE_TRANSLATE_H
#define MQKV_CLIENTK_MESSAGE_TRANSLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/clientk.h"
#include "clientk/base/large_values.h"
#include "wire/operation.h"

/* KV_OK; or the status that the operation gets without being sent: KV_USAGE (unknown opcode,
 * options that it does not take or that exclude each other), KV_UNSUPPORTED (options of a newer
 * header). The thread's last error then names the member. */
enum kv_status translate_operation(const struct clientk_operation *from, struct wire_operation *to);

/* Puts the options of a write but ADD, or those of an ADD, into the operation, whose opcode says
 * which of them it takes. Returns as translate_operation. */
enum kv_status translate_write(const struct clientk_write_options *options,
                               struct wire_operation *to);
enum kv_status translate_add(const struct clientk_add_options *options, int64_t delta,
                             struct wire_operation *to);

/* KV_OK, or the status that an operation gets without being sent: KV_BAD_KEY, KV_VALUE_TOO_BIG. */
static inline enum kv_status translate_check(const struct wire_operation *operation,
                                             uint64_t max_value_bytes)
{
    bool key_optional = operation->opcode >= WIRE_OP_SCAN;
    if (operation->key.size > WIRE_MAX_KEY_BYTES || (operation->key.size == 0 && !key_optional))
        return KV_BAD_KEY;
    if (operation->value.size > max_value_bytes || operation->value.size > WIRE_MAX_VALUE_BYTES)
        return KV_VALUE_TOO_BIG;
    return KV_OK;
}

/* Of SCAN: the page ends at a record that is damaged or cannot be read. It has the entries before
 * the record; number is the cursor behind it, value.version its offset in the data file. */
bool result_is_cut_short(const struct clientk_result *result);

/* Copies the result; if the operation gives a value, also that, out of the message or the segment.
 * If only the size of the value came, to->value gets the size and no data. A failure has a value
 * only where it is the sentence about it (ADMIN), or a page that is cut short. to->status is
 * KV_IO if the result makes no sense (as one that succeeded without the value), KV_NO_MEMORY if
 * there is no memory. */
void translate_result(const struct wire_result *from, const struct large_values *values,
                      bool gives_value, struct clientk_result *to);

/* Sets of opcodes: bit 1 << opcode. */
enum {
    OPERATIONS_THAT_WRITE = 1 << WIRE_OP_PUT | 1 << WIRE_OP_DELETE | 1 << WIRE_OP_ADD |
                            1 << WIRE_OP_APPEND | 1 << WIRE_OP_EXCHANGE | 1 << WIRE_OP_TOUCH |
                            1 << WIRE_OP_ADMIN,
    OPERATIONS_THAT_GIVE_A_VALUE = 1 << WIRE_OP_GET | 1 << WIRE_OP_EXCHANGE | 1 << WIRE_OP_SCAN |
                                   1 << WIRE_OP_STATS | 1 << WIRE_OP_PING | 1 << WIRE_OP_BACKUP |
                                   1 << WIRE_OP_ADMIN | 1 << WIRE_OP_WATCH
};

static inline bool operation_writes(const struct wire_operation *operation)
{
    return OPERATIONS_THAT_WRITE >> operation->opcode & 1;
}

/* True if its result has a value; then the server may also refuse it with KV_BUFFER_TOO_SMALL, for
 * lack of room for that value. */
static inline bool operation_gives_value(enum wire_opcode opcode)
{
    return OPERATIONS_THAT_GIVE_A_VALUE >> opcode & 1;
}

/* True if that value is an entry's, whose size says something about the next. */
static inline bool operation_reads_entry(enum wire_opcode opcode)
{
    return opcode == WIRE_OP_GET || opcode == WIRE_OP_EXCHANGE;
}

/* True if the operation may be sent again though it may have been executed: it reads; or
 * repeat_writes, and doing it twice is the same as doing it once, but for the version. */
bool operation_repeatable(const struct wire_operation *operation, bool repeat_writes);

/* What a write has come to that was sent again and ended with that status then. That it was refused
 * or failed does not deny the first time: KV_OUTCOME_UNKNOWN; but a delete that finds nothing left
 * is KV_OK. */
enum kv_status operation_status_of_repeat(const struct wire_operation *operation,
                                          enum kv_status status);

/* Makes result->value empty and the rest zero, keeping the value's memory. */
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
