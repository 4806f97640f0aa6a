#include "kvstore/table/datafile.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "kvstore/table/checkpoint.h"
#include "kvstore/format/damaged_key.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/commit_replay.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/log/logtail.h"
#include "kvstore/table/ordering.h"
#include "kvstore/table/recovery.h"
#include "kvstore/table/takeover.h"
#include "kvstore/core/context.h"

/* Lines about damaged records, per file. */
#define DAMAGE_LINES   10u
/* A damaged record whose key ends beyond these tells none. */
#define KEY_LOOK_BYTES 1024u

static enum kv_status check_file_identity(const struct store_context *context, uint32_t number,
                                          const struct file_identity *identity, const char *name,
                                          struct kv_error *error)
{
    if (identity->datafiles != context->datafiles)
        return kv_error_set(
            error, KV_MISMATCH,
            "%s/%s: the file belongs to a store of %u data files, data.0000 says %u", context->dir,
            name, identity->datafiles, context->datafiles);
    if (identity->number != number)
        return kv_error_set(error, KV_CORRUPT,
                            "%s/%s: the header says data file %u: was the file renamed?",
                            context->dir, name, identity->number);
    if (identity->store_seed != context->seed)
        return kv_error_set(error, KV_CORRUPT,
                            "%s/%s: the file belongs to another store than data.0000", context->dir,
                            name);
    return KV_OK;
}

static enum kv_status report_no_memory(const struct store_context *context, uint32_t number,
                                       struct kv_error *error)
{
    return kv_error_set(error, KV_NO_MEMORY, "%s/%s: out of memory (check the limit: ulimit -v)",
                        context->dir, file_name(number, FILE_LOG).text);
}

/* Brings in what a commit log has of the file; for a reader into its mapping. */
static enum kv_status open_log(const struct store_context *context, const char *name,
                               struct logfile *log, struct kv_error *error)
{
    bool writable = !context->options.read_only;
    enum kvstore_io io =
        context->replay->bytes && !writable ? KVSTORE_IO_MMAP : context->options.io;
    enum kv_status status = logfile_open(log, io, context->dir_fd, name, writable, error);
    if (status != KV_OK)
        return status;
    status = commit_replay_apply(context->replay, log, error);
    if (status != KV_OK)
        logfile_close(log);
    return status;
}

bool datafile_admit(const struct store_context *context, int fd)
{
    struct stat dir, file;
    bool group = context->options.direct == KVSTORE_DIRECT_GROUP;
    mode_t mode = group ? 0640 : 0600;
    if (context->options.direct == KVSTORE_DIRECT_OFF || context->options.read_only)
        return true;
    if (fstat(context->dir_fd, &dir) != 0 || fstat(fd, &file) != 0)
        return false;
    if (group && file.st_gid != dir.st_gid && fchown(fd, (uid_t)-1, dir.st_gid) != 0)
        return false;
    return (file.st_mode & 0777) == mode || fchmod(fd, mode) == 0;
}

enum kv_status datafile_open(const struct store_context *context, uint32_t number,
                             struct kv_error *error)
{
    struct datafile *file = &context->files[number];
    struct file_name name = file_name(number, FILE_LOG);
    file->number = number;
    file->read_only = context->options.read_only;

    struct logfile log;
    enum kv_status status = open_log(context, name.text, &log, error);
    if (status == KV_NOT_FOUND)
        return kv_error_set(
            error, KV_CORRUPT,
            "%s/%s: the file is missing; the store has %u data files; bring it back, "
            "or save what the others hold: kvcheck --salvage OUT %s",
            context->dir, name.text, context->datafiles, context->dir);
    if (status != KV_OK)
        return recovery_explain(context->dir, status, error);
    status = check_file_identity(context, number, &log.identity, name.text, error);
    if (status != KV_OK) {
        logfile_close(&log);
        return status;
    }
    if (!datafile_admit(context, log.fd)) /* then clients read by message, not directly */
        log_warn("%s/%s: cannot set the file's mode for direct reads: %s", context->dir, name.text,
                 strerror(errno));
    log.notes_are_missing |=
        memcmp(&log.identity.hash_key, &context->hash_key, sizeof context->hash_key) != 0;
    log.identity.hash_key = context->hash_key;
    status = generation_create(log, datafile_next_words(file), &file->current);
    return status == KV_OK ? KV_OK : report_no_memory(context, number, error);
}

void datafile_take_over(const struct store_context *context, uint32_t number)
{
    struct datafile *file = &context->files[number];
    struct shared_generation *left = &file->shared->states[file->shared->generation % 2];
    file->taken_over = takeover_claim(file->current, left, context->arena);
}

void datafile_give_up_left(struct datafile *file)
{
    struct shared_generation *next = datafile_next_words(file);
    KV_ASSERT(!file->taken_over && file->current->words == next);
    *next = (struct shared_generation){0};
    __atomic_store_n(&file->shared->generation, file->shared->generation + 1, __ATOMIC_RELEASE);
    file->current->words = datafile_next_words(file);
}

/* Makes a generation that was taken over writable. The first sync makes durable what the dead
 * process had not synced. */
static enum kv_status continue_left_file(const struct store_context *context, struct datafile *file,
                                         struct kv_error *error)
{
    struct generation *generation = file->current;
    struct logfile *log = &generation->log;
    enum kv_status status = takeover_make_writable(generation, error);
    if (status != KV_OK)
        return recovery_explain(context->dir, status, error);
    atomic_store(&file->appended_bytes,
                 log->tail - at_most(log->progress.synced_offset, log->tail));
    datafile_set_current(context, file, generation);
    return KV_OK;
}

enum kv_status datafile_recover(const struct store_context *context, uint32_t number,
                                struct kv_error *error)
{
    struct datafile *file = &context->files[number];
    struct generation *generation = file->current;
    if (file->taken_over)
        return KV_OK;
    if (generation_begin_index(generation, context->arena) != KV_OK)
        return report_no_memory(context, number, error);
    /* A follower with a position in the log hears of expired entries, or that it missed changes. */
    file->recovery.keep_expired =
        context->options.keep_changes_ms > 0 || generation->log.stream != 0;
    file->recovery.settled = context->shared->settled;
    if (context->is_new)
        return KV_OK;
    return recovery_read(generation, context->dir_fd, context->dir, &file->recovery, error);
}

enum kv_status datafile_begin(const struct store_context *context, uint32_t number,
                              struct kv_error *error)
{
    struct datafile *file = &context->files[number];
    if (file->taken_over)
        return continue_left_file(context, file, error);
    if (!context->is_new) {
        enum kv_status status =
            recovery_finish(file->current, context->dir_fd, context->dir, &file->recovery, error);
        if (status != KV_OK)
            return status;
    }
    datafile_set_current(context, file, file->current);
    return KV_OK;
}

/* Tells readers in other processes which file the words are of. */
static void name_log(const struct generation *generation)
{
    struct stat facts;
    struct shared_generation *words = generation->words;
    words->salt = generation->log.identity.salt;
    words->device = words->inode = 0;
    if (fstat(generation->log.fd, &facts) != 0)
        return;
    words->device = facts.st_dev;
    words->inode = facts.st_ino;
}

void datafile_set_current(const struct store_context *context, struct datafile *file,
                          struct generation *generation)
{
    generation->leaves_room = true;
    if (context->lockless || arena_is_shared(context->arena))
        index_keep_directories(generation->index);
    if (!file->next) /* the store is being opened; what a compaction has written is all new */
        generation_fix(generation);
    if (context_durability(context) == KVSTORE_SYNC_ALWAYS)
        logtail_expect_syncs(&generation->log);
    name_log(generation);
    generation_update_words(generation);
    KV_ASSERT(generation->words == datafile_next_words(file) ||
              generation->words == &file->shared->states[file->shared->generation % 2]);
    if (generation->words == datafile_next_words(file))
        __atomic_store_n(&file->shared->generation, file->shared->generation + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&file->current, generation, __ATOMIC_SEQ_CST);
}

enum kv_status datafile_settle(const struct store_context *context, uint32_t number,
                               struct kv_error *error)
{
    struct datafile *file = &context->files[number];
    struct generation *generation = file->current;
    struct file_name name = file_name(number, FILE_LOG);
    if (context->options.read_only)
        return KV_OK;
    if (logfile_is_broken(&generation->log))
        return kv_error_set(error, KV_NOT_DURABLE,
                            "%s/%s: the file could not be read; its last writes may be lost",
                            context->dir, name.text);
    if (file->read_only)
        return kv_error_set(error, KV_NOT_DURABLE,
                            "%s/%s: a sync of the file has failed; its last writes may be lost",
                            context->dir, name.text);
    if (logtail_erase_remains(&generation->log) != KV_OK)
        return kv_error_set_errno(error, "%s/%s: cannot erase what a refused write has left",
                                  context->dir, name.text);
    if (generation_sync(generation) != 0) {
        file->read_only = true;
        return kv_error_set(error, KV_NOT_DURABLE, "%s/%s: cannot sync the file: %s", context->dir,
                            name.text, strerror(errno));
    }
    return KV_OK;
}

enum kv_status datafile_close(const struct store_context *context, uint32_t number,
                              struct kv_error *error)
{
    struct datafile *file = &context->files[number];
    struct generation *generation = file->current;
    struct logfile *log = &generation->log;
    if (context->options.read_only || file->read_only || logfile_is_broken(log))
        return KV_OK;
    log->progress.settled = context->shared->settled;
    if (logfile_note_progress(log, log->tail, generation->words->max_version) != 0)
        return kv_error_set_errno(error, "%s/%s: cannot write the header", context->dir,
                                  file_name(number, FILE_LOG).text);
    if (context->shared->settled != context->shared->last_transaction)
        return KV_OK;
    /* Whoever starts from the checkpoint does not see which transactions the log has parts of: that
     * they are settled has to be on disk before the checkpoint is, else other files miss them. */
    if (context->shared->settled != 0 && logfile_sync(log) != 0)
        return kv_error_set(error, KV_NOT_DURABLE, "%s/%s: cannot sync the file: %s", context->dir,
                            file_name(number, FILE_LOG).text, strerror(errno));
    return checkpoint_write(generation, context->dir_fd, error);
}

/* Repeats the record at `offset` of the current log in the next generation, from the log's bytes,
 * since the caller's bytes may have changed meanwhile. */
static void mirror_record(struct datafile *file, uint32_t hash, uint64_t offset)
{
    struct record record;
    struct lookup lookup;
    lookup.error = 0;
    uint64_t size_bytes;
    const struct logfile *log = &file->current->log;
    logfile_begin(log, READ_BUFFER_MIRROR);
    enum record_verdict verdict =
        logfile_load(log, READ_BUFFER_MIRROR, offset, &record, &size_bytes);
    if (!file->next_keeps_parts)
        record_detach(&record);
    record.in_extent = false;
    if (verdict == RECORD_VALID)
        generation_find(file->next, hash, record.key, &lookup);
    if (verdict != RECORD_VALID || lookup.error != 0) {
        file->next_status = verdict == RECORD_INVALID ? KV_CORRUPT : KV_IO;
        return;
    }
    file->next_status = generation_append(file->next, &lookup, &record, kv_slice(NULL, 0));
}

/* A wanted version must not put the key's records out of order, nor be given twice. Versions of
 * records that are gone are not known, so that a lower one is given only if nothing in the log is
 * dead and the version is above those that may have gone from the log (file_chapters.h). */
uint64_t datafile_next_version(const struct generation *current, const struct lookup *lookup,
                               uint64_t wanted)
{
    uint64_t highest = current->words->max_version;
    bool is_first = !lookup->found && !lookup->damaged && generation_dead_bytes(current) == 0 &&
                    wanted != 0 && wanted > current->log.gone.version;
    return wanted > highest || is_first ? wanted : highest + 1;
}

static void remember_damage(struct datafile *file, uint64_t offset)
{
    for (unsigned i = 0; i < DATAFILE_DAMAGED_MAX; i++)
        if (atomic_load(&file->damaged_at[i]) == offset)
            return;
    for (unsigned i = 0; i < DATAFILE_DAMAGED_MAX; i++) {
        uint_fast64_t none = 0;
        if (atomic_compare_exchange_strong(&file->damaged_at[i], &none, offset))
            return;
    }
}

/* Takes the record at `offset`, which is not in use any more, off the list. */
__attribute__((noinline)) static void forget_damage(struct datafile *file, uint64_t offset)
{
    for (unsigned i = 0; i < DATAFILE_DAMAGED_MAX; i++)
        if (atomic_load(&file->damaged_at[i]) == offset)
            atomic_store(&file->damaged_at[i], 0);
}

/* Inline, like what follows: it is on the way of every write. */
__attribute__((always_inline)) static inline void forget_replaced(struct datafile *file,
                                                                  const struct lookup *replaced)
{
    if (atomic_load_explicit(&file->damage_lines, memory_order_relaxed) > 0 &&
        (replaced->found || replaced->damaged))
        forget_damage(file, replaced->offset);
}

void datafile_forget_replaced(struct datafile *file, const struct lookup *replaced)
{
    forget_replaced(file, replaced);
}

void datafile_free_replaced(struct datafile *file, const struct lookup *replaced, uint64_t position)
{
    generation_note_replaced(file->current, replaced, position);
}

__attribute__((always_inline)) static inline void confirm_append(struct datafile *file,
                                                                 const struct lookup *replaced,
                                                                 uint64_t offset,
                                                                 uint64_t size_bytes)
{
    forget_replaced(file, replaced);
    if (file->next && file->next_status == KV_OK)
        mirror_record(file, replaced->hash, offset);
    uint64_t appended =
        atomic_load_explicit(&file->appended_bytes, memory_order_relaxed) + size_bytes;
    atomic_store_explicit(&file->appended_bytes, appended, memory_order_release);
    if (__builtin_expect(replaced->found && replaced->record.in_extent, 0))
        datafile_free_replaced(file, replaced, appended);
}

void datafile_confirm(struct datafile *file, const struct lookup *replaced, uint64_t offset,
                      uint64_t size_bytes)
{
    if (file->current->transacting != 0)
        file->undecided_bytes -= size_bytes;
    confirm_append(file, replaced, offset, size_bytes);
}

void datafile_follow_order(struct datafile *file, const struct lookup *lookup,
                           const struct record *record)
{
    if (record->kind == RECORD_DELETE)
        ordering_remove(file->ordering, file->current, lookup->hash, record->key);
    else if (!lookup->found)
        ordering_add(file->ordering, file->current, lookup->hash, record->key);
}

enum kv_status datafile_append(const struct store_context *context, struct datafile *file,
                               struct lookup *lookup, struct record *record,
                               struct kv_slice value_tail, struct kvstore_written *written)
{
    struct generation *current = file->current;
    uint64_t offset = current->log.tail;
    KV_ASSERT(lockset_is_write_held(context->locks, file->number));
    KV_ASSERT(!file->read_only && current->words->tail == offset);
    struct bound_change change = {record->key,
                                  lookup->hash,
                                  lookup->found,
                                  record->kind == RECORD_PUT,
                                  lookup->found ? lookup->size_bytes : 0,
                                  0};
    bool is_told = bound_is_told(&file->share);
    enum kv_status status =
        is_told ? bound_check(&file->share, lookup, record, value_tail, current->transacting != 0)
                : KV_OK;
    if (status != KV_OK)
        return status;
    record->version = datafile_next_version(current, lookup, record->version);
    status = generation_append(current, lookup, record, value_tail);
    if (status == KV_NO_SPACE)
        file->full = true;
    if (status == KV_IO && logfile_is_broken(&current->log))
        datafile_tell_broken(context, file, &current->log);
    if (status != KV_OK)
        return status;
    if (file->full && record->kind != RECORD_DELETE) /* for deletes there is a reserve */
        file->full = false;
    uint64_t size_bytes = current->log.tail - offset;
    if (current->transacting == 0)
        confirm_append(file, lookup, offset, size_bytes);
    else
        file->undecided_bytes += size_bytes;
    if (file->ordering)
        datafile_follow_order(file, lookup, record);
    if (is_told) {
        change.new_bytes = change.is_there ? size_bytes : 0;
        bound_count_change(&file->share, current->words->live_bytes, &change);
    }
    if (written) {
        uint64_t appended = atomic_load_explicit(&file->appended_bytes, memory_order_relaxed);
        written->version = record->version;
        written->ticket = (struct kvstore_ticket){file->number, appended + file->undecided_bytes};
        written->record_bytes = size_bytes;
    }
    return KV_OK;
}

void datafile_undo(struct datafile *file, const struct record *record,
                   const struct appended *appended)
{
    const struct lookup *replaced = &appended->replaced;
    bool was_put = record->kind == RECORD_PUT;
    generation_undo(file->current, record, appended);
    file->undecided_bytes -= appended->size_bytes;
    if (file->ordering && was_put && !replaced->found && !replaced->damaged)
        ordering_remove(file->ordering, file->current, replaced->hash, record->key);
    else if (file->ordering && !was_put && replaced->found)
        ordering_add(file->ordering, file->current, replaced->hash, record->key);
    struct bound_change change = {record->key,
                                  replaced->hash,
                                  was_put,
                                  replaced->found,
                                  was_put ? appended->entry_bytes : 0,
                                  replaced->found ? replaced->size_bytes : 0};
    if (bound_is_told(&file->share))
        bound_count_change(&file->share, file->current->words->live_bytes, &change);
}

void datafile_doubt(const struct datafile *file)
{
    generation_doubt(file->current);
    if (file->next)
        generation_doubt(file->next);
}

void datafile_pass_format(struct datafile *file)
{
    uint32_t format_version = file->current->log.identity.format_version;
    if (!file->next || file->next->log.identity.format_version == format_version)
        return;
    if (lognotes_put_newest_format(&file->next->log) == 0)
        file->next->log.identity.format_version = format_version;
    else if (file->next_status == KV_OK)
        file->next_status = KV_IO;
}

void datafile_expire(struct datafile *file, struct lookup *lookup)
{
    generation_forget(file->current, lookup);
    file->expired++;
    if (file->ordering)
        ordering_remove(file->ordering, file->current, lookup->hash, lookup->record.key);
    struct bound_change change = {
        lookup->record.key, lookup->hash, true, false, lookup->size_bytes, 0};
    if (bound_is_told(&file->share))
        bound_count_change(&file->share, file->current->words->live_bytes, &change);
}

static const char *last_line(unsigned told)
{
    return told + 1 == DAMAGE_LINES ? " (further damage in this file is not logged)" : "";
}

enum kv_status datafile_tell_broken(const struct store_context *context,
                                    const struct datafile *file, const struct logfile *log)
{
    generation_doubt(datafile_current(file));
    if (!atomic_exchange(&log->guard->told, true))
        log_error("%s/%s: the file cannot be read at offset %" PRIu64
                  ": a disk error, or the file was truncated; it takes no more writes; "
                  "check the disk, then open the store again",
                  context->dir, file_name(file->number, FILE_LOG).text,
                  atomic_load(&log->guard->fault_offset));
    return KV_IO;
}

static void describe_damaged_key(const struct store_context *context, const struct datafile *file,
                                 uint64_t offset, struct kv_slice key,
                                 char text[DAMAGED_KEY_TEXT_BYTES])
{
    const struct logfile *log = &datafile_current(file)->log;
    const struct damaged_file of = {file->number, context->datafiles, context->seed};
    uint8_t bytes[KEY_LOOK_BYTES];
    ssize_t size = key.size == 0 ? fileio->read_at(log->fd, bytes, sizeof bytes, (off_t)offset) : 0;
    if (size > 0)
        key = damaged_key_find(&of, bytes, (uint64_t)size, logfile_end_of(log) - offset);
    damaged_key_describe(key, text);
}

enum kv_status datafile_tell_damage(const struct store_context *context, struct datafile *file,
                                    uint64_t offset, struct kv_slice key)
{
    const struct logfile *log = &datafile_current(file)->log;
    if (logfile_is_broken(log))
        return datafile_tell_broken(context, file, log);
    remember_damage(file, offset);
    unsigned told = atomic_fetch_add_explicit(&file->damage_lines, 1, memory_order_relaxed);
    if (told < DAMAGE_LINES) {
        char of_key[DAMAGED_KEY_TEXT_BYTES];
        describe_damaged_key(context, file, offset, key, of_key);
        log_error("%s/%s: the record at offset %" PRIu64
                  " is damaged: its checksum does not hold%s; to "
                  "save what is intact, stop the store, then: kvcheck --salvage OUT %s%s",
                  context->dir, file_name(file->number, FILE_LOG).text, offset, of_key,
                  context->dir, last_line(told));
    }
    return KV_CORRUPT;
}

enum kv_status datafile_tell_unreadable(const struct store_context *context, struct datafile *file,
                                        uint64_t offset, int error_number)
{
    if (error_number == ENOMEM)
        return KV_NO_MEMORY;
    unsigned told = atomic_fetch_add_explicit(&file->damage_lines, 1, memory_order_relaxed);
    if (told < DAMAGE_LINES)
        log_error("%s/%s: the record at offset %" PRIu64 " cannot be read: %s; check the disk%s",
                  context->dir, file_name(file->number, FILE_LOG).text, offset,
                  error_number == ENODATA ? "the file is shorter than it was"
                                          : strerror(error_number),
                  last_line(told));
    return KV_IO;
}
