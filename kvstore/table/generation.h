/*
 * generation: one generation of a data file: a log and the index over it, which together hold the
 * entries. A compaction fills a new generation and puts it in the place of the old one.
 *
 * Threads: none of its own; callers hold the data file's lock, for reading to call generation_find,
 * for writing to call what changes a generation.
 */
#ifndef MQKV_KVSTORE_TABLE_GENERATION_H
#define MQKV_KVSTORE_TABLE_GENERATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/assert/assert.h"
#include "kvstore/index/index.h"
#include "kvstore/log/logfile.h"
#include "kvstore/table/free_extents.h"

/* How much of the disk writes leave free, where entries can be evicted: what a compaction needs. */
struct copy_reserve {
    _Atomic uint64_t copy_bytes; /* for the copy of the file that has most live bytes */
    atomic_bool in_use;          /* a compaction uses the reserve: writes need not leave it free */
    /* By how much the log that is copied may have grown since: the copy may need as much. */
    _Atomic uint64_t grown_bytes;
};

/* Invariant: log.tail + words->reserve_bytes <= log.allocated_bytes, unless disk space was short at
 * open: every key that is there can still be deleted when nothing else can be written. */
struct generation {
    struct logfile log;
    struct index *index;             /* NULL until generation_begin_index or a take-over */
    struct shared_generation *words; /* the sums over log and index, and the numbers of the index */
    uint64_t last; /* offset of the record before the tail; 0: none was appended since it was
                      opened, or what is before the tail is damaged */
    struct copy_reserve *reserve; /* NULL: entries are not evicted */
    bool leaves_room;             /* it is the current one: writes leave room for a copy */
    uint64_t copied_from; /* the tail when the compaction under way began; 0: there is none */
    uint64_t transacting; /* 1: changes of a transaction are being made, so that `writing` of the
                             words stays set between them; else 0 */
    bool is_short;        /* an append found the disk nearly full */
    uint64_t extents_end; /* the tail after the last extent, or record placed in one, was appended:
                             what is before it is not all in order, for the commit log */
    uint32_t placings;    /* values that are being written to extents of the log (placing.h) */
    uint64_t fixed_end;   /* extents before this offset never get another content */
    uint64_t promised_version; /* entries up to it are on disk, or a sync that has begun will see to
                                  it */
    struct free_extents free_extents;
};

/* Makes *generation of `log`, which is the generation's from now on, and closed on failure:
 * KV_NO_MEMORY. The generation alone changes `words`, which outlive it. */
enum kv_status generation_create(struct logfile log, struct shared_generation *words,
                                 struct generation **generation);

/* Gives `generation` an index without a key, in `arena`, and sums to match. KV_NO_MEMORY: nothing
 * changed. */
enum kv_status generation_begin_index(struct generation *generation, struct arena *arena);

/* Closes the log and frees the index and the generation. NULL is harmless. */
void generation_free(struct generation *generation);

/* What the index knows of a key. */
struct lookup {
    uint32_t hash;
    bool found;   /* the key has an entry, perhaps an expired one */
    bool damaged; /* not found, but a record of the key, or (hardly ever) of another key with the
                     same hash, is damaged: a write takes the place of that record in the index */
    int error; /* not 0: neither found nor damaged: a record at the hash could not be read; errno */
    uint64_t offset; /* of the record that was found, is damaged or could not be read */
    uint64_t size_bytes;
    struct record record;     /* if found: parsed, not verified; slices into the mapping, or else
                                 into READ_BUFFER_LOOKUP, the value not loaded (logfile_load) */
    struct index_probe probe; /* at the item that was found, or is damaged */
};

/* Looks `key` up, whose index hash is `hash`. *lookup is valid until the next change of the
 * generation; bytes in the read buffer are valid until the thread's next lookup. */
void generation_find(const struct generation *generation, uint32_t hash, struct kv_slice key,
                     struct lookup *lookup);

/* Appends `record`, whose value continues in `value_tail`, to the log and brings the index up to
 * date with it. `lookup` is the result of generation_find for the record's key. The caller has
 * checked version and sizes. KV_NO_SPACE, KV_NO_MEMORY, KV_CROWDED, KV_IO: nothing has changed. */
enum kv_status generation_append(struct generation *generation, struct lookup *lookup,
                                 const struct record *record, struct kv_slice value_tail);

/* An extent in the log for a record: where the record belongs, and its size. */
struct extent {
    uint64_t offset;
    uint64_t size_bytes;
};

/* Appends an extent for `record`, a put, to the log: *extent. Errors as above. The caller writes
 * the record there (logtail_fill_extent), and may do so without the lock. */
enum kv_status generation_append_extent(struct generation *generation, const struct record *record,
                                        struct extent *extent);

/* Takes an extent for `record`, a put, that had another content before, if there is one on `terms`:
 * *extent. False: there is none. */
bool generation_take_free(struct generation *generation, const struct record *record,
                          const struct free_extent_terms *terms, struct extent *extent);

/* Notes that the entry of `replaced` counts no more since a record was appended, up to `position`,
 * that a transaction cannot take back: if it is in an extent, that may get another content. */
void generation_note_replaced(struct generation *generation, const struct lookup *replaced,
                              uint64_t position);

/* Has no extent that there is get another content. */
void generation_fix(struct generation *generation);

/* Makes `record` count, which was written to `extent`, with the version that it has now: appends
 * the record that says so, and brings the index up to date. `lookup` is the result of
 * generation_find for its key. Errors as above. */
enum kv_status generation_append_pointer(struct generation *generation, struct lookup *lookup,
                                         const struct record *record, const struct extent *extent);

/* After KV_NO_SPACE for `record` with `value_tail`: whether the log may become large enough, so
 * that the disk was full and not the log. */
bool generation_may_grow(const struct generation *generation, const struct lookup *lookup,
                         const struct record *record, struct kv_slice value_tail);

/* Notes that a compaction of the generation begins, with its copy's room taken, or that it has
 * failed. Holds: the file's lock for writing. */
void generation_note_copying(struct generation *generation, bool begins);

/* Bytes of the disk that a compaction needs to copy what is live. */
static inline uint64_t generation_copy_bytes(const struct generation *generation)
{
    return generation->words->live_bytes + generation->words->reserve_bytes;
}

/* Brings the index up to date with `record`, which is in the log already, at `offset`, with
 * `size_bytes` (recovery). `lookup` is of the record's key. KV_NO_MEMORY, KV_CROWDED. */
enum kv_status generation_adopt(struct generation *generation, struct lookup *lookup,
                                const struct record *record, uint64_t offset, uint64_t size_bytes);

/* Appends `size_bytes` of a log that are damaged, and counts all of them as live, since what their
 * entries count for is not known. KV_NO_SPACE, KV_IO: nothing has changed. */
enum kv_status generation_append_damaged(struct generation *generation, const uint8_t *bytes,
                                         uint64_t size_bytes);

/* Adds an entry of `hash` whose record, at `offset` of such bytes, is damaged. KV_CROWDED,
 * KV_NO_MEMORY, KV_NO_SPACE: nothing has changed. */
enum kv_status generation_adopt_damaged(struct generation *generation, uint32_t hash,
                                        uint64_t offset);

/* Takes the expired entry of `lookup`, which found one, out of the index. */
void generation_forget(struct generation *generation, struct lookup *lookup);

/* index_set_expiry_bound of the generation's index. */
void generation_bound_expiry(struct generation *generation, uint32_t hash, uint64_t bound_ms);

/* Adds to the sums a record of `size_bytes` that the index points at now; subtracts one that the
 * index points at no longer. */
void generation_count(struct generation *generation, const struct record *record,
                      uint64_t size_bytes);
void generation_discount(struct generation *generation, const struct record *record,
                         uint64_t size_bytes);

/* Bytes of the log's records that the index does not point at. */
static inline uint64_t generation_dead_bytes(const struct generation *generation)
{
    KV_ASSERT(generation->log.tail >= FILE_HEADER_BYTES + generation->words->live_bytes);
    return generation->log.tail - FILE_HEADER_BYTES - generation->words->live_bytes;
}

/* Stand around each change of a shared index or its sums: a process that is killed in between
 * leaves words that say so. Whoever finds the memory after the process has died sees the stores of
 * one thread in the order of its program, so that only the compiler has to keep that order. */
static inline void generation_begin_change(struct generation *generation)
{
    KV_ASSERT(__atomic_load_n(&generation->words->writing, __ATOMIC_RELAXED) ==
              generation->transacting);
    __atomic_store_n(&generation->words->writing, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
void generation_end_change(struct generation *generation);

/* Stand around the appends of a transaction: a process that is killed in between leaves words that
 * nobody takes over, so that recovery finds out whether the transaction is whole. Holds: the file's
 * lock for writing. */
void generation_begin_transaction(struct generation *generation);
void generation_end_transaction(struct generation *generation);

/* What generation_undo needs to know of an append. */
struct appended {
    uint64_t offset; /* of the record in the log */
    uint64_t size_bytes;
    uint64_t entry_offset; /* what the index points at: the same, or what is in an extent */
    uint64_t entry_bytes;
    uint64_t last;          /* generation->last before */
    struct lookup replaced; /* as it was before; of its record only size, kind, expiry and the size
                               of the key count */
};

/* Takes the append back, the last one of the generation, as if it had never been, except that its
 * version is not given again. Between generation_begin_transaction and its end: until then nobody
 * knows of the append. */
void generation_undo(struct generation *generation, const struct record *record,
                     const struct appended *appended);

/* The value of words->check of a log in `chapter` whose index has the sum `index_sum`
 * (index_sum()). */
uint64_t generation_check_of(const struct shared_generation *words, uint64_t chapter,
                             uint64_t index_sum);

/* Brings the words in line with the log and the index, before other processes see them. */
void generation_update_words(struct generation *generation);

/* Syncs the log of a generation in use. A process that is killed meanwhile leaves a note of the
 * sync in the words. -1 and errno: the sync failed, and the note stays. */
int generation_sync(struct generation *generation);

/* Notes that no later process is to take this generation over. Any thread. */
static inline void generation_doubt(const struct generation *generation)
{
    __atomic_fetch_or(&generation->words->flags, SHARED_GENERATION_DOUBTFUL, __ATOMIC_RELAXED);
}

#endif
