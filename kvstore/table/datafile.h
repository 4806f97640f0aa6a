/*
 * datafile: one of the D data files of a store: the generation in use, perhaps the next one, and
 * the facts of the file that outlast a generation.
 *
 * How a data file is recovered at open: recovery.h. How its next generation is made: compact.h.
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
#include "kvstore/table/recovery.h"
#include "mqkv/kvstore.h"

struct ordering;
struct placing;
struct s3fifo;

/* Damaged records that a data file remembers, at most. */
#define DATAFILE_DAMAGED_MAX 8u

/* The file's lock covers the fields that do not say otherwise. A datafile is alone on its cache
 * lines: workers at two files share nothing. */
struct datafile {
    _Alignas(CACHE_LINE_BYTES) uint32_t number; /* constant */
    struct generation *current;                 /* readers without the lock: datafile_current */
    struct shared_file *shared; /* the pointer is constant; its target is covered by the lock */
    struct generation *next;    /* every append goes there too, for a compaction; or NULL */
    bool next_keeps_parts;      /* all that the log had of whole transactions has been copied: what
                                   follows in `next` stands there as it does in the log */
    enum kv_status next_status; /* not KV_OK: `next` missed an append and is of no use any more */
    bool read_only;             /* the file takes no writes, for good */
    bool sync_timer_armed;      /* a sync within the interval will cover all writes there are; the
                                   holder of the sync slot clears it for each sync, holding the
                                   lock for reading, and so does the compactor, whose sync counts */
    bool compaction_wanted;     /* the compactor has been told */
    bool copying;               /* a compaction copies the log: no entry goes without a record,
                                   since the copy would keep that entry */
    bool full;                  /* the last put found no space */
    struct placing *placings;   /* large values that are being written (placing.h) */
    uint32_t placings_barred;   /* how many wait until there are none */
    bool followed;              /* a follower waits for the next append; atomic: set by holders of
                                   the lock for reading, cleared by the writer that tells */
    atomic_uint_fast64_t
        appended_bytes;       /* since open; written under the lock, read by any thread */
    uint64_t undecided_bytes; /* that a transaction has appended, and may take back */
    uint64_t expired;
    uint64_t compactions;
    uint64_t compaction_failures;
    bool compaction_failing;           /* the last one failed */
    struct recovery recovery;          /* constant; its parts are freed when the store is open */
    bool taken_over;                   /* constant */
    struct ordering *ordering;         /* of its keys; NULL: the store is not ordered (yet) */
    struct bound_share share;          /* in the bound of the store's live bytes */
    atomic_uint damage_lines;          /* lines in the log; any thread adds */
    atomic_uint_fast64_t read_retries; /* any thread adds to these two: struct lockless_reads */
    atomic_uint_fast64_t read_fallbacks;
    /* Offsets of records in the current log that were found damaged and have not been replaced
     * since; 0: none. Any thread adds offsets; the holder of the lock removes them. */
    atomic_uint_fast64_t damaged_at[DATAFILE_DAMAGED_MAX];
};

/* The generation in use, for readers without the lock (variants.h): the generation is not freed
 * before they have left. The order with their registration matters, hence the sequential
 * consistency. */
static inline const struct generation *datafile_current(const struct datafile *file)
{
    return __atomic_load_n(&file->current, __ATOMIC_SEQ_CST);
}

/* Puts `generation` in the place of the generation in use. Holds: the file's lock for writing, or
 * no other thread knows the file yet. */
void datafile_set_current(const struct store_context *context, struct datafile *file,
                          struct generation *generation);

/* The words of the next generation of the file, which are not in use. */
static inline struct shared_generation *datafile_next_words(const struct datafile *file)
{
    return &file->shared->states[(file->shared->generation + 1) % 2];
}

/* Gives the file of `fd`, which is new or this user's, the mode that goes with the option `direct`
 * of the store: 0600, or 0640 and the group of the directory. False, errno: mode or group could not
 * be set. */
bool datafile_admit(const struct store_context *context, int fd);

/* Opens data file `number` of the store: file->current is then a generation without an index, which
 * no other thread may know yet. On failure, with a sentence in `error`, file->current stays NULL.
 * */
enum kv_status datafile_open(const struct store_context *context, uint32_t number,
                             struct kv_error *error);

/* Between datafile_open and datafile_recover, where a process that was killed has left the index in
 * shared memory: takes the index over if it can be relied on, and sets file->taken_over. */
void datafile_take_over(const struct store_context *context, uint32_t number);

/* Where the index that was left cannot be relied on, and before its memory is given to others:
 * tells readers to look for it no more. The generation is then filled elsewhere. */
void datafile_give_up_left(struct datafile *file);

/* Fills the generation of datafile_open with what the file holds; file->recovery tells how. Fails
 * with a sentence in `error`. */
enum kv_status datafile_recover(const struct store_context *context, uint32_t number,
                                struct kv_error *error);

/* Then, when all files have been recovered: makes the file writable, and puts the generation to
 * use. Fails likewise. */
enum kv_status datafile_begin(const struct store_context *context, uint32_t number,
                              struct kv_error *error);

/* Syncs data file `number`, unless it is broken or read-only, which is KV_NOT_DURABLE, as is a
 * failure, with a sentence in `error`. No thread of the engine runs any more. */
enum kv_status datafile_settle(const struct store_context *context, uint32_t number,
                               struct kv_error *error);

/* Then: notes that data file `number` is on disk, if it is, and writes its checkpoint, if all
 * transactions are settled. */
enum kv_status datafile_close(const struct store_context *context, uint32_t number,
                              struct kv_error *error);

/* Appends `record`, whose value continues in `value_tail`, to `file` and, while a compaction runs,
 * to the file's next generation. Sets the record's version (a version that is not 0 is kept if it
 * can be: see kvstore_put_options.give_version). `lookup` is of the record's key, in the current
 * generation. *written tells version and ticket; `written` may be NULL. On failure nothing has
 * changed, except that KV_NO_SPACE sets file->full. The contents of READ_BUFFER_LOOKUP are lost:
 * the record's value may lie there, its key not. The caller tells the background threads and the
 * cache. Holds: the file's lock for writing. */
enum kv_status datafile_append(const struct store_context *context, struct datafile *file,
                               struct lookup *lookup, struct record *record,
                               struct kv_slice value_tail, struct kvstore_written *written);

/* Does what datafile_append leaves undone while changes of a transaction are being made, since it
 * cannot be taken back: the record of size_bytes at `offset` goes to the next generation and counts
 * as appended, and what it `replaced` is no damaged record of the file any more. Holds: the file's
 * lock for writing. */
void datafile_confirm(struct datafile *file, const struct lookup *replaced, uint64_t offset,
                      uint64_t size_bytes);

/* The version of the next record of the key of `lookup`, in the current generation; `wanted` (0:
 * none) if that is possible. */
uint64_t datafile_next_version(const struct generation *current, const struct lookup *lookup,
                               uint64_t wanted);

/* Brings the order of the keys, which there is, up to date with an append of `record`, where
 * `lookup` found its key before; an overwrite does not change it. Holds: the file's lock for
 * writing. */
void datafile_follow_order(struct datafile *file, const struct lookup *lookup,
                           const struct record *record);

/* What a record has `replaced` is no damaged record of the file any more. Holds: the file's lock
 * for writing. */
void datafile_forget_replaced(struct datafile *file, const struct lookup *replaced);

/* generation_note_replaced of the current generation, unless a transaction is being made: all of
 * that has to be durable, not this file alone. Holds: the file's lock for writing. */
void datafile_free_replaced(struct datafile *file, const struct lookup *replaced,
                            uint64_t position);

/* Takes back an append of `record` by datafile_append (generation_undo), which was not confirmed.
 * Holds: the file's lock for writing. */
void datafile_undo(struct datafile *file, const struct record *record,
                   const struct appended *appended);

/* Notes that no later process is to take the file over (generation_doubt), also if its next
 * generation is the current one by then. Holds: the file's lock for writing. */
void datafile_doubt(const struct datafile *file);

/* Gives the next generation of `file`, if there is one, the format of the current one; it is synced
 * before it takes the place of that. Holds: the file's lock for writing. */
void datafile_pass_format(struct datafile *file);

/* Says in the log, once, that `file` has lost bytes (logfile_is_broken of `log`, a log of the file
 * in use), which stops its writes. Returns KV_IO. Any thread. */
enum kv_status datafile_tell_broken(const struct store_context *context,
                                    const struct datafile *file, const struct logfile *log);

/* Returns true if `file` takes no writes any more. Holds: the file's lock. */
static inline bool datafile_is_read_only(const struct datafile *file)
{
    return file->read_only || logfile_is_broken(&file->current->log);
}

/* Notes the damaged record at `offset` in file->damaged_at, and says in the log which it is and
 * what to do, for the first few records only, so that readers of a damaged file do not fill the
 * log. `key` is the record's, which a caller knows who has looked it up; empty: what the record's
 * bytes say, if that is a key of the file. Returns KV_CORRUPT; if the file has lost bytes, says
 * that instead and returns KV_IO. Any thread. */
enum kv_status datafile_tell_damage(const struct store_context *context, struct datafile *file,
                                    uint64_t offset, struct kv_slice key);

/* Says in the log that the record at `offset` cannot be read, for the reason `error_number`, and
 * returns KV_IO. If the reason was ENOMEM, says nothing and returns KV_NO_MEMORY. Any thread. */
enum kv_status datafile_tell_unreadable(const struct store_context *context, struct datafile *file,
                                        uint64_t offset, int error_number);

/* Takes the expired entry of `lookup`, which found one in the current generation, out of index and
 * counts. The caller takes it out of the cache. Holds: the file's lock for writing. */
void datafile_expire(struct datafile *file, struct lookup *lookup);

#endif
