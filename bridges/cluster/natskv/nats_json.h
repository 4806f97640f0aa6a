/*
 * nats_json: reading the JSON of JetStream's answers: members of objects, without building
 * anything. Whatever the text is, nothing outside of it is read.
 */
#ifndef MQKV_NATSKV_NATS_JSON_H
#define MQKV_NATSKV_NATS_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* The text of the value of a member of the object; of size 0: there is none, or this is no object.
 * A string comes with its quotes. */
struct kv_slice nats_json_member(struct kv_slice object, const char *name);

/* The same, as a number, a flag, or the bytes between the quotes of a string (escapes are left as
 * they are). False: there is no such member of that kind. */
bool nats_json_number(struct kv_slice object, const char *name, uint64_t *number);
bool nats_json_flag(struct kv_slice object, const char *name);
bool nats_json_string(struct kv_slice object, const char *name, struct kv_slice *text);

/* Decodes base64 into `bytes`, which has room for text.size / 4 * 3. False: it is malformed. */
bool nats_json_base64(struct kv_slice text, uint8_t *bytes, size_t *size);

#endif
