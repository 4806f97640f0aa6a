/*
 * wire_samples: random but valid messages of every kind, and a reader that takes any bytes apart as
 * far as they go. For the unit tests of the codec and for its fuzzer.
 */
#ifndef MQKV_TESTS_SUPPORT_WIRE_SAMPLES_H
#define MQKV_TESTS_SUPPORT_WIRE_SAMPLES_H

#include "common/numbers/random.h"
#include "wire/message.h"
#include "wire/operation.h"

/* Bytes of the longest key or value of a sample. */
#define WIRE_SAMPLE_MAX_BYTES 40u

/* Memory that the slices of samples borrow: random bytes, filled at each call. */
struct wire_sample_bytes {
    uint8_t key[WIRE_SAMPLE_MAX_BYTES];
    uint8_t value[WIRE_SAMPLE_MAX_BYTES];
};

/* Returns true if operations of that opcode have no key. */
bool wire_sample_has_no_key(enum wire_opcode opcode);

/* Valid in every respect; fields that the flags leave out have the defaults of the decoder. */
struct wire_operation wire_sample_operation(struct random_state *random, enum wire_opcode opcode,
                                            struct wire_sample_bytes *bytes);
struct wire_result wire_sample_result(struct random_state *random, struct wire_sample_bytes *bytes);
struct wire_scan_entry wire_sample_entry(struct random_state *random,
                                         struct wire_sample_bytes *bytes);
struct wire_header wire_sample_header(struct random_state *random, enum wire_kind kind);

/* A whole message of that kind with a body of random content. Returns its size. */
size_t wire_sample_message(struct random_state *random, enum wire_kind kind, uint8_t *message,
                           size_t capacity);

/* Decodes the message whole: header, then what its kind says; a REPLY's values also as entries of a
 * scan. Reads every byte that a slice promises. Aborts if a slice lies outside the message, or if a
 * decoded operation or result, encoded again, gives other bytes than it was read from. Returns the
 * first status that is not KV_OK. */
enum kv_status wire_read_whole(const uint8_t *message, size_t size);

#endif
