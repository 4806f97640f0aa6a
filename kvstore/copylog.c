#include "kvstore/copylog.h"

#include <errno.h>

#include "common/clock.h"
#include "kvstore/logtail.h"

/* What one lock hold copies at most, but for a single record that is larger. */
#define COPY_RECORDS 128u
#define COPY_BYTES   (UINT64_C(64) << 10)

/* Candidates whose slots are asked for together: about as many as one lock hold gets through. */
#define PREFETCH_RECORDS 128u

/* How much of the log one step reads at most, but for a single record that is larger: a compaction
 * that is to be abandoned soon notices. */
#define READ_BYTES (UINT64_C(1) << 20)

void copylog_start(struct copylog *copy, struct kvstore *store, struct datafile *file,
                   struct generation *next)
{
    copy->store = store;
    copy->file = file;
    copy->at = FILE_HEADER_BYTES;
    copy->candidate_count = copy->candidate_next = 0;
    lockset_write_lock(store->locks, file->number);
    const struct generation *current = file->current;
    copy->end = current->log.tail;
    /* Deletes leave no trace in the new log; their versions must not be given again. */
    next->max_version = current->max_version;
    int noted = logfile_note_progress(&next->log, FILE_HEADER_BYTES, current->max_version);
    file->next = next;
    file->next_status = noted == 0 ? KV_OK : KV_IO;
    lockset_write_unlock(store->locks, file->number);
}

bool copylog_is_done(const struct copylog *copy)
{
    return copy->at >= copy->end && copy->candidate_next == copy->candidate_count;
}

bool copylog_is_complete(const struct copylog *copy)
{
    const struct datafile *file = copy->file;
    lockset_read_lock(copy->store->locks, file->number);
    bool complete = file->next_status != KV_OK || /* then it says more */
                    index_count(file->next->index) >= index_count(file->current->index);
    lockset_read_unlock(copy->store->locks, file->number);
    return complete;
}

/* Reads and verifies the next records, without a lock: this part of the log does not change any
 * more, and only the compactor puts another generation in its place. Large ones are verified when it
 * is known whether they are alive: most are not, and nothing but their headers is read. */
static enum kv_status read_candidates(struct copylog *copy)
{
    const struct logfile *log = &copy->file->current->log;
    uint64_t read_end = copy->at + READ_BYTES;
    copy->candidate_count = copy->candidate_next = 0;
    logfile_begin(log, WINDOW_WALK);
    while (copy->at < copy->end && copy->at < read_end &&
           copy->candidate_count < COPYLOG_BATCH_RECORDS) {
        struct candidate *candidate = &copy->candidates[copy->candidate_count];
        if (copy->candidate_count > 0 && !logfile_holds(log, WINDOW_WALK, copy->at))
            break; /* to read on would take the candidates' bytes away */
        enum record_verdict verdict =
            logfile_walk(log, WINDOW_WALK, copy->at, copy->end, &candidate->record,
                         &candidate->size_bytes, &candidate->verified);
        if (verdict != RECORD_VALID)
            return verdict == RECORD_UNREADABLE ? kv_status_from_errno(errno) : KV_CORRUPT;
        candidate->offset = copy->at;
        copy->at += candidate->size_bytes;
        if (candidate->record.kind != RECORD_PUT)
            continue;
        candidate->hash = keyhash_index(keyhash(copy->store->seed, candidate->record.key));
        copy->candidate_count++;
    }
    return KV_OK;
}

/* Does the index still point at the record? Then *lookup is as if its key had been looked up.
 * Holds: the file's lock. */
static bool is_current(const struct generation *current, const struct candidate *candidate,
                       struct lookup *lookup)
{
    index_probe_start(&lookup->probe, current->index, candidate->hash);
    while (index_probe_next(&lookup->probe, &lookup->offset)) {
        if (lookup->offset != candidate->offset)
            continue;
        lookup->found = true;
        lookup->hash = candidate->hash;
        lookup->record = candidate->record;
        lookup->size_bytes = candidate->size_bytes;
        return true;
    }
    return false;
}

/* Takes those that were not verified, and are dead, from the candidates, and verifies the others, so
 * that this is not done under the lock for writing. KV_CORRUPT: of the record at copy->at. */
static enum kv_status verify_candidates(struct copylog *copy)
{
    struct datafile *file = copy->file;
    const struct generation *current = file->current;
    uint32_t kept = 0;
    lockset_read_lock(copy->store->locks, file->number);
    for (uint32_t i = 0; i < copy->candidate_count; i++) {
        struct lookup lookup;
        const struct candidate *candidate = &copy->candidates[i];
        if (candidate->verified || is_current(current, candidate, &lookup))
            copy->candidates[kept++] = *candidate;
    }
    lockset_read_unlock(copy->store->locks, file->number);
    copy->candidate_count = kept;
    for (uint32_t i = 0; i < kept; i++) {
        const struct candidate *candidate = &copy->candidates[i];
        if (candidate->verified ||
            logfile_verify(&current->log, candidate->offset, &candidate->record))
            continue;
        copy->at = candidate->offset;
        return KV_CORRUPT;
    }
    return KV_OK;
}

static bool has_unverified(const struct copylog *copy)
{
    for (uint32_t i = 0; i < copy->candidate_count; i++)
        if (!copy->candidates[i].verified)
            return true;
    return false;
}

/* Copies the record if it is alive, and adds to *copied_bytes if it does. Holds: the file's lock
 * for writing. */
static enum kv_status copy_candidate(struct copylog *copy, const struct candidate *candidate,
                                     uint64_t now_ms, uint64_t *copied_bytes)
{
    struct datafile *file = copy->file;
    struct lookup lookup;
    if (!is_current(file->current, candidate, &lookup))
        return KV_OK;
    if (record_has_expired(&candidate->record, now_ms)) {
        datafile_expire(copy->store, file, &lookup);
        return KV_OK;
    }
    *copied_bytes += candidate->size_bytes;
    /* The key can not be in the next generation: a later write would have made this record dead. */
    struct lookup absent = {.hash = candidate->hash};
    return generation_append(file->next, &absent, &candidate->record, kv_slice(NULL, 0));
}

/* Asks for the slots of the next candidates in both indexes, so that the copying does not wait for
 * one cache miss after the other while it holds the lock. Holds: the file's lock for writing. */
static void prefetch_slots(const struct copylog *copy)
{
    const struct datafile *file = copy->file;
    uint32_t end = copy->candidate_next + PREFETCH_RECORDS;
    for (uint32_t i = copy->candidate_next; i < end && i < copy->candidate_count; i++) {
        index_prefetch(file->current->index, copy->candidates[i].hash);
        index_prefetch(file->next->index, copy->candidates[i].hash);
    }
}

/* After a failure the index of the next generation may speak of records that its log does not have:
 * who writes from then on must not look anything up in it. Holds: the file's lock for writing. */
static enum kv_status copy_some(struct copylog *copy, uint64_t now_ms)
{
    enum kv_status status = copy->file->read_only ? KV_READ_ONLY : copy->file->next_status;
    uint64_t copied_bytes = 0;
    uint32_t copied_records = 0;
    prefetch_slots(copy);
    struct logfile *log = &copy->file->next->log;
    logtail_open_bundle(log);
    while (status == KV_OK && copy->candidate_next < copy->candidate_count &&
           copied_records < COPY_RECORDS && copied_bytes < COPY_BYTES) {
        uint64_t bytes_before = copied_bytes;
        status =
            copy_candidate(copy, &copy->candidates[copy->candidate_next++], now_ms, &copied_bytes);
        copied_records += copied_bytes > bytes_before;
    }
    enum kv_status closed = logtail_close_bundle(log);
    copy->file->next_status = status == KV_OK ? closed : status;
    return copy->file->next_status;
}

enum kv_status copylog_step(struct copylog *copy)
{
    enum kv_status status = KV_OK;
    if (copy->candidate_next == copy->candidate_count) {
        status = read_candidates(copy);
        if (status == KV_OK && has_unverified(copy))
            status = verify_candidates(copy);
    }
    if (status != KV_OK)
        return status;
    uint64_t now_ms = clock_realtime_ms();
    lockset_write_lock(copy->store->locks, copy->file->number);
    status = copy_some(copy, now_ms);
    lockset_write_unlock(copy->store->locks, copy->file->number);
    return status;
}
