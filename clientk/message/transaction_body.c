#include "clientk/message/transaction_body.h"

#include <stdlib.h>
#include <string.h>

#include "clientk/base/last_error.h"
#include "clientk/message/translate.h"
#include "common/assert/assert.h"
#include "common/memory/reserved.h"
#include "common/report/error.h"
#include "common/text/escape.h"

_Static_assert(CLIENTK_MAX_TRANSACTION_STEPS == WIRE_MAX_TRANSACTION_STEPS &&
                   (int)CLIENTK_GUARD_VERSION == WIRE_GUARD_VERSION &&
                   (int)CLIENTK_GUARD_PRESENT == WIRE_GUARD_PRESENT &&
                   (int)CLIENTK_GUARD_ABSENT == WIRE_GUARD_ABSENT &&
                   (int)CLIENTK_GUARD_VALUE == WIRE_GUARD_VALUE,
               "guards of clientk.h are those of the wire");

/* Flags that a step takes. */
#define STEP_OPTIONS \
    (WIRE_HAS_EXPIRY | WIRE_KEEP_EXPIRY | WIRE_HAS_BOUNDS | WIRE_CREATE | WIRE_CANONICAL)

/* Where ------------------------------------------------------------------------------------- */

/* The bytes of a key that a sentence shows. */
#define SHOWN_KEY_BYTES 40u

static const char *part_name(enum clientk_part part)
{
    return part == CLIENTK_PART_GUARD ? "guard" : part == CLIENTK_PART_THEN ? "then" : "otherwise";
}

static struct kv_slice key_of_part(const struct clientk_transaction *transaction,
                                   enum clientk_part part, size_t at)
{
    return part == CLIENTK_PART_GUARD  ? transaction->guards[at].key
           : part == CLIENTK_PART_THEN ? transaction->then[at].key
                                       : transaction->otherwise[at].key;
}

static size_t count_of_part(const struct clientk_transaction *transaction, enum clientk_part part)
{
    switch (part) {
    case CLIENTK_PART_GUARD:
        return transaction->guard_count;
    case CLIENTK_PART_THEN:
        return transaction->then_count;
    case CLIENTK_PART_ELSE:
        return transaction->otherwise_count;
    case CLIENTK_PART_NONE:
        break;
    }
    return 0;
}

/* Says where the transaction failed, and puts that before the sentence why (NULL: the status
 * says). Returns status. */
static enum kv_status refuse_part(const struct clientk_transaction *transaction,
                                  struct clientk_transacted *transacted, enum clientk_part part,
                                  size_t at, enum kv_status status, const char *why)
{
    char key[ESCAPE_MAX_BYTES(SHOWN_KEY_BYTES)], sentence[KV_ERROR_TEXT_BYTES];
    struct kv_slice shown = key_of_part(transaction, part, at);
    if (shown.size > SHOWN_KEY_BYTES)
        shown.size = SHOWN_KEY_BYTES;
    *escape_to(key, shown) = '\0';
    if (!why)
        why = kv_status_text(status);
    size_t length = strnlen(why, sizeof sentence - 1);
    memcpy(sentence, why, length); /* it may be the text that is written over */
    sentence[length] = '\0';
    transacted->part = part;
    transacted->at = at;
    return kv_error_set(last_error_of_thread(), status, "%s %zu, \"%s\": %s", part_name(part),
                        at + 1, key, sentence);
}

/* Writing ----------------------------------------------------------------------------------- */

struct body_writer {
    const struct clientk_transaction *transaction;
    struct clientk_transacted *transacted;
    struct write_cursor cursor;
    size_t size; /* of all */
    bool writes; /* else the size is counted */
};

static enum kv_status write_guard(struct body_writer *writer, size_t at)
{
    const struct clientk_guard *guard = &writer->transaction->guards[at];
    struct wire_guard to = {
        .kind = (enum wire_guard_kind)guard->kind, .key = guard->key, .version = guard->version};
    if (guard->kind == CLIENTK_GUARD_VALUE)
        to.value = guard->value;
    const char *why = NULL;
    enum kv_status status = KV_OK;
    if (!RESERVED_IS_CLEAR(guard->reserved)) {
        status = KV_UNSUPPORTED;
        why = "reserved: " RESERVED_ADVICE;
    } else if (guard->kind < CLIENTK_GUARD_VERSION || guard->kind > CLIENTK_GUARD_VALUE) {
        status = KV_USAGE;
        why = "kind is none of enum clientk_guard_kind";
    } else if (guard->kind != CLIENTK_GUARD_VERSION && guard->version != 0) {
        status = KV_USAGE;
        why = "a version is given, but the guard is by another kind";
    } else if (guard->kind != CLIENTK_GUARD_VALUE && guard->value.size > 0) {
        status = KV_USAGE;
        why = "a value is given, but the guard is by another kind";
    } else if (guard->key.size == 0 || guard->key.size > WIRE_MAX_KEY_BYTES) {
        status = KV_BAD_KEY;
    } else if (to.value.size > WIRE_MAX_VALUE_BYTES) {
        status = KV_VALUE_TOO_BIG;
    }
    if (status != KV_OK)
        return refuse_part(writer->transaction, writer->transacted, CLIENTK_PART_GUARD, at, status,
                           why);
    if (writer->writes)
        wire_put_guard(&writer->cursor, &to);
    writer->size += wire_guard_size(&to);
    return KV_OK;
}

static bool is_step_opcode(enum clientk_opcode opcode)
{
    switch (opcode) {
    case CLIENTK_GET:
    case CLIENTK_EXISTS:
    case CLIENTK_PUT:
    case CLIENTK_DELETE:
    case CLIENTK_ADD:
    case CLIENTK_APPEND:
    case CLIENTK_TOUCH:
        return true;
    case CLIENTK_EXCHANGE:
    case CLIENTK_SCAN:
    case CLIENTK_STATS:
    case CLIENTK_PING:
    case CLIENTK_SYNC:
    case CLIENTK_BACKUP:
    case CLIENTK_ADMIN:
        break;
    }
    return false;
}

static bool is_written_twice(const struct clientk_operation *list, size_t at)
{
    if (!wire_step_writes((enum wire_opcode)list[at].opcode))
        return false;
    for (size_t i = 0; i < at; i++)
        if (wire_step_writes((enum wire_opcode)list[i].opcode) &&
            kv_slice_equal(list[i].key, list[at].key))
            return true;
    return false;
}

static enum kv_status check_transaction_step(const struct clientk_operation *list, size_t at,
                                             struct wire_operation *to, const char **why)
{
    *why = NULL;
    if (!is_step_opcode(list[at].opcode)) {
        *why = "no transaction has such an operation";
        return KV_USAGE;
    }
    enum kv_status status = translate_operation(&list[at], to);
    if (status != KV_OK) {
        *why = last_error_of_thread()->text;
        return status;
    }
    if (to->flags & ~STEP_OPTIONS) {
        *why = "a step takes no condition, no give_version and no durability: guards are there for "
               "conditions, and durability is the transaction's";
        return KV_USAGE;
    }
    if (is_written_twice(list, at)) {
        *why = "the list writes this key before";
        return KV_USAGE;
    }
    return translate_check(to, WIRE_MAX_VALUE_BYTES);
}

static enum kv_status write_steps(struct body_writer *writer, const struct clientk_operation *list,
                                  size_t count, enum clientk_part part)
{
    for (size_t i = 0; i < count; i++) {
        struct wire_operation to;
        const char *why;
        enum kv_status status = check_transaction_step(list, i, &to, &why);
        if (status != KV_OK)
            return refuse_part(writer->transaction, writer->transacted, part, i, status, why);
        if (writer->writes)
            wire_put_operation(&writer->cursor, &to);
        writer->size += wire_operation_size(&to);
    }
    return KV_OK;
}

static enum kv_status write_parts(struct body_writer *writer)
{
    const struct clientk_transaction *transaction = writer->transaction;
    writer->size = WIRE_TRANSACTION_FIXED_BYTES;
    for (size_t i = 0; i < transaction->guard_count; i++) {
        enum kv_status status = write_guard(writer, i);
        if (status != KV_OK)
            return status;
    }
    enum kv_status status =
        write_steps(writer, transaction->then, transaction->then_count, CLIENTK_PART_THEN);
    if (status != KV_OK)
        return status;
    return write_steps(writer, transaction->otherwise, transaction->otherwise_count,
                       CLIENTK_PART_ELSE);
}

static enum kv_status check_counts(const struct clientk_transaction *transaction)
{
    struct kv_error *error = last_error_of_thread();
    const size_t most = CLIENTK_MAX_TRANSACTION_STEPS;
    if (!RESERVED_IS_CLEAR(transaction->reserved))
        return kv_error_set(error, KV_UNSUPPORTED, "reserved: " RESERVED_ADVICE);
    if ((transaction->guard_count > 0 && !transaction->guards) ||
        (transaction->then_count > 0 && !transaction->then) ||
        (transaction->otherwise_count > 0 && !transaction->otherwise))
        return kv_error_set(error, KV_USAGE, "NULL was given as the guards or operations");
    if (transaction->guard_count > most || transaction->then_count > most ||
        transaction->otherwise_count > most ||
        transaction->guard_count + transaction->then_count + transaction->otherwise_count > most)
        return kv_error_set(error, KV_USAGE,
                            "a transaction has at most %zu guards and operations in all", most);
    return KV_OK;
}

enum kv_status transaction_body_write(const struct clientk_transaction *transaction,
                                      struct clientk_transacted *transacted, uint8_t **bytes,
                                      size_t *size)
{
    struct body_writer writer = {.transaction = transaction, .transacted = transacted};
    enum kv_status status = check_counts(transaction);
    if (status == KV_OK)
        status = write_parts(&writer);
    if (status != KV_OK)
        return status;
    *size = writer.size;
    if (*size > WIRE_MAX_VALUE_BYTES + WIRE_TRANSACT_EXTRA_BYTES)
        return kv_error_set(last_error_of_thread(), KV_VALUE_TOO_BIG,
                            "keys and values of the transaction are more than a message takes");
    *bytes = malloc(*size);
    if (!*bytes)
        return kv_error_set(last_error_of_thread(), KV_NO_MEMORY, "no memory for a transaction");
    const struct wire_transaction counts = {.guards = (uint16_t)transaction->guard_count,
                                            .then = (uint16_t)transaction->then_count,
                                            .otherwise = (uint16_t)transaction->otherwise_count};
    writer.cursor = write_cursor(*bytes, *size);
    writer.writes = true;
    wire_put_transaction(&writer.cursor, &counts);
    status = write_parts(&writer);
    KV_ASSERT(status == KV_OK && !writer.cursor.failed && write_cursor_left(&writer.cursor) == 0);
    return status;
}

/* Reading ----------------------------------------------------------------------------------- */

static enum kv_status refuse_answer(struct clientk_transacted *transacted)
{
    transacted->outcome = CLIENTK_UNKNOWN;
    transacted->results = 0;
    return kv_error_set(last_error_of_thread(), KV_IO,
                        "the server's answer to the transaction is malformed");
}

/* Reads the result of one operation. KV_OK, whatever its status. */
static enum kv_status read_step_result(struct read_cursor *cursor, enum clientk_opcode opcode,
                                       struct clientk_result *result)
{
    struct wire_result from;
    if (wire_get_result(cursor, &from) != KV_OK || (from.flags & WIRE_RESULT_IN_SEGMENT))
        return KV_IO;
    if (from.status == KV_OK && opcode == CLIENTK_GET && (from.flags & WIRE_RESULT_NO_VALUE))
        return KV_IO;
    translate_result(&from, NULL, opcode == CLIENTK_GET, result);
    return from.status == KV_OK && result->status != KV_OK ? result->status : KV_OK;
}

/* Of a list that was done. */
static enum kv_status read_results_of_list(struct read_cursor *cursor,
                                           const struct clientk_operation *list, size_t count,
                                           struct clientk_result *results,
                                           struct clientk_transacted *transacted)
{
    for (size_t i = 0; i < count; i++) {
        enum kv_status status = read_step_result(cursor, list[i].opcode, &results[i]);
        if (status == KV_NO_MEMORY) {
            transacted->outcome = CLIENTK_UNKNOWN;
            return kv_error_set(last_error_of_thread(), status, "no memory for a value");
        }
        if (status != KV_OK)
            return refuse_answer(transacted);
    }
    transacted->results = count;
    return KV_OK;
}

static enum kv_status read_done(struct read_cursor *cursor,
                                const struct clientk_transaction *transaction,
                                const struct wire_outcome *outcome, struct clientk_result *results,
                                struct clientk_transacted *transacted)
{
    const struct clientk_operation *list =
        outcome->otherwise ? transaction->otherwise : transaction->then;
    size_t count = outcome->otherwise ? transaction->otherwise_count : transaction->then_count;
    if (outcome->results != count ||
        (outcome->otherwise && outcome->guard >= transaction->guard_count))
        return refuse_answer(transacted);
    transacted->outcome = outcome->otherwise ? CLIENTK_ELSE : CLIENTK_DONE;
    transacted->guard = outcome->otherwise ? outcome->guard : 0;
    return read_results_of_list(cursor, list, count, results, transacted);
}

static enum clientk_part part_of_outcome(const struct wire_outcome *outcome)
{
    switch (outcome->about) {
    case WIRE_ABOUT_GUARD:
        return CLIENTK_PART_GUARD;
    case WIRE_ABOUT_STEP:
        return outcome->otherwise ? CLIENTK_PART_ELSE : CLIENTK_PART_THEN;
    case WIRE_ABOUT_NOTHING:
        break;
    }
    return CLIENTK_PART_NONE;
}

static enum kv_status read_failed(struct read_cursor *cursor,
                                  const struct clientk_transaction *transaction,
                                  enum kv_status status, const struct wire_outcome *outcome,
                                  struct clientk_result *results,
                                  struct clientk_transacted *transacted)
{
    enum clientk_part part = part_of_outcome(outcome);
    transacted->outcome = CLIENTK_FAILED;
    if (part == CLIENTK_PART_NONE)
        return last_error_explain(last_error_of_thread(), status);
    if (outcome->at >= count_of_part(transaction, part))
        return refuse_answer(transacted);
    struct wire_result failed;
    if (outcome->results == 1 && part != CLIENTK_PART_GUARD &&
        wire_get_result(cursor, &failed) == KV_OK) {
        results[outcome->at].status = failed.status;
        results[outcome->at].number = failed.number;
    }
    return refuse_part(transaction, transacted, part, outcome->at, status, NULL);
}

enum kv_status transaction_body_read(const struct clientk_transaction *transaction,
                                     enum kv_status status, struct kv_slice answer,
                                     struct clientk_result *results,
                                     struct clientk_transacted *transacted)
{
    struct read_cursor cursor = read_cursor(answer.data, answer.size);
    struct wire_outcome outcome;
    if (wire_get_outcome(&cursor, &outcome) != KV_OK)
        return refuse_answer(transacted);
    return status == KV_OK
               ? read_done(&cursor, transaction, &outcome, results, transacted)
               : read_failed(&cursor, transaction, status, &outcome, results, transacted);
}
