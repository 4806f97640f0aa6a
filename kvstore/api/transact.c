/* Transactions: guards and two lists of steps, one of which is done as a whole (kvstore_transact).
 *
 * First everything is looked at that can refuse the transaction, with all locks held: guards, then
 * the steps of the list, whose reads are answered by that. Then the writes are appended, file by
 * file. What refuses one of them only now (a quota that the others have used up, the disk, memory)
 * has those before it taken back.
 */
#include <string.h>

#include "common/assert/assert.h"
#include "common/memory/reserved.h"
#include "kvstore/api/operations.h"
#include "kvstore/api/transact_places.h"
#include "kvstore/cache/cache.h"
#include "kvstore/sync/links.h"
#include "kvstore/sync/sync.h"
#include "kvstore/table/found_record.h"

#define NO_OLDER_FILE UINT32_MAX

/* A write of the list that is done. */
struct transacted_write {
    const struct kvstore_step *step;
    struct kvstore_step_result *result;
    uint32_t file;
    uint32_t at; /* in the list */
    /* Once it was appended: */
    struct record record;
    struct appended appended;
    struct placing *placing; /* NULL, or the large value, which was copied before */
};

struct transact {
    struct kvstore *store;
    const struct kvstore_transaction *asked;
    struct kvstore_step_result *results;
    struct kvstore_transacted *told;
    uint32_t files[KVSTORE_MAX_TRANSACTION_STEPS]; /* that are locked, ascending */
    uint32_t file_count;
    bool writes;     /* one of the lists does */
    uint64_t now_ms; /* of the whole transaction: what expires meanwhile is still there */
    uint32_t write_count;
    uint32_t part_count; /* files that are written to */
    uint32_t older_file; /* NO_OLDER_FILE, or that has to be of another format first */
    bool waits_for_sync; /* too much of earlier transactions is not on disk yet */
    struct transacted_write *writes_done; /* by file, then in order */
    struct transact_places places;
};

static bool step_writes(const struct kvstore_step *step)
{
    return step->kind != KVSTORE_STEP_GET && step->kind != KVSTORE_STEP_EXISTS;
}

/* Says what refused the transaction. Returns status. */
static enum kv_status refuse(struct transact *work, uint32_t at, bool in_guard,
                             enum kv_status status)
{
    work->told->at = at;
    work->told->in_guard = in_guard;
    return status;
}

/* Whether the call can be understood -------------------------------------------------------- */

static enum kv_status check_guard(const struct kvstore_guard *guard)
{
    if (!RESERVED_IS_CLEAR(guard->reserved))
        return KV_UNSUPPORTED;
    if ((unsigned)guard->kind >= KVSTORE_GUARDS)
        return KV_USAGE;
    return is_valid_key(guard->key) ? KV_OK : KV_BAD_KEY;
}

static enum kv_status check_step(const struct kvstore_step *step)
{
    if (!RESERVED_IS_CLEAR(step->reserved) || !RESERVED_IS_CLEAR(step->add.reserved) ||
        !RESERVED_BYTES_ARE_CLEAR(step->add.reserved_bytes))
        return KV_UNSUPPORTED;
    if ((unsigned)step->kind >= KVSTORE_STEPS)
        return KV_USAGE;
    return is_valid_key(step->key) ? KV_OK : KV_BAD_KEY;
}

static bool is_written_before(const struct kvstore_step *steps, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (step_writes(&steps[i]) && kv_slice_equal(steps[i].key, steps[at].key))
            return true;
    return false;
}

static enum kv_status check_list(struct transact *work, const struct kvstore_step *steps,
                                 uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        enum kv_status status = check_step(&steps[i]);
        if (status == KV_OK && step_writes(&steps[i]) && is_written_before(steps, i))
            status = KV_USAGE;
        if (status != KV_OK)
            return refuse(work, i, false, status);
        work->writes |= step_writes(&steps[i]);
    }
    return KV_OK;
}

static enum kv_status check_transaction(struct transact *work)
{
    const struct kvstore_transaction *asked = work->asked;
    enum kv_status status = KV_OK;
    if (!RESERVED_IS_CLEAR(asked->reserved))
        return KV_UNSUPPORTED;
    if ((uint64_t)asked->guard_count + asked->then_count + asked->otherwise_count >
        KVSTORE_MAX_TRANSACTION_STEPS)
        return KV_USAGE;
    for (uint32_t i = 0; i < asked->guard_count; i++) {
        status = check_guard(&asked->guards[i]);
        if (status != KV_OK)
            return refuse(work, i, true, status);
    }
    work->told->held = true; /* `at` is in `then` */
    status = check_list(work, asked->then, asked->then_count);
    if (status != KV_OK)
        return status;
    work->told->held = false;
    return check_list(work, asked->otherwise, asked->otherwise_count);
}

/* Locks ---------------------------------------------------------------------------------------- */

/* Adds the file of `key` to those that are locked. */
static void add_locked_file(struct transact *work, struct kv_slice key)
{
    uint32_t number = kvstore_file_of(work->store, key);
    uint32_t at = work->file_count;
    while (at > 0 && work->files[at - 1] > number)
        at--;
    if (at > 0 && work->files[at - 1] == number)
        return;
    memmove(&work->files[at + 1], &work->files[at],
            (work->file_count - at) * sizeof work->files[0]);
    work->files[at] = number;
    work->file_count++;
}

static void collect_files(struct transact *work)
{
    const struct kvstore_transaction *asked = work->asked;
    for (uint32_t i = 0; i < asked->guard_count; i++)
        add_locked_file(work, asked->guards[i].key);
    for (uint32_t i = 0; i < asked->then_count; i++)
        add_locked_file(work, asked->then[i].key);
    for (uint32_t i = 0; i < asked->otherwise_count; i++)
        add_locked_file(work, asked->otherwise[i].key);
}

/* Looking -------------------------------------------------------------------------------------- */

static enum kv_status find_in_transaction(struct transact *work, struct kv_slice key, bool blind,
                                          bool reads, struct write *found)
{
    enum kv_status status = write_find(work->store, key, blind, reads, found);
    found->live = status == KV_OK && found->lookup.found &&
                  !record_has_expired(&found->lookup.record, work->now_ms);
    return status;
}

static enum kv_status look_at_guard(struct transact *work, const struct kvstore_guard *guard,
                                    bool *holds)
{
    struct write found;
    enum kv_status status = find_in_transaction(work, guard->key, false, true, &found);
    if (status != KV_OK)
        return status;
    switch (guard->kind) {
    case KVSTORE_GUARD_PRESENT:
        *holds = found.live;
        break;
    case KVSTORE_GUARD_ABSENT:
        *holds = !found.live;
        break;
    case KVSTORE_GUARD_VERSION:
        *holds = (found.live ? found.lookup.record.version : 0) == guard->version;
        break;
    default:
        *holds = found.live && kv_slice_equal(found.lookup.record.value, guard->value);
        break;
    }
    return KV_OK;
}

static enum kv_status look_at_guards(struct transact *work)
{
    bool holds = true;
    for (uint32_t i = 0; i < work->asked->guard_count && holds; i++) {
        enum kv_status status = look_at_guard(work, &work->asked->guards[i], &holds);
        if (status != KV_OK)
            return refuse(work, i, true, status);
        work->told->guard = i;
    }
    work->told->held = holds;
    return KV_OK;
}

static enum kv_status give_value(const struct transact *work, const struct write *found,
                                 uint32_t at, struct kvstore_step_result *result)
{
    struct kv_slice value = found->lookup.record.value;
    void *place =
        work->asked->place ? work->asked->place(work->asked->context, at, value.size) : NULL;
    result->status = place ? KV_OK : KV_BUFFER_TOO_SMALL;
    const struct logfile *log = &found->file->current->log;
    uint32_t mark = mapguard_mark(log->guard);
    if (place)
        copy_bytes(place, value.data, value.size);
    if (!mapguard_held(log->guard, mark)) /* the copy may have zeros in it */
        return datafile_tell_broken(&work->store->context, found->file, log);
    return KV_OK;
}

static enum kv_status read_step(struct transact *work, const struct kvstore_step *step, uint32_t at,
                                struct kvstore_step_result *result)
{
    struct write found;
    enum kv_status status = find_in_transaction(work, step->key, false, true, &found);
    if (status != KV_OK)
        return status;
    result->status = found.live ? KV_OK : KV_NOT_FOUND;
    if (!found.live)
        return KV_OK;
    record_describe(&found.lookup.record, &result->entry);
    return step->kind == KVSTORE_STEP_GET ? give_value(work, &found, at, result) : KV_OK;
}

/* Fills in write->record, and *tail, as the step says. The text of a sum goes to `text`. The
 * result's status KV_NOT_FOUND: there is nothing to write. */
static enum kv_status prepare_write(struct write *write, const struct kvstore_step *step,
                                    char text[INTEGER_BYTES], struct kv_slice *tail,
                                    struct kvstore_step_result *result)
{
    enum kv_status status = KV_OK;
    result->status = KV_OK;
    *tail = kv_slice(NULL, 0);
    switch (step->kind) {
    case KVSTORE_STEP_PUT:
        write->record.value = step->value;
        write->record.expiry_ms =
            step->keep_expiry && write->live ? write->lookup.record.expiry_ms : step->expiry_ms;
        return KV_OK;
    case KVSTORE_STEP_ADD:
        return write_prepare_sum(write, step->delta, &step->add, text, &result->number);
    case KVSTORE_STEP_APPEND:
        if (write->live)
            write_keep_entry(write);
        *tail = step->value;
        result->number = (int64_t)(write->record.value.size + tail->size);
        return KV_OK;
    case KVSTORE_STEP_TOUCH:
        if (!write->live)
            break;
        write_keep_entry(write);
        write->record.expiry_ms = step->expiry_ms;
        return KV_OK;
    default:
        write->record.kind = RECORD_DELETE;
        if (write->live)
            return KV_OK;
        status = write_verify(write);
        if (status == KV_CORRUPT) /* a damaged entry is removed */
            return KV_OK;
        break;
    }
    result->status = KV_NOT_FOUND;
    return status;
}

static enum kv_status find_and_prepare(struct transact *work, const struct kvstore_step *step,
                                       char text[INTEGER_BYTES], struct write *write,
                                       struct kv_slice *tail, struct kvstore_step_result *result)
{
    bool blind =
        step->kind == KVSTORE_STEP_DELETE || (step->kind == KVSTORE_STEP_PUT && !step->keep_expiry);
    enum kv_status status = find_in_transaction(work, step->key, blind, false, write);
    if (status == KV_OK)
        status = prepare_write(write, step, text, tail, result);
    if (status != KV_OK)
        return status;
    uint64_t most = context_max_value_bytes(&work->store->context);
    uint64_t bytes = (uint64_t)write->record.value.size + tail->size;
    return write->record.kind == RECORD_PUT && bytes > most ? KV_VALUE_TOO_BIG : KV_OK;
}

/* Adds a write to those that are to be done, behind those to the same file and to files before. */
static void add_write(struct transact *work, const struct kvstore_step *step, uint32_t file,
                      uint32_t step_at, struct kvstore_step_result *result)
{
    uint32_t at = work->write_count++;
    for (; at > 0 && work->writes_done[at - 1].file > file; at--)
        work->writes_done[at] = work->writes_done[at - 1];
    work->writes_done[at] =
        (struct transacted_write){.step = step, .result = result, .file = file, .at = step_at};
}

static enum kv_status look_at_write(struct transact *work, const struct kvstore_step *step,
                                    uint32_t at, struct kvstore_step_result *result)
{
    struct write write;
    struct kv_slice tail;
    char text[INTEGER_BYTES];
    enum kv_status status = find_and_prepare(work, step, text, &write, &tail, result);
    if (status == KV_OK && result->status == KV_OK)
        add_write(work, step, write.file->number, at, result);
    return status;
}

static enum kv_status look_at_steps(struct transact *work)
{
    const struct kvstore_transaction *asked = work->asked;
    const struct kvstore_step *steps = work->told->held ? asked->then : asked->otherwise;
    uint32_t count = work->told->held ? asked->then_count : asked->otherwise_count;
    for (uint32_t i = 0; i < count; i++) {
        struct kvstore_step_result *result = &work->results[i];
        *result = (struct kvstore_step_result){0};
        enum kv_status status = step_writes(&steps[i]) ? look_at_write(work, &steps[i], i, result)
                                                       : read_step(work, &steps[i], i, result);
        if (status != KV_OK)
            return refuse(work, i, false, status);
    }
    return KV_OK;
}

/* Writing -------------------------------------------------------------------------------------- */

static struct datafile *file_of(const struct transact *work, uint32_t write)
{
    return &work->store->context.files[work->writes_done[write].file];
}

/* Is the write the first, or the last, to its file? */
static bool begins_part(const struct transact *work, uint32_t write)
{
    return write == 0 || work->writes_done[write].file != work->writes_done[write - 1].file;
}

static bool ends_part(const struct transact *work, uint32_t write)
{
    return write + 1 == work->write_count || begins_part(work, write + 1);
}

/* Says in the record where it belongs in the transaction. */
static void mark_record(const struct transact *work, uint32_t write, uint64_t number,
                        struct record *record)
{
    record->goes_on = !ends_part(work, write);
    if (record->goes_on || work->part_count == 1)
        return;
    uint32_t next = write + 1 < work->write_count ? write + 1 : 0;
    record->next_file = work->writes_done[next].file;
    record->parts = work->part_count;
    record->transaction = number;
}

/* Has a large value count that was copied before. False: nothing has changed. */
static bool append_placed(struct transact *work, struct transacted_write *done, struct write *write)
{
    struct kvstore *store = work->store;
    struct record *record = &write->record;
    struct placing *placing =
        done->step->kind == KVSTORE_STEP_PUT
            ? transact_places_use(&work->places, done->step, record->expiry_ms)
            : NULL;
    if (!placing)
        return false;
    if (store->cache)
        cache_remove(store->cache, write->file->number, write->lookup.hash, record->key);
    placing->record = *record;
    enum kv_status status =
        placing_publish(write->file, &write->lookup, placing, &done->result->written);
    if (status == KV_FULL)
        bound_forget_refusal(&store->bound);
    if (status != KV_OK)
        return false; /* writing it anew makes room, or says why there is none */
    record->version = placing->record.version;
    done->placing = placing;
    return true;
}

static enum kv_status append_write(struct transact *work, uint32_t at, uint64_t number)
{
    struct transacted_write *done = &work->writes_done[at];
    struct write write;
    struct kv_slice tail;
    char text[INTEGER_BYTES];
    enum kv_status status = find_and_prepare(work, done->step, text, &write, &tail, done->result);
    if (status != KV_OK)
        return status;
    KV_ASSERT(done->result->status == KV_OK);
    mark_record(work, at, number, &write.record);
    const struct generation *generation = write.file->current;
    done->appended = (struct appended){.offset = generation->log.tail,
                                       .entry_offset = generation->log.tail,
                                       .last = generation->last,
                                       .replaced = write.lookup};
    if (!append_placed(work, done, &write))
        status = write_append(&write, tail, &done->result->written);
    done->appended.size_bytes = generation->log.tail - done->appended.offset;
    done->appended.entry_bytes = done->result->written.record_bytes;
    if (done->placing)
        done->appended.entry_offset = placing_extent(write.file, done->placing)->offset;
    done->record = write.record;
    return status;
}

static void take_back(struct transact *work, uint32_t count)
{
    while (count-- > 0) {
        struct transacted_write *done = &work->writes_done[count];
        datafile_undo(file_of(work, count), &done->record, &done->appended);
        done->result->written = (struct kvstore_written){0};
    }
}

/* What the disk refuses to erase is a part without the others to who reads all of the files; but a
 * file that is taken over is taken to have its part (whole_transactions_keep). */
static void doubt_files(const struct transact *work)
{
    bool any = false;
    for (uint32_t i = 0; i < work->write_count; i++)
        any |= file_of(work, i)->current->log.unerased_end != 0;
    for (uint32_t i = 0; any && i < work->write_count; i++)
        datafile_doubt(file_of(work, i));
}

/* Whether the files are of a format that knows transactions; the first that is not becomes
 * work->older_file. */
static bool has_newest_format(struct transact *work)
{
    for (uint32_t i = 0; i < work->write_count; i++) {
        const struct datafile *file = file_of(work, i);
        if (file->current->log.identity.format_version == FILE_FORMAT_NEWEST)
            continue;
        work->older_file = file->number;
        return false;
    }
    return true;
}

static uint64_t appended_position(const struct transact *work, uint32_t write)
{
    return atomic_load_explicit(&file_of(work, write)->appended_bytes, memory_order_relaxed);
}

/* What is durable of the parts, in several files, is so together. NULL: no memory. */
static struct link *link_parts(struct transact *work)
{
    struct link *link = link_create(work->part_count);
    for (uint32_t i = 0; link && i < work->write_count; i++)
        if (begins_part(work, i))
            link_add_part(link, work->writes_done[i].file, appended_position(work, i));
    return link;
}

/* Ends the parts where the files end now; or, if the transaction was taken back, forgets them. */
static void end_parts(struct transact *work, struct link *link, bool done)
{
    if (!done) {
        link_drop(work->store->sync, link);
        for (uint32_t i = 0; i < work->write_count; i++)
            sync_after_append(work->store->sync, &work->store->context, file_of(work, i));
        return;
    }
    for (uint32_t i = 0; i < work->write_count; i++)
        if (begins_part(work, i))
            link_end_part(link, work->writes_done[i].file, appended_position(work, i));
    work->waits_for_sync = link_is_written(work->store->sync, link);
}

/* Nothing is taken back any more. */
static void confirm(struct transact *work)
{
    for (uint32_t i = 0; i < work->write_count; i++) {
        const struct transacted_write *done = &work->writes_done[i];
        if (done->placing)
            placing_confirm(file_of(work, i), done->placing, &done->appended.replaced,
                            done->appended.size_bytes);
        else
            datafile_confirm(file_of(work, i), &done->appended.replaced, done->appended.offset,
                             done->appended.size_bytes);
        write_announce(work->store, file_of(work, i), &done->record);
    }
}

static void begin_changes(struct transact *work)
{
    struct shared_store *shared = work->store->context.shared;
    shared_store_begin_transaction(shared);
    for (uint32_t i = 0; i < work->write_count; i++)
        if (begins_part(work, i))
            generation_begin_transaction(file_of(work, i)->current);
}

static void end_changes(struct transact *work)
{
    for (uint32_t i = 0; i < work->write_count; i++)
        if (begins_part(work, i))
            generation_end_transaction(file_of(work, i)->current);
    shared_store_end_transaction(work->store->context.shared);
}

static enum kv_status append_all(struct transact *work, uint64_t number)
{
    enum kv_status status = KV_OK;
    uint32_t done = 0;
    while (done < work->write_count && status == KV_OK) {
        status = append_write(work, done, number);
        if (status == KV_OK)
            done++;
    }
    if (status != KV_OK) {
        take_back(work, done);
        refuse(work, work->writes_done[done].at, false, status);
    }
    return status;
}

static enum kv_status append_several(struct transact *work)
{
    struct link *link = NULL;
    uint64_t number = 0;
    if (!has_newest_format(work))
        return KV_BUSY; /* for kvstore_transact */
    if (work->part_count > 1) {
        link = link_parts(work);
        if (!link)
            return refuse(work, work->writes_done[0].at, false, KV_NO_MEMORY);
        number = link_open(work->store->sync, link);
    }
    begin_changes(work);
    enum kv_status status = append_all(work, number);
    if (status == KV_OK)
        confirm(work);
    else if (link)
        doubt_files(work);
    end_changes(work);
    if (link)
        end_parts(work, link, status == KV_OK);
    return status;
}

static enum kv_status append_writes(struct transact *work)
{
    for (uint32_t i = 0; i < work->write_count; i++)
        work->part_count += begins_part(work, i);
    return work->write_count > 1 ? append_several(work) : append_all(work, 0);
}

/* ---------------------------------------------------------------------------------------------- */

static enum kv_status transact_under_locks(struct transact *work)
{
    enum kv_status status = look_at_guards(work);
    if (status == KV_OK)
        status = look_at_steps(work);
    if (status == KV_OK && work->write_count > 0)
        status = append_writes(work);
    return status;
}

/* Large values --------------------------------------------------------------------------------- */

/* How often places are followed to another generation, at most. */
#define FOLLOW_TRIES 2u

static bool is_large_put(const struct kvstore_step *step)
{
    return step->kind == KVSTORE_STEP_PUT && step->value.size >= PLACE_MIN_BYTES;
}

static uint32_t count_large_puts(const struct kvstore_step *steps, uint32_t count)
{
    uint32_t large = 0;
    for (uint32_t i = 0; i < count; i++)
        large += is_large_put(&steps[i]);
    return large;
}

/* Notes the first file of another format that is to be written to; returns whether there is none.
 */
static bool may_place(struct transact *work, const struct kvstore_step *steps, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = kvstore_file_of(work->store, steps[i].key);
        const struct logfile *log = &work->store->context.files[number].current->log;
        if (step_writes(&steps[i]) && log->identity.format_version != FILE_FORMAT_NEWEST) {
            work->older_file = number;
            return false;
        }
    }
    return true;
}

/* Takes places for the large values of the list that will be done, as it seems now, unless one of
 * their files is of another format. Holds: the locks of all files. */
static void take_value_places(struct transact *work)
{
    const struct kvstore_transaction *asked = work->asked;
    work->older_file = NO_OLDER_FILE;
    if (look_at_guards(work) != KV_OK)
        return;
    const struct kvstore_step *steps = work->told->held ? asked->then : asked->otherwise;
    uint32_t count = work->told->held ? asked->then_count : asked->otherwise_count;
    if (count_large_puts(steps, count) == 0 || !may_place(work, steps, count))
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct kvstore_step_result unwanted;
        struct write write;
        struct kv_slice tail;
        char text[INTEGER_BYTES];
        if (is_large_put(&steps[i]) &&
            find_and_prepare(work, &steps[i], text, &write, &tail, &unwanted) == KV_OK)
            transact_places_take(&work->places, work->store, &steps[i], &write);
    }
}

/* Copies the large values, before the transaction has its locks. */
static void place_values(struct transact *work)
{
    const struct kvstore_transaction *asked = work->asked;
    const struct store_context *context = &work->store->context;
    const struct kvstore_transacted told = *work->told;
    uint32_t large = count_large_puts(asked->then, asked->then_count) +
                     count_large_puts(asked->otherwise, asked->otherwise_count);
    if (large == 0)
        return;
    transact_places_begin(&work->places, large);
    for (uint32_t tries = 0; tries <= work->file_count; tries++) {
        lockset_lock_several(context->locks, work->files, work->file_count, true);
        work->now_ms = clock_realtime_ms();
        take_value_places(work);
        lockset_unlock_several(context->locks, work->files, work->file_count, true);
        logfile_end(context->options.io);
        if (work->older_file == NO_OLDER_FILE)
            break;
        sync_raise_format(work->store->sync, work->older_file); /* once for each, unless it fails */
    }
    *work->told = told;
    transact_places_fill(&work->places);
}

/* Takes the locks, with all values copied to where they would count. */
static void lock_files(struct transact *work)
{
    struct lockset *locks = work->store->context.locks;
    for (unsigned tries = 0;; tries++) {
        lockset_lock_several(locks, work->files, work->file_count, work->writes);
        if (!transact_places_follow(&work->places) || tries == FOLLOW_TRIES)
            return;
        lockset_unlock_several(locks, work->files, work->file_count, work->writes);
        transact_places_fill(&work->places);
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void evict_after(struct transact *work)
{
    struct kvstore *store = work->store;
    for (uint32_t i = 0; i < work->write_count; i++)
        if (begins_part(work, i) && store->bound.evict != KVSTORE_EVICT_NONE)
            write_evict(store, work->writes_done[i].file);
}

static enum kv_status transact_once(struct transact *work)
{
    const struct store_context *context = &work->store->context;
    work->write_count = work->part_count = 0;
    work->waits_for_sync = false;
    work->older_file = NO_OLDER_FILE;
    lock_files(work);
    work->now_ms = clock_realtime_ms();
    enum kv_status status = transact_under_locks(work);
    transact_places_end(&work->places, work->store);
    lockset_unlock_several(context->locks, work->files, work->file_count, work->writes);
    logfile_end(context->options.io);
    if (work->waits_for_sync)
        (void)kvstore_sync(work->store); /* a failure is told to who asks for durability */
    if (status == KV_OK)
        evict_after(work);
    return status;
}

static struct kv_slice key_that_failed(const struct transact *work)
{
    const struct kvstore_transaction *asked = work->asked;
    const struct kvstore_step *steps = work->told->held ? asked->then : asked->otherwise;
    return steps[work->told->at].key;
}

enum kv_status kvstore_transact(struct kvstore *store,
                                const struct kvstore_transaction *transaction,
                                struct kvstore_step_result *results,
                                struct kvstore_transacted *transacted)
{
    struct kvstore_transacted unwanted = {0};
    struct transacted_write writes_done[KVSTORE_MAX_TRANSACTION_STEPS]; /* 40 KB: not cleared */
    struct transact work = {.store = store,
                            .asked = transaction,
                            .results = results,
                            .told = transacted ? transacted : &unwanted,
                            .writes_done = writes_done};
    *work.told = (struct kvstore_transacted){0};
    enum kv_status status = check_transaction(&work);
    if (status != KV_OK)
        return status;
    if (work.writes && !store->sync)
        return KV_READ_ONLY;
    collect_files(&work);
    place_values(&work);
    unsigned tries = 0;
    do {
        status = transact_once(&work);
        while (work.older_file != NO_OLDER_FILE) { /* once for each file, unless it fails */
            sync_raise_format(store->sync, work.older_file);
            status = transact_once(&work);
        }
    } while ((status == KV_NO_SPACE || status == KV_FULL) &&
             write_may_repeat(store, key_that_failed(&work), status, &tries));
    return status;
}
