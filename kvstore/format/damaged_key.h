/*
 * damaged_key: the key of a damaged record, for sentences about it: an entry is mended by putting
 * or deleting its key.
 *
 * Threads: any.
 */
#ifndef MQKV_KVSTORE_FORMAT_DAMAGED_KEY_H
#define MQKV_KVSTORE_FORMAT_DAMAGED_KEY_H

#include <stdint.h>

#include "common/text/escape.h"
#include "mqkv/slice.h"

/* Of a key no more than so many bytes are told. */
#define DAMAGED_KEY_BYTES      64u
#define DAMAGED_KEY_TEXT_BYTES (ESCAPE_MAX_BYTES(DAMAGED_KEY_BYTES) + 16)

/* The data file of the record. */
struct damaged_file {
    uint32_t number, datafiles;
    uint64_t seed; /* of the store */
};

/* Returns the key that `size` bytes from the beginning of a damaged record on say it has, if it is
 * one of the file, else an empty slice. The log has end_bytes from there on. */
struct kv_slice damaged_key_find(const struct damaged_file *file, const uint8_t *bytes,
                                 uint64_t size, uint64_t end_bytes);

/* Writes ` (key "K")`; "" for an empty one. A long key is cut. */
void damaged_key_describe(struct kv_slice key, char text[DAMAGED_KEY_TEXT_BYTES]);

#endif
