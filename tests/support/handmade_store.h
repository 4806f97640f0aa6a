/*
 * handmade_store: a shared store (kvstore/shared/shared_store.h) and its data files as no daemon
 * made them: written by the document, for tests of readers. Whatever a test likes can be changed in
 * them, as a daemon would, or as none ever would.
 */
#ifndef MQKV_TESTS_SUPPORT_HANDMADE_STORE_H
#define MQKV_TESTS_SUPPORT_HANDMADE_STORE_H

#include <stdint.h>

#include "kvstore/format/record.h"
#include "kvstore/shared/segment.h"
#include "kvstore/shared/shared_store.h"
#include "tests/support/store_files.h"

#define HANDMADE_DEPTH        3u
#define HANDMADE_OBJECT_BYTES (UINT64_C(4) << 20)
#define HANDMADE_LOG_BYTES    (UINT64_C(1) << 20)

struct handmade_store {
    char dir[STORE_DIR_BYTES];
    struct shared_store_name name;
    uint64_t device, inode; /* of dir */
    int object_fd;
    uint8_t *object;      /* HANDMADE_OBJECT_BYTES, mapped for writing */
    uint64_t free_offset; /* of the object */
    struct shared_store *header;
    struct shared_file *files;
    uint64_t next_version;
};

/* All functions end the test if the system does not play along. */

/* A store of so many data files (8 at most), each with an index of 1 << HANDMADE_DEPTH segments,
 * empty. */
void handmade_store_make(struct handmade_store *store, uint32_t datafiles);
void handmade_store_remove(struct handmade_store *store);

/* Appends the record and stores its slot, as a daemon does. Returns its offset. */
uint64_t handmade_put(struct handmade_store *store, struct kv_slice key, struct kv_slice value,
                      uint64_t expiry_ms);

/* Takes the entry out of the index. */
void handmade_delete(struct handmade_store *store, struct kv_slice key);

/* Copies the generation of a data file to a new one with another log, and, if `punch`, makes zeros
 * of all that the old one had. */
void handmade_replace(struct handmade_store *store, uint32_t file, bool punch);

/* As a daemon does that did not find the object: puts another log in the place of the data file's,
 * and makes zeros of all that this one had; the object stays as it is. */
void handmade_lose_log(struct handmade_store *store, uint32_t file);

/* The data file of a key; its current generation; the segment of a key's hash. */
struct shared_file *handmade_file(struct handmade_store *store, struct kv_slice key);
struct shared_generation *handmade_state(struct shared_file *file);
struct index_segment *handmade_segment(struct handmade_store *store, struct kv_slice key);

/* Of the log of data file `number`, opened for writing. */
int handmade_log(const struct handmade_store *store, uint32_t number);

#endif
