/*
 * nats_json: reads the JSON of JetStream's answers: members of objects, without building anything.
 * Whatever the text is, nothing outside of it is read.
 */
#ifndef MQKV_NATSKV_NATS_JSON_H
#define MQKV_NATSKV_NATS_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* Returns the text of a member's value; of size 0: there is no such member, or this is no object. A
 * string comes with its quotes. */
struct kv_slice nats_json_member(struct kv_slice object, const char *name);

/* Read a member as a number, a flag, or the bytes between the quotes of a string (escapes are left
 * as they are). False: there is no such member of that kind. */
bool nats_json_number(struct kv_slice object, const char *name, uint64_t *number);
bool nats_json_flag(struct kv_slice object, const char *name);
bool nats_json_string(struct kv_slice object, const char *name, struct kv_slice *text);

/* Decodes base64 into `bytes`, which has room for text.size / 4 * 3. False: it is malformed. */
bool nats_json_base64(struct kv_slice text, uint8_t *bytes, size_t *size);

#endif
