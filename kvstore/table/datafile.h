/*
 * datafile: one of the D data files of a store: the generation in use, perhaps the next one, and
 * what belongs to the file whichever generation it is.
 *
 * How one is recovered at open: recovery.h. How its next generation comes about: compact.h.
 */
#ifndef MQKV_KVSTORE_TABLE_DATAFILE_H
#define MQKV_KVSTORE_TABLE_DATAFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/memory/machine_sizes.h"
#include "kvstore/core/context.h"
#include "kvstore/shared/shared_store.h"
#include "kvstore/table/bound.h"
#include "kvstore/table/generation.h"
#include "mqkv/kvstore.h"

struct s3fifo;

/* Damaged records that are remembered, per file. */
#define DATAFILE_DAMAGED_MAX 8u

/* Fields are covered by the file's lock unless they say otherwise. Alone on its cache lines:
 * workers at two files share nothing. */
struct datafile {
    _Alignas(CACHE_LINE_BYTES) uint32_t number; /* constant */
    struct generation *current;                 /* without the lock: datafile_current */
    struct shared_file *shared;                 /* constant; changed by the holder of the lock */
    struct generation *next; /* a compaction is filling it: every append goes there too. Or NULL */
    enum kv_status next_status; /* not KV_OK: `next` missed an append and is of no use any more */
    bool read_only;             /* takes no writes, for good */
    bool sync_timer_armed;      /* a sync within the interval will cover all writes there are;
                                   cleared by the holder of the sync slot for each sync, under the
                                   shared lock, and by the compactor, whose sync takes its place */
    bool compaction_wanted;     /* the compactor has been told */
    bool copying;               /* a compaction copies what is there: nothing that it may have
                                   copied goes without a record, which it would miss */
    bool full;                  /* the last put found no space */
    bool followed;              /* somebody waits for the next append; atomic: set under the shared
                                   lock, cleared by the writer that tells */
    atomic_uint_fast64_t appended_bytes; /* since open; written under the lock, read by anybody */
    uint64_t expired;
    uint64_t compactions;
    uint64_t compaction_failures;
    bool compaction_failing;           /* the last one failed */
    uint64_t recovered_bytes_cut;      /* constant */
    bool from_checkpoint;              /* constant */
    bool taken_over;                   /* constant */
    struct bound_share share;          /* in the bound of the store's live bytes */
    atomic_uint damage_lines;          /* lines in the log; any thread */
    atomic_uint_fast64_t read_retries; /* any thread, as the next: struct lockless_reads */
    atomic_uint_fast64_t read_fallbacks;
    /* Offsets of records in the current log that somebody found damaged, and that have not been
     * replaced since; 0: none. Any thread adds some; others take them out under the lock. */
    atomic_uint_fast64_t damaged_at[DATAFILE_DAMAGED_MAX];
};

/* The generation in use, for readers without the lock (variants.h): it is not freed before they have
 * left. The order with their registration matters, hence the sequential consistency. */
static inline const struct generation *datafile_current(const struct datafile *file)
{
    return __atomic_load_n(&file->current, __ATOMIC_SEQ_CST);
}

/* Puts the generation in the place of the one in use. Holds: the file's lock for writing, or nobody
 * knows the file yet. */
void datafile_set_current(const struct store_context *context, struct datafile *file,
                          struct generation *generation);

/* The words of the next generation of the file, which are not in use. */
static inline struct shared_generation *datafile_next_words(const struct datafile *file)
{
    return &file->shared->states[(file->shared->generation + 1) % 2];
}

/* Gives the descriptor's file, which is new or this user's, the mode that goes with the option
 * `direct` of the store: 0600, or 0640 and the group of the directory. False, errno: some of it was
 * not possible. */
bool datafile_admit(const struct store_context *context, int fd);

/* Opens data file `number` of the store: file->current is then a generation without an index, of
 * which nobody is to know yet. On failure it stays NULL. */
enum kv_status datafile_open(const struct store_context *context, uint32_t number,
                             struct kv_error *error);

/* Between the two, where a process that was killed has left the index in shared memory: takes it
 * over if it can be relied on (file->taken_over). */
void datafile_take_over(const struct store_context *context, uint32_t number);

/* Where it cannot, and before others are given its memory: readers are told to look for it no more,
 * and the generation is to be filled elsewhere. */
void datafile_give_up_left(struct datafile *file);

/* Fills that generation with what the file holds, and puts it to use. */
enum kv_status datafile_recover(const struct store_context *context, uint32_t number,
                                struct kv_error *error);

/* Syncs the file and writes its checkpoint, if it is in a state to. No thread of the engine runs
 * any more. */
enum kv_status datafile_close(const struct store_context *context, uint32_t number,
                              struct kv_error *error);

/* Appends a record, whose version is set here (a version that is not 0 is kept if it can be: see
 * kvstore_put_options.give_version), to the data file and, while a compaction runs, to
 * its next generation. `lookup` is of the current generation. written may be NULL. On failure
 * nothing has changed, but that KV_NO_SPACE sets file->full. What READ_BUFFER_LOOKUP has is lost:
 * the record's value may lie there, its key not. Whoever calls tells the background threads and the
 * cache. Holds: the file's lock for writing. */
enum kv_status datafile_append(const struct store_context *context, struct datafile *file,
                               struct lookup *lookup, struct record *record,
                               struct kv_slice value_tail, struct kvstore_written *written);

/* Says in the log, once, that the file has lost bytes (logfile_is_broken), which stops its writes.
 * Returns KV_IO. Any thread; log: a log of the file, which is in use. */
enum kv_status datafile_tell_broken(const struct store_context *context,
                                    const struct datafile *file, const struct logfile *log);

/* Whether the file takes no writes any more. Holds: the file's lock. */
static inline bool datafile_is_read_only(const struct datafile *file)
{
    return file->read_only || logfile_is_broken(&file->current->log);
}

/* Says in the log that the record at the offset is damaged, and what to do; only of the first few,
 * so that readers of a damaged file do not fill the log. file->damaged_at has it then. Returns
 * KV_CORRUPT; KV_IO if the file has lost bytes, which then is what is told. Any thread. */
enum kv_status datafile_tell_damage(const struct store_context *context, struct datafile *file,
                                    uint64_t offset);

/* The same of one that cannot be read, with the reason. Returns KV_IO; KV_NO_MEMORY, of which
 * nothing is said, if that was the reason. */
enum kv_status datafile_tell_unreadable(const struct store_context *context, struct datafile *file,
                                        uint64_t offset, int error_number);

/* Takes the entry of a lookup that found one, which has expired, out of the current generation: the
 * index and the counts. The caller takes it out of the cache. Holds: the file's lock for
 * writing. */
void datafile_expire(struct datafile *file, struct lookup *lookup);

#endif
