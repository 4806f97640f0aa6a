/*
 * generation: one generation of a data file: a log and the index over it, which together hold the
 * entries. Compaction fills a new generation and puts it in the place of the old one.
 *
 * Threads: none of its own; callers hold the data file's lock, shared for generation_find,
 * exclusive for what changes.
 */
#ifndef MQKV_KVSTORE_TABLE_GENERATION_H
#define MQKV_KVSTORE_TABLE_GENERATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvstore/index/index.h"
#include "kvstore/log/logfile.h"

/* What writes leave of the disk, where entries can be evicted: as much as a compaction needs. */
struct copy_reserve {
    _Atomic uint64_t copy_bytes; /* for the copy of the file that has most live bytes */
    atomic_bool in_use;          /* a compaction has taken that */
    /* By how much the log that is copied may have grown since: the copy may need as much. */
    _Atomic uint64_t grown_bytes;
};

/* Invariant: log.tail + words->reserve_bytes <= log.allocated_bytes as long as disk space was never
 * short at open: every key that is there can still be deleted when nothing else can be written. */
struct generation {
    struct logfile log;
    struct index *index;             /* NULL until generation_begin_index or a take-over */
    struct shared_generation *words; /* the sums over log and index, and the numbers of the index */
    uint64_t last; /* offset of the record before the tail; 0: none was appended since it was
                      opened, or what is before the tail is damaged */
    struct copy_reserve *reserve; /* NULL: writes leave no room for a copy */
    uint64_t copied_from; /* the tail when the compaction under way began; 0: there is none */
    bool is_short;        /* less is left than would be comfortable: set by what appends */
};

/* Takes over the log, even on failure: KV_NO_MEMORY. The words, which outlive the generation, are
 * changed by it alone. */
enum kv_status generation_create(struct logfile log, struct shared_generation *words,
                                 struct generation **generation);

/* Makes an index without a key in the arena, and sums to match. KV_NO_MEMORY: nothing changed. */
enum kv_status generation_begin_index(struct generation *generation, struct arena *arena);

/* Closes the log too. NULL is harmless. */
void generation_free(struct generation *generation);

/* What the index knows of a key. */
struct lookup {
    uint32_t hash;
    bool found;   /* also if it has expired */
    bool damaged; /* not found, but a record that was the key's, or (hardly ever) another's of the
                     same hash, is damaged: a write takes its place in the index */
    int error;    /* not 0: neither: a record at the hash could not be read, errno */
    uint64_t offset; /* of what was found, is damaged or could not be read */
    uint64_t size_bytes;
    struct record record;     /* found: parsed, not verified; slices into the mapping, or else into
                                 READ_BUFFER_LOOKUP, the value not loaded (logfile_load) */
    struct index_probe probe; /* at what was found, or is damaged */
};

/* Valid until the next change of the generation; the bytes, if they are in the read buffer, until
 * the thread's next lookup. */
void generation_find(const struct generation *generation, uint32_t hash, struct kv_slice key,
                     struct lookup *lookup);

/* Appends the record to the log and brings the index up to date with it; `lookup` is what
 * generation_find says of the record's key. The value may continue in value_tail. Version and
 * sizes are the caller's duty. KV_NO_SPACE, KV_NO_MEMORY, KV_IO: nothing has changed. */
enum kv_status generation_append(struct generation *generation, struct lookup *lookup,
                                 const struct record *record, struct kv_slice value_tail);

/* Of a record for which there was no space: may the log be as large as that takes, so that it was
 * the disk that had none? */
bool generation_may_grow(const struct generation *generation, const struct lookup *lookup,
                         const struct record *record, struct kv_slice value_tail);

/* A compaction of the generation begins, with its copy's room taken; or it has failed. Holds: the
 * file's lock for writing. */
void generation_note_copying(struct generation *generation, bool begins);

/* What a compaction needs of the disk for a copy of what is live. */
static inline uint64_t generation_copy_bytes(const struct generation *generation)
{
    return generation->words->live_bytes + generation->words->reserve_bytes;
}

/* Brings the index up to date with a record that is in the log already (recovery). */
enum kv_status generation_adopt(struct generation *generation, struct lookup *lookup,
                                const struct record *record, uint64_t offset, uint64_t size_bytes);

/* Appends a stretch of a log that is damaged, and counts all of it as live: what its entries count
 * for is not known. KV_NO_SPACE, KV_IO: nothing has changed. */
enum kv_status generation_append_damaged(struct generation *generation, const uint8_t *bytes,
                                         uint64_t size_bytes);

/* Adds an entry of that hash whose record, at the offset of such a stretch, is damaged. KV_CROWDED,
 * KV_NO_MEMORY, KV_NO_SPACE: nothing has changed. */
enum kv_status generation_adopt_damaged(struct generation *generation, uint32_t hash,
                                        uint64_t offset);

/* Takes the entry of a lookup that found one out of the index: it has expired. */
void generation_forget(struct generation *generation, struct lookup *lookup);

/* index_set_expiry_bound of the index. */
void generation_bound_expiry(struct generation *generation, uint32_t hash, uint64_t bound_ms);

/* Counts a record in or out that the index (no longer) points at. */
void generation_count(struct generation *generation, const struct record *record,
                      uint64_t size_bytes);
void generation_discount(struct generation *generation, const struct record *record,
                         uint64_t size_bytes);

/* Bytes of the log that nothing points at. */
static inline uint64_t generation_dead_bytes(const struct generation *generation)
{
    return generation->log.tail - FILE_HEADER_BYTES - generation->words->live_bytes;
}

/* Around each change of index or sums that are shared: a process that is killed in between leaves
 * words that say so. The stores of one thread stay in the order of its program for whoever finds
 * the memory after it has died, so that only the compiler has to keep it. */
static inline void generation_begin_change(struct generation *generation)
{
    __atomic_store_n(&generation->words->writing, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
void generation_end_change(struct generation *generation);

/* What `check` of the words is to be, if the log is in that chapter, and the index has that sum
 * (index_sum). */
uint64_t generation_check_of(const struct shared_generation *words, uint64_t chapter,
                             uint64_t index_sum);

/* Brings the words in line with the log and the index, before others see them. */
void generation_settle_words(struct generation *generation);

/* Syncs the log of a generation that is in use: one process that is killed meanwhile leaves a note
 * of it. -1 and errno; the note stays. */
int generation_sync(struct generation *generation);

/* From now on nobody takes this generation over. Any thread. */
static inline void generation_doubt(const struct generation *generation)
{
    __atomic_fetch_or(&generation->words->flags, SHARED_GENERATION_DOUBTFUL, __ATOMIC_RELAXED);
}

#endif
