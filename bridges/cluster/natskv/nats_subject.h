/*
 * nats_subject: a key as the last part of a NATS subject, and back. Letters, digits, '_', '/' and
 * '-' stand for themselves; any other byte is "=XX", its two hexadecimal digits in capitals. So the
 * key adds no dot, wildcard or blank to the subject, and `nats kv` can name it.
 */
#ifndef MQKV_NATSKV_NATS_SUBJECT_H
#define MQKV_NATSKV_NATS_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* Writes the encoded key and a NUL. False: that takes more than `capacity` bytes. */
bool nats_subject_encode(struct kv_slice key, char *text, size_t capacity);

/* Decodes into at most `capacity` bytes. False: nats_subject_encode writes no key like this, or it
 * is longer. A text that can be decoded has no dot and no wildcard. */
bool nats_subject_decode(const char *text, uint8_t *key, size_t capacity, size_t *size);

#endif
