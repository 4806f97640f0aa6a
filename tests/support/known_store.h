/*
 * known_store: a small store whose content is known to the last record, for tests that damage its
 * files: what is still to be found in them, and whether it is what is found. All of it asserts.
 */
#ifndef MQKV_TESTS_SUPPORT_KNOWN_STORE_H
#define MQKV_TESTS_SUPPORT_KNOWN_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/kvstore.h"
#include "tests/support/store_files.h"

#define KNOWN_MAX_KEYS    32
#define KNOWN_KEY_BYTES   16
#define KNOWN_VALUE_BYTES 160

/* How many records known_fill writes. */
#define KNOWN_RECORDS 18

struct known_entry {
    char key[KNOWN_KEY_BYTES];
    char value[KNOWN_VALUE_BYTES];
    bool present;
    uint64_t version; /* of the newest record there was, be it a deletion */
};

/* The content that a store should have, as a small table of texts. */
struct content {
    struct known_entry entries[KNOWN_MAX_KEYS];
    size_t count;
};

/* What a test that makes one begins and ends with: a directory of its own, nothing in image and
 * content, syncs that cost nothing, and no warnings. */
void known_begin(char dir[STORE_DIR_BYTES], struct image *image, struct content *content);
void known_end(const char *dir, struct image *image);

/* Found, or added. */
struct known_entry *content_entry(struct content *content, struct kv_slice key);

/* Changes the store and its content alike. */
void known_put(struct kvstore *store, struct content *content, const char *key, const char *value);
void known_delete(struct kvstore *store, struct content *content, const char *key);

/* New keys, replaced ones, deleted ones, an empty value, one with an expiry far away. */
void known_fill(struct kvstore *store, struct content *content);

/* A closed store of two files in dir, filled; its files are also in image, but for the checkpoints
 * if these are not wanted. */
void known_store_make(const char *dir, bool with_checkpoint, struct image *image,
                      struct content *content);

/* Opens the store with its own number of files, without compaction; makes one if there is none. */
enum kv_status known_store_open(const char *dir, struct kvstore **store, struct kv_error *error);

/* What the image's logs hold if the bytes from `damaged_from` to `damaged_to` of one file were not
 * there: of each key the newest record that is left. */
void content_without(const struct image *image, const struct image_file *damaged,
                     uint64_t damaged_from, uint64_t damaged_to, struct content *left);

/* Reads every key; what is not exactly right must be KV_CORRUPT. Returns how often it was. */
unsigned assert_right_or_corrupt(struct kvstore *store, const struct content *expected,
                                 const char *context);

/* What a scan gives must be right, and it must come to an end, or say KV_CORRUPT. */
void assert_scan_is_right(struct kvstore *store, const struct content *expected,
                          const char *context);

#endif
