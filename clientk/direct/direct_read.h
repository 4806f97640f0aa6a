/*
 * direct_read: reads of single keys from a shared store (kvstore/shared/shared_store.h has the
 * algorithm, and why it is right; clientk/direct/direct.h what it means for the calls of a handle).
 *
 * 1. Look the key up; again if items were moved meanwhile, or the generation was replaced. What was
 *    found then was so at one moment since the call began.
 * 2. Verify the record, and copy its value. A record never changes.
 * 3. If the generation was replaced meanwhile, the bytes may be zeros of a hole: begin again.
 * 4. If the object was put out of use meanwhile, or its daemon has ended, they may be zeros, too,
 *    and count for nothing, however long the reader stood still in the copy (direct_end).
 *
 * All small records are verified, each time; large ones (kvstore/format/verified_bitmap.h) the
 * first time that this process reads them from a mapping. As `serverk --verify first` does.
 *
 * Whatever a reader cannot explain, it asks the daemon for, which will say in its log what is
 * wrong. Retries are bounded.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_READ_H
#define MQKV_CLIENTK_DIRECT_DIRECT_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/direct/direct_store.h"
#include "kvstore/format/record.h"
#include "kvstore/shared/segment.h"
#include "mqkv/clientk.h"

/* Where a key belongs. */
struct direct_place {
    uint32_t file;
    uint32_t hash; /* of the index */
};

struct direct_place direct_place_of(const struct direct_store *store, struct kv_slice key);

/* Asks for the cache lines that the lookup of the key will touch first, without waiting for them:
 * those of the index; those of the record, once the index is there. */
void direct_prefetch_index(const struct direct_store *store, const struct direct_view *view,
                           struct direct_place place);
void direct_prefetch_record(const struct direct_store *store, const struct direct_view *view,
                            struct direct_place place);

/* Reads the entry of a key (1 to 65,535 bytes) into *value; without its bytes if !with_bytes. True:
 * *status is that of the read, as the daemon's would be. False: it is to be asked for by message.
 * Between direct_reader_begin and direct_reader_end. */
bool direct_read(struct direct_store *store, struct kv_slice key, struct direct_place place,
                 bool with_bytes, struct clientk_value *value, enum kv_status *status);

/* A record that a slot leads to. */
struct direct_found {
    struct direct_log *log;
    const uint8_t *at;
    struct record record;
    uint64_t offset;
    uint64_t size_bytes;
};

/* What is known of a data file at the beginning of a look. */
struct direct_look {
    const struct shared_file *file;
    const struct shared_generation *state;
    uint64_t generation;
    uint64_t moves;
    uint32_t number; /* of the data file */
    bool needs_more; /* something lies beyond what of the object is usable */
};

/* Begins a look; false: items are being moved just now. */
bool direct_look_begin(const struct direct_store *store, const struct direct_view *view,
                       uint32_t file, struct direct_look *look);

/* Nothing was moved since, and the generation is the same. */
bool direct_look_holds(const struct direct_look *look);

/* The generation is the same. */
bool direct_look_is_current(const struct direct_look *look);

/* It is, and, if the daemon was known to have ended, its log is still in its place: what of a
 * record was read since counts, if direct_end says so, too. To be asked after the last byte was
 * read. */
bool direct_look_counts(const struct direct_store *store, const struct direct_look *look);

/* The top bits of a hash that the directory tells apart. */
uint32_t direct_look_depth(const struct direct_look *look);

/* The segment that holds the hash; NULL: where it should be, nothing usable is. */
const struct index_segment *direct_look_segment(struct direct_look *look,
                                                const struct direct_view *view, uint32_t hash);

/* The record at the offset, parsed: its slices lie in the mapping, or in *room, which grows as
 * needed; without a mapping, and unless `whole`, the bytes of the value do not. RECORD_UNREADABLE:
 * it cannot be had. */
enum record_verdict direct_look_record(struct direct_store *store, const struct direct_look *look,
                                       uint64_t offset, bool whole, struct clientk_value *room,
                                       struct direct_found *found);

/* Whether the checksum of the record, which is whole, holds, as far as it has to be taken: a large
 * one that was verified is not verified again, unless the daemon says so (--verify every). */
bool direct_found_is_sound(const struct direct_store *store, const struct direct_found *found);

#endif
