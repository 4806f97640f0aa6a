/*
 * translate: between the operations and results of clientk.h and those of the wire, and what is to
 * be known about operations: which write, which give a value, which may be repeated.
 */
#ifndef MQKV_CLIENTK_TRANSLATE_H
#define MQKV_CLIENTK_TRANSLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/clientk.h"
#include "clientk/room.h"
#include "wire/operation.h"

/* KV_OK; or the status that the operation gets without being sent: KV_BAD_KEY, KV_USAGE (unknown
 * opcode, more than one condition). */
enum kv_status translate_operation(const struct clientk_operation *from, struct wire_operation *to);

/* Puts the options of a PUT or EXCHANGE, or those of an ADD, into the operation: KV_OK or KV_USAGE. */
enum kv_status translate_put(const struct clientk_put_options *options, struct wire_operation *to);
enum kv_status translate_add(const struct clientk_add_options *options, int64_t delta,
                             struct wire_operation *to);

/* KV_OK, or the status that a wire operation gets without being sent: KV_BAD_KEY, KV_VALUE_TOO_BIG. */
enum kv_status translate_check(const struct wire_operation *operation, uint64_t max_value_bytes);

/* Of SCAN: a record that is damaged or can not be read ended the page; the entries before it are there,
 * number is the cursor behind it, and value.version its offset in the data file. */
bool result_is_cut_short(const struct clientk_result *result);

/* Copies the result; if the operation gives a value, also that, out of the message or the segment.
 * A value that is told of only leaves to->value without data, but with its size. to->status is KV_IO if
 * the result makes no sense (as one that succeeded without the value), KV_NO_MEMORY if there is no
 * memory. */
void translate_result(const struct wire_result *from, const struct room *room, bool gives_value,
                      struct clientk_result *to);

bool operation_writes(const struct wire_operation *operation);

/* True if its result has a value; then the server may also refuse it with KV_BUFFER_TOO_SMALL, for
 * want of room for that value. */
bool operation_gives_value(enum wire_opcode opcode);

/* True if that value is an entry's, whose size says something about the next. */
bool operation_reads_entry(enum wire_opcode opcode);

/* True if the operation may be sent again though it may have been executed: it reads; or
 * repeat_writes, and doing it twice is the same as doing it once. */
bool operation_repeatable(const struct wire_operation *operation, bool repeat_writes);

/* Makes result->value empty and the rest zero, keeping the value's memory. */
void result_clear(struct clientk_result *result, enum kv_status status);

#endif
