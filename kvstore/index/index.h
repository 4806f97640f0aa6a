/*
 * index: the table of one data file: from 32 bits of a key's hash to the offset of its record, in
 * 8-byte slots (32 bits of hash, 32 bits of offset in 8-byte units; offset 0, the header page,
 * marks a free slot). The key itself stays in the file: a lookup compares it there.
 *
 * Extendible hashing (Fagin, Nievergelt, Pippenger, Strong, "Extendible Hashing", ACM TODS 4(3),
 * 1979): a directory, addressed by the top bits of the hash, of segments of INDEX_SEGMENT_SLOTS
 * slots, each a small linear-probing table. A full segment splits in two: no operation ever moves
 * more than one segment's slots (and now and then copies the directory, 4 bytes an entry).
 * Segments do not merge again: memory is given back when compaction builds the index anew.
 *
 * The 32 bits must be those of a good hash that is secret, and another hash than the one that
 * picked the data file. A key that finds a full segment which cannot be split any more is refused
 * (index_reserve); how often a crowded segment is split is bounded by the number of segments there
 * are (index.c), so that no distribution of hashes costs more memory than a few times that of a
 * good one and 8 MiB.
 *
 * Threads: none of its own; callers hold the data file's lock, for reading to probe and collect,
 * for writing for the rest. A probe may also be made without the lock, as long as the index keeps
 * its directories and is not freed. Such a probe ends after at most INDEX_SEGMENT_SLOTS slots,
 * whatever others change meanwhile, and gives offsets that were passed to index_insert or
 * index_probe_replace, with all that these writers did before visible. An item that the probe did
 * not find may have been moved out of its way, though, so its answer counts only if nothing was
 * moved meanwhile:
 *
 *     moves = index_moves(index), which must be even;  probe;  index_moves(index) == moves
 *
 * This is a sequence lock as in Boehm, "Can seqlocks get along with programming language memory
 * models?" (MSPC 2012), with data loads that acquire and data stores that release, which need no
 * fence. Only calls that move items change the number; index_probe_replace is one store of 8 bytes,
 * and a probe sees the one offset or the other.
 */
#ifndef MQKV_KVSTORE_INDEX_INDEX_H
#define MQKV_KVSTORE_INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvstore/index/arena.h"
#include "kvstore/shared/segment.h"
#include "kvstore/shared/shared_store.h"

struct index;

/* One past the last hash: where a walk in hash order ends. */
#define INDEX_HASH_END (UINT64_C(1) << 32)

/* Makes an index without a key in `arena`, with its numbers and its directory in *words: directory,
 * keys, segments, expiring_segments, and moves, which stays as it is. Arena and words outlive the
 * index, and nobody else changes the words. NULL: out of memory. */
struct index *index_create(struct arena *arena, struct shared_generation *words);

/* Makes the index that index_claim has found in `arena`, with the `sum` that it gave. NULL: out of
 * memory. */
struct index *index_resume(struct arena *arena, struct shared_generation *words, uint64_t sum);

/* Leaves *words as it was. NULL is harmless. */
void index_free(struct index *index);

/* Takes all keys out of an index that nobody else knows; false: out of memory, nothing changed. */
bool index_clear(struct index *index);

/* Before the index is shared with probes without the lock: keeps directories that are replaced from
 * now on until the index is freed. All of them together are smaller than the one in use. */
void index_keep_directories(struct index *index);

/* A walk over the slots whose 32 hash bits equal the wanted ones. Opaque to callers except for its
 * size; valid until the next change of the index that is not made through the probe. */
struct index_probe {
    struct index *index;
    struct segment_probe in;
};

/* for (index_probe_start(&p, index, hash); index_probe_next(&p, &offset);) { compare the key } */
void index_probe_start(struct index_probe *probe, const struct index *index, uint32_t hash);

/* The offset (bytes, a multiple of 8, never 0) of the next candidate; false when there is none. */
bool index_probe_next(struct index_probe *probe, uint64_t *offset_bytes);

/* A number that is odd while items are being moved, and that each move changes. Any thread. */
uint64_t index_moves(const struct index *index);

/* Asks for the first slot that a probe with this hash looks at, without waiting for it. */
void index_prefetch(const struct index *index, uint32_t hash);

/* Change the slot that index_probe_next gave last. After a removal the walk may continue. */
void index_probe_replace(struct index_probe *probe, uint64_t offset_bytes);
void index_probe_remove(struct index_probe *probe);

/* Makes sure that one index_insert with this hash cannot fail; false: out of memory, or too many
 * keys with nearly the same hash (no item is lost or moved out of order). Invalidates probes. */
bool index_reserve(struct index *index, uint32_t hash);

/* Returns true if index_reserve refused `hash` because there are too many keys with nearly the same
 * hash; if not, memory was short. */
bool index_is_crowded(const struct index *index, uint32_t hash);

/* Adds a slot; the caller has reserved and knows that the key is not there. offset_bytes is a
 * multiple of 8, above 0 and below 32 GiB. Invalidates probes. */
void index_insert(struct index *index, uint32_t hash, uint64_t offset_bytes);

/* One slot as collected. */
struct index_item {
    uint32_t hash;
    uint64_t offset_bytes;
};

/* Collects slots with hash >= from_hash in ascending order of hash: the rest of one segment, up to
 * `capacity` items, but always all items of an equal hash together or none of them. Returns how
 * many; *next_hash is where to continue, INDEX_HASH_END at the end. A segment may give 0 items and
 * still have a next. If not even the items of one hash fit, returns 0 with that hash in *next_hash:
 * call again with more room; INDEX_SEGMENT_SLOTS items always suffice. */
size_t index_collect(const struct index *index, uint64_t from_hash, struct index_item *items,
                     size_t capacity, uint64_t *next_hash);

/* Expiry: each segment remembers a lower bound of the expiry times of its entries, so that a sweep
 * visits only segments that may hold an expired one. */
void index_note_expiry(struct index *index, uint32_t hash, uint64_t expiry_ms);

/* The start hash of the first segment at or after from_hash whose bound is <= now_ms;
 * INDEX_HASH_END if there is none. Looks at a bounded number of segments, since the caller holds a
 * lock; after those returns the start of the next segment whatever its bound is, which costs the
 * caller a look at a segment with nothing expired in it. */
uint64_t index_next_expiring(const struct index *index, uint64_t from_hash, uint64_t now_ms);

/* Sets the bound of the segment that holds `hash` (UINT64_MAX: none of its entries expires), after
 * the caller has looked at each of its entries under the exclusive lock. */
void index_set_expiry_bound(struct index *index, uint32_t hash, uint64_t bound_ms);

/* The bound of the segment that holds `hash`; UINT64_MAX: none of its entries expires. */
uint64_t index_expiry_bound(const struct index *index, uint32_t hash);

uint64_t index_count(const struct index *index);

/* A sum over all items and bounds, by which another process that finds the index can tell whether
 * the index is as it was left. */
uint64_t index_sum(const struct index *index);

uint64_t index_memory_bytes(const struct index *index);

#endif
