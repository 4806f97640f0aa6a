/*
 * transact_value: the codec of what TRANSACT carries (docs/PROTOCOL.md, 7.16): as value of the
 * operation guards and two lists of steps, as value of its result what became of them. Steps are
 * operations, and their results results, as operation.h has them. As there, no function allocates,
 * and every byte string decodes to a value or to a named error.
 *
 *   value     u16 guards, u16 steps of `then`, u16 steps of `otherwise`, u16 0; the guards; the
 *             operations of `then`, then those of `otherwise`
 *   guard     u8 kind, u8 0, u16 key_bytes, u32 value_bytes, [u64 version], key, value
 *   outcome   u8 list, u8 about, u16 at, u16 guard, u16 results; the results
 */
#ifndef MQKV_WIRE_TRANSACT_VALUE_H
#define MQKV_WIRE_TRANSACT_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/memory/cursor.h"
#include "mqkv/slice.h"
#include "mqkv/status.h"
#include "wire/operation.h"

/* Guards and steps of both lists together. */
#define WIRE_MAX_TRANSACTION_STEPS 128u

#define WIRE_TRANSACTION_FIXED_BYTES 8u
#define WIRE_GUARD_FIXED_BYTES       8u
#define WIRE_OUTCOME_FIXED_BYTES     8u

struct wire_transaction {
    uint16_t guards, then, otherwise; /* how many follow */
};

/* Writes *transaction at *cursor. False: it does not fit; then nothing is written, and the cursor
 * has not failed. */
bool wire_put_transaction(struct write_cursor *cursor, const struct wire_transaction *transaction);

/* Reads *transaction from *cursor. KV_OK; KV_UNSUPPORTED: a reserved byte that is not 0;
 * KV_BAD_REQUEST: too few bytes, or more guards and steps than a transaction may have. */
enum kv_status wire_get_transaction(struct read_cursor *cursor,
                                    struct wire_transaction *transaction);

enum wire_guard_kind {
    WIRE_GUARD_VERSION = 1, /* version follows; 0: the key is absent */
    WIRE_GUARD_PRESENT = 2,
    WIRE_GUARD_ABSENT = 3,
    WIRE_GUARD_VALUE = 4 /* the entry has the value that follows */
};

/* One guard, decoded. Key and value borrow from the message. */
struct wire_guard {
    enum wire_guard_kind kind;
    struct kv_slice key;
    struct kv_slice value;
    uint64_t version;
};

/* Returns the number of bytes that *guard takes. */
size_t wire_guard_size(const struct wire_guard *guard);

/* Writes *guard at *cursor. False: it does not fit, or its key or value exceeds the limits of the
 * protocol; then nothing is written, and the cursor has not failed. */
bool wire_put_guard(struct write_cursor *cursor, const struct wire_guard *guard);

/* Reads *guard from *cursor. KV_OK; KV_UNSUPPORTED: an unknown kind, a reserved byte that is not 0;
 * KV_BAD_REQUEST: too few bytes, an empty key, a value where none belongs or beyond the limits. */
enum kv_status wire_get_guard(struct read_cursor *cursor, struct wire_guard *guard);

/* Reads the operation of a step from *cursor: GET, EXISTS, PUT, DELETE, ADD, APPEND or TOUCH,
 * without condition, durability, given version, or value in the segment. As wire_get_operation;
 * KV_UNSUPPORTED also: another opcode, or one of those flags. */
enum kv_status wire_get_step(struct read_cursor *cursor, struct wire_operation *operation);

/* Returns true if a step of that opcode changes its key. */
static inline bool wire_step_writes(enum wire_opcode opcode)
{
    return opcode != WIRE_OP_GET && opcode != WIRE_OP_EXISTS;
}

/* Returns true unless each step of a TRANSACT's value, as far as that can be read, only reads. */
bool wire_transaction_writes(struct kv_slice value);

/* The keys of a TRANSACT's value, guards first, as far as it can be read. */
struct wire_transaction_keys {
    struct read_cursor cursor;
    unsigned guards, steps; /* that are left */
};

struct wire_transaction_keys wire_keys_of_transaction(struct kv_slice value);

/* Takes the next one. False: there is no other. */
bool wire_next_transaction_key(struct wire_transaction_keys *keys, struct kv_slice *key);

enum wire_about { WIRE_ABOUT_NOTHING, WIRE_ABOUT_GUARD, WIRE_ABOUT_STEP };

struct wire_outcome {
    bool otherwise;        /* a guard did not hold: it is about the list `otherwise` */
    enum wire_about about; /* of a failure: where it is, if that is known */
    uint16_t at;           /* of the guard or step; 0 if about is NOTHING */
    uint16_t guard;        /* the first that did not hold, if otherwise; else 0 */
    uint16_t results; /* how many follow: of all steps of the list; of a failure, of the step */
};

/* As wire_put_transaction. */
bool wire_put_outcome(struct write_cursor *cursor, const struct wire_outcome *outcome);

/* Reads *outcome from *cursor. KV_OK; KV_UNSUPPORTED: an unknown number; KV_BAD_REQUEST: too few
 * bytes, or more results than a transaction may have. */
enum kv_status wire_get_outcome(struct read_cursor *cursor, struct wire_outcome *outcome);

#endif
