/*
 * direct_read: reads of single keys from a shared store (kvstore/shared/shared_store.h has the
 * algorithm, and why it is right; clientk/direct/direct.h what it means for the calls of a handle).
 *
 * 1. Look the key up; again if items were moved meanwhile, a transaction was being done, or the
 *    generation was replaced. What was found then was so at one moment since the call began.
 * 2. Verify the record, and copy its value. 3. A record never changes, but an extent may have got
 *    another content meanwhile: look at the index and at the content's head once more, and begin
 *    again if they are not as they were (direct_found_stays).
 * 4. If the generation was replaced meanwhile, the bytes may be zeros of a hole: begin again.
 * 5. If the object was put out of use meanwhile, or its daemon has ended, the bytes may be zeros,
 *    too, and do not count, however long the reader stood still in the copy (direct_end).
 *
 * As with `serverk --verify first`, small records are verified each time, and large ones
 * (kvstore/format/verified_bitmap.h) the first time that this process reads them from a mapping.
 *
 * What a reader cannot explain it asks the daemon for, which will write to its log what is wrong. A
 * read is repeated a limited number of times.
 *
 * Threads: any, between direct_begin and direct_end.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_READ_H
#define MQKV_CLIENTK_DIRECT_DIRECT_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/direct/direct_store.h"
#include "kvstore/format/record.h"
#include "kvstore/shared/segment.h"
#include "mqkv/clientk.h"

/* Where a key belongs: the data file, and the hash in its index. */
struct direct_place {
    uint32_t file;
    uint32_t hash;
};

struct direct_place direct_place_of(const struct direct_store *store, struct kv_slice key);

/* Asks for the cache lines that lookups at `count` places will touch first, without waiting for
 * them: those of the index, and, once these are there, those of the records. */
void direct_prefetch(const struct direct_store *store, const struct direct_place *places,
                     size_t count);

/* Where a key was seen. */
struct direct_sight {
    uint64_t generation;
    uint64_t version; /* of the record, if there is one */
    uint64_t offset;  /* DIRECT_ABSENT, DIRECT_UNSEEN, or of the record */
    uint64_t moves;   /* of DIRECT_ABSENT */
};

#define DIRECT_ABSENT 0u         /* no record begins there */
#define DIRECT_UNSEEN UINT64_MAX /* the key was not looked at yet */

/* Reads the entry of `key`, which belongs to `place`, into *value; without its bytes if
 * !with_bytes. True: *status is that of the read, as the daemon's would be, and *sight (may be
 * NULL) is where the key was seen. False: the read has to go by message. */
bool direct_read(struct direct_store *store, struct kv_slice key, struct direct_place place,
                 bool with_bytes, struct clientk_value *value, enum kv_status *status,
                 struct direct_sight *sight);

/* Looks at the key again. True: it is as it was at the sight, and was so all the while in between.
 * False: it is not, or was not, or this cannot be told. */
bool direct_is_as_seen(struct direct_store *store, struct kv_slice key, struct direct_place place,
                       const struct direct_sight *sight);

/* Makes *value that of an absent key; its memory stays. */
static inline void direct_clear_value(struct clientk_value *value)
{
    value->version = 0;
    value->expiry_ms = 0;
    value->size = 0;
}

/* The record to which a slot leads. */
struct direct_found {
    struct direct_log *log;
    const uint8_t *at;
    struct record record;
    uint64_t offset;
    uint64_t size_bytes;
};

/* What is known of a data file at the beginning of a look. */
struct direct_look {
    const struct shared_store *header;
    const struct shared_file *file;
    const struct shared_generation *state;
    uint64_t generation;
    uint64_t moves;
    uint64_t transacting;
    uint32_t number; /* of the data file */
    bool needs_more; /* something lies beyond what of the object is usable */
};

/* Begins a look at the data file `file`. False: items are being moved at this moment, or a
 * transaction is being done. */
bool direct_look_begin(const struct direct_store *store, const struct direct_view *view,
                       uint32_t file, struct direct_look *look);

/* Returns true if nothing was moved and no transaction begun since the look began, and the
 * generation is the same. */
bool direct_look_holds(const struct direct_look *look);

/* Returns true if the generation is the same as when the look began. */
bool direct_look_is_current(const struct direct_look *look);

/* Returns true if the generation is the same and, if the daemon is known to have ended, the log is
 * still in its place. Then the bytes of records that were read since the look began count, if
 * direct_end says so, too. To be called after the last byte was read. */
bool direct_look_counts(const struct direct_store *store, const struct direct_look *look);

/* Returns how many of the top bits of a hash the directory tells apart. */
uint32_t direct_look_depth(const struct direct_look *look);

/* Returns the segment for `hash`; NULL: there is nothing usable in its place, and look->needs_more
 * says whether more of the object is needed. */
const struct index_segment *direct_look_segment(struct direct_look *look,
                                                const struct direct_view *view, uint32_t hash);

/* Parses the record at `offset` into *found. Its slices lie in the mapping; or, without a mapping,
 * in *room, which grows as needed, and then the bytes of the value are missing unless `whole`.
 * RECORD_UNREADABLE: the record cannot be had. */
enum record_verdict direct_look_record(struct direct_store *store, const struct direct_look *look,
                                       uint64_t offset, bool whole, struct clientk_value *room,
                                       struct direct_found *found);

/* Returns true if the checksum of the record, which is whole, holds. A large record that was
 * verified once is not verified again, unless the daemon says so (--verify every). */
bool direct_found_is_sound(const struct direct_store *store, const struct direct_found *found);

/* Returns true if what was read of the record since it was found is what was written: records in
 * the log never change, but an extent may have got another content since (free_extents.h). `hash`
 * is the record's in the index. To be called after the last byte was read. */
bool direct_content_stays(struct direct_store *store, uint32_t hash,
                          const struct direct_found *found);
static inline bool direct_found_stays(struct direct_store *store, uint32_t hash,
                                      const struct direct_found *found)
{
    return __builtin_expect(!found->record.in_extent, 1) ||
           direct_content_stays(store, hash, found);
}

#endif
