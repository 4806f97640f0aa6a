#include "kvstore/maintenance/copylog.h"

#include <errno.h>
#include <inttypes.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/log/logtail.h"
#include "kvstore/format/sizes.h"
#include "kvstore/maintenance/past_logs.h"
#include "kvstore/maintenance/sweep.h"
#include "kvstore/table/placing.h"

/* The most records and bytes that are copied under one lock when the next generation is shared; a
 * single record may be larger. */
#define SHARED_RECORDS 128u
#define SHARED_BYTES   (UINT64_C(64) << 10)

/* How many candidates ahead a slot of an index is prefetched. */
#define PREFETCH_RECORDS 32u

/* The most bytes of the log that one step reads, so that a compaction that must be abandoned
 * notices soon; a single record may be larger. */
#define READ_BYTES (UINT64_C(1) << 20)

/* How long the copylog looks for a sound record behind a damaged one: damaged bytes may look like
 * headers of large records, whose checksums take long. */
#define SEARCH_NS UINT64_C(2000000000)

/* The next generation is shared when no more than SHARE_BYTES are left, or more than 1/SHARE_PART
 * of the pass before: writers are then too fast to catch up with. */
#define SHARE_BYTES (UINT64_C(64) << 10)
#define SHARE_PART  2u

void copylog_start(struct copylog *copy, const struct maintenance *with, struct datafile *file,
                   struct generation *next)
{
    copy->with = *with;
    copy->file = file;
    copy->next = next;
    copy->passes = 0;
    copy->shared = false;
    copy->at = FILE_HEADER_BYTES;
    copy->candidate_count = copy->candidate_next = 0;
    copy->carried_count = 0;
    copy->may_miss = false;
    copy->missed_from = 0;
    copy->first_pass_end = 0;
    lockset_read_lock(with->context->locks, file->number);
    copy->end = file->current->log.tail;
    copy->pass_bytes = copy->end - copy->at;
    lockset_read_unlock(with->context->locks, file->number);
}

static bool has_candidates(const struct copylog *copy)
{
    return copy->candidate_next < copy->candidate_count;
}

bool copylog_is_done(const struct copylog *copy)
{
    return copy->shared && copy->at >= copy->end && !has_candidates(copy);
}

bool copylog_is_complete(const struct copylog *copy)
{
    const struct datafile *file = copy->file;
    lockset_read_lock(copy->with.context->locks, file->number);
    bool complete = file->next_status != KV_OK || /* the status says more */
                    index_count(file->next->index) >= index_count(file->current->index);
    lockset_read_unlock(copy->with.context->locks, file->number);
    return complete;
}

/* Damaged bytes ----------------------------------------------------------------------------- */

/* Collects the entries of a segment of the index, from *hash on, whose records are in [from, end),
 * and sets *hash to where the next segment begins. Returns how many. Takes the file's lock. */
static size_t collect_entries_in(const struct copylog *copy, uint64_t from, uint64_t end,
                                 uint64_t *hash, struct index_item items[INDEX_SEGMENT_SLOTS])
{
    const struct store_context *context = copy->with.context;
    lockset_read_lock(context->locks, copy->file->number);
    size_t count =
        index_collect(copy->file->current->index, *hash, items, INDEX_SEGMENT_SLOTS, hash);
    lockset_read_unlock(context->locks, copy->file->number);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (items[i].offset_bytes >= from && items[i].offset_bytes < end)
            items[kept++] = items[i];
    return kept;
}

/* Returns true if the index has an entry with its record in [from, end). An index without such an
 * entry never gets one. Takes the file's lock for one segment at a time. */
static bool has_entry_in(const struct copylog *copy, uint64_t from, uint64_t end)
{
    struct index_item items[INDEX_SEGMENT_SLOTS];
    size_t found = 0;
    for (uint64_t hash = 0; hash < INDEX_HASH_END && found == 0;)
        found = collect_entries_in(copy, from, end, &hash, items);
    return found > 0;
}

static enum kv_status carry_bytes(struct copylog *copy, uint64_t from, uint64_t end)
{
    const struct logfile *log = &copy->file->current->log;
    enum kv_status status = KV_OK;
    logfile_begin(log, READ_BUFFER_VISIT);
    for (uint64_t at = from, piece; at < end && status == KV_OK; at += piece) {
        piece = at_most(end - at, READ_BUFFER_KEPT_BYTES);
        const uint8_t *bytes = logfile_bytes(log, READ_BUFFER_VISIT, at, piece);
        status = bytes ? generation_append_damaged(copy->next, bytes, piece)
                       : kv_status_from_errno(errno);
    }
    return status;
}

/* Copies that range as it is, with its entries in the index. In the first pass alone: whatever the
 * next generation gets of these keys later is newer. */
static enum kv_status carry_damaged(struct copylog *copy, uint64_t from, uint64_t end)
{
    const struct file_name name = file_name(copy->file->number, FILE_LOG);
    struct index_item items[INDEX_SEGMENT_SLOTS];
    uint64_t begin = copy->next->log.tail;
    uint64_t entries = 0;
    if (copy->carried_count == COPYLOG_MOST_CARRIED)
        return KV_CORRUPT;
    enum kv_status status = carry_bytes(copy, from, end);
    for (uint64_t hash = 0; hash < INDEX_HASH_END && status == KV_OK;) {
        size_t count = collect_entries_in(copy, from, end, &hash, items);
        for (size_t i = 0; i < count && status == KV_OK; i++) {
            items[i].offset_bytes += begin - from;
            status = generation_adopt_damaged(copy->next, items[i].hash, items[i].offset_bytes);
            if (entries++ == 0)
                copy->carried[copy->carried_count++] = items[i];
        }
    }
    if (status == KV_OK)
        log_warn("%s/%s: %" PRIu64 " bytes from offset %" PRIu64
                 " are damaged, and in use by %" PRIu64
                 " keys; the compaction keeps them as they are, from offset %" PRIu64
                 " of the new log on",
                 copy->with.context->dir, name.text, end - from, from, entries, begin);
    return status;
}

void copylog_tell_carried(const struct copylog *copy)
{
    const struct store_context *context = copy->with.context;
    struct datafile *file = copy->file;
    lockset_read_lock(context->locks, file->number);
    for (uint32_t i = 0; i < copy->carried_count; i++) {
        struct index_probe probe;
        uint64_t offset;
        index_probe_start(&probe, file->current->index, copy->carried[i].hash);
        while (index_probe_next(&probe, &offset))
            if (offset == copy->carried[i].offset_bytes)
                datafile_tell_damage(context, file, offset, kv_slice(NULL, 0));
    }
    lockset_read_unlock(context->locks, file->number);
}

/* Returns the offset of the first sound record behind the one at copy->at; copy->end if there is
 * none; copy->at if that is not found soon, or if the record there is sound when it is read
 * again. */
static uint64_t find_sound(const struct copylog *copy)
{
    const struct logfile *log = &copy->file->current->log;
    uint64_t until_ns = clock_monotonic_ns() + SEARCH_NS;
    for (uint64_t at = copy->at; at < copy->end; at += RECORD_ALIGNMENT) {
        struct record record;
        uint64_t size_bytes;
        logfile_begin(log, READ_BUFFER_VISIT);
        enum record_verdict verdict =
            logfile_read_before(log, READ_BUFFER_VISIT, at, copy->end, &record, &size_bytes);
        if (verdict == RECORD_VALID || verdict == RECORD_SUPERSEDED)
            return at;
        if (clock_monotonic_ns() > until_ns)
            return copy->at;
    }
    return copy->end;
}

/* Passes damaged bytes: leaves them out if nothing in use lies there, else carries them over. Only
 * in the first pass: later a damaged record may have been the deletion of a key that the next
 * generation has. */
static enum kv_status pass_damaged(struct copylog *copy)
{
    uint64_t end = copy->passes == 0 ? find_sound(copy) : copy->at;
    enum kv_status status = KV_OK;
    if (end == copy->at)
        return KV_CORRUPT;
    if (has_entry_in(copy, copy->at, end))
        status = carry_damaged(copy, copy->at, end);
    else
        log_warn("%s/%s: %" PRIu64 " bytes from offset %" PRIu64
                 " are damaged; nothing that is in use lies there, and the compaction leaves them "
                 "out",
                 copy->with.context->dir, file_name(copy->file->number, FILE_LOG).text,
                 end - copy->at, copy->at);
    copy->may_miss = true;
    if (status == KV_OK)
        copy->at = end;
    return status;
}

/* Reading -------------------------------------------------------------------------------------- */

/* Returns true if a record may have to be copied. In the first pass the next generation has no
 * entry that a delete could delete. The content of an extent with a damaged head, which is met
 * where it lies, is copied for the value pointer that names it. */
static bool is_candidate(const struct copylog *copy, const struct record *record)
{
    if (record->in_extent && record->content_at == 0)
        return false;
    return record->kind == RECORD_PUT || (copy->passes > 0 && record->kind == RECORD_DELETE);
}

/* Returns true if the index points at the extent of the superseded pointer, and what is there is no
 * later content of the key: then it is the record's, damaged. Takes the file's lock. */
static bool has_lost_content(const struct copylog *copy, const struct record *superseded)
{
    const struct store_context *context = copy->with.context;
    const struct generation *current = copy->file->current;
    uint32_t hash = keyhash_index(keyhash(&context->hash_key, superseded->key));
    struct index_probe probe;
    uint64_t offset;
    bool lost = false;
    lockset_read_lock(context->locks, copy->file->number);
    index_probe_start(&probe, current->index, hash);
    while (!lost && index_probe_next(&probe, &offset)) {
        struct record content;
        uint64_t size_bytes;
        lost = offset == superseded->content_at &&
               (logfile_parse(&current->log, READ_BUFFER_VISIT, offset, &content, &size_bytes) !=
                    RECORD_VALID ||
                content.version <= superseded->version);
    }
    lockset_read_unlock(context->locks, copy->file->number);
    return lost;
}

/* Passes a superseded pointer. A content that is lost is found in the index at the end of the first
 * pass (copy_missed). */
static enum kv_status pass_superseded(struct copylog *copy, const struct candidate *candidate)
{
    if (has_lost_content(copy, &candidate->record)) {
        if (copy->passes > 0)
            return KV_CORRUPT;
        copy->may_miss = true;
    }
    copy->at += candidate->size_bytes;
    return KV_OK;
}

/* Reads and verifies the next records, without a lock: this part of the log does not change any
 * more, and only the compactor replaces the generation. Large records are verified when it is known
 * that they are alive: most are not, and only their headers are read. */
static enum kv_status read_candidates(struct copylog *copy)
{
    const struct logfile *log = &copy->file->current->log;
    uint64_t read_end = copy->at + READ_BYTES;
    copy->candidate_count = copy->candidate_next = 0;
    logfile_begin(log, READ_BUFFER_WALK);
    while (copy->at < copy->end && copy->at < read_end &&
           copy->candidate_count < COPYLOG_BATCH_RECORDS) {
        struct candidate *candidate = &copy->candidates[copy->candidate_count];
        if (copy->candidate_count > 0 && !logfile_holds(log, READ_BUFFER_WALK, copy->at))
            break; /* the next read would take the candidates' bytes away */
        enum record_verdict verdict =
            logfile_walk(log, READ_BUFFER_WALK, copy->at, copy->end, &candidate->record,
                         &candidate->size_bytes, &candidate->verified);
        if (verdict == RECORD_UNREADABLE)
            return kv_status_from_errno(errno);
        if (verdict == RECORD_SUPERSEDED) {
            enum kv_status status = pass_superseded(copy, candidate);
            if (status != KV_OK)
                return status;
            continue;
        }
        if (verdict != RECORD_VALID) {
            enum kv_status status = pass_damaged(copy);
            if (status != KV_OK)
                return status;
            continue;
        }
        candidate->offset = record_entry_offset(&candidate->record, copy->at);
        copy->at += candidate->size_bytes;
        candidate->size_bytes = record_entry_bytes(&candidate->record, candidate->size_bytes);
        if (!is_candidate(copy, &candidate->record))
            continue;
        candidate->hash =
            keyhash_index(keyhash(&copy->with.context->hash_key, candidate->record.key));
        copy->candidate_count++;
    }
    return KV_OK;
}

/* Which are alive ------------------------------------------------------------------------------ */

/* Returns true if the index still points at the candidate's record. If so, *lookup is as if its key
 * had been looked up. Holds: the file's lock. */
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

/* Returns true if the record is copied without the lock even when the next generation is shared. */
static bool is_placed_apart(const struct copylog *copy, const struct candidate *candidate)
{
    return copy->shared && candidate->record.value.size >= PLACE_MIN_BYTES &&
           copy->next->log.identity.format_version == FILE_FORMAT_NEWEST;
}

/* Returns how many candidates the step copies: all there are or, once shared, as many as may be
 * copied under one lock. A record that is placed is alone. */
static uint32_t step_size(const struct copylog *copy)
{
    uint32_t left = copy->candidate_count - copy->candidate_next;
    const struct candidate *first = &copy->candidates[copy->candidate_next];
    if (!copy->shared)
        return left;
    uint32_t count = 0;
    uint64_t bytes = 0;
    while (count < left && count < SHARED_RECORDS && bytes < SHARED_BYTES) {
        if (is_placed_apart(copy, &first[count]))
            return count > 0 ? count : 1;
        bytes += first[count++].size_bytes;
    }
    return count;
}

/* Notes which candidates are alive. An expired entry is taken out, unless the sweeper is to write
 * that down. Holds: the file's lock for writing. */
static void find_alive(struct copylog *copy, struct candidate *candidates, uint32_t count,
                       uint64_t now_ms)
{
    struct datafile *file = copy->file;
    const struct index *index = file->current->index;
    KV_ASSERT(lockset_is_write_held(copy->with.context->locks, file->number));
    bool keep_expired = past_logs_are_wanted(copy->with.past);
    for (uint32_t i = 0; i < count && i < PREFETCH_RECORDS; i++)
        index_prefetch(index, candidates[i].hash);
    for (uint32_t i = 0; i < count; i++) {
        struct lookup lookup;
        if (i + PREFETCH_RECORDS < count)
            index_prefetch(index, candidates[i + PREFETCH_RECORDS].hash);
        bool found = is_current(file->current, &candidates[i], &lookup);
        bool goes = found && !keep_expired && record_has_expired(&candidates[i].record, now_ms);
        candidates[i].alive = found && !(goes && sweep_out(copy->with.cache, file, &lookup));
    }
}

/* Finds the candidates that are alive, and verifies those of them that were not verified when they
 * were read, without the lock. The lock is taken for writing, since preferred writers keep readers
 * waiting for as long as they are busy. Damaged records are carried over. KV_CORRUPT: of the
 * record at copy->at. */
static enum kv_status verify_alive(struct copylog *copy, struct candidate *candidates,
                                   uint32_t count, uint64_t now_ms)
{
    lockset_write_lock(copy->with.context->locks, copy->file->number);
    find_alive(copy, candidates, count, now_ms);
    lockset_write_unlock(copy->with.context->locks, copy->file->number);
    for (uint32_t i = 0; i < count; i++) {
        if (!candidates[i].alive || candidates[i].verified ||
            logfile_verify(&copy->file->current->log, candidates[i].offset, &candidates[i].record))
            continue;
        uint64_t offset = candidates[i].offset;
        enum kv_status status = copy->passes == 0
                                    ? carry_damaged(copy, offset, offset + candidates[i].size_bytes)
                                    : KV_CORRUPT;
        if (status == KV_CORRUPT)
            copy->at = offset;
        if (status != KV_OK)
            return status;
        candidates[i].alive = false; /* the next generation has it */
    }
    return KV_OK;
}

static bool has_unverified(const struct candidate *candidates, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!candidates[i].verified)
            return true;
    return false;
}

/* Copying -------------------------------------------------------------------------------------- */

static void prefetch_alive(const struct index *index, const struct candidate *candidates,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].alive)
            index_prefetch(index, candidates[i].hash);
}

/* Copies the record of a candidate as a placed one, if it is large, so that its bytes may have
 * another content one day. `lookup` is of its key in the next generation, which no other thread
 * writes to. */
static enum kv_status copy_as_placed(struct copylog *copy, struct lookup *lookup,
                                     const struct record *record)
{
    struct generation *next = copy->next;
    struct extent extent;
    if (copy->shared || record->kind != RECORD_PUT || record->value.size < PLACE_MIN_BYTES ||
        next->log.identity.format_version != FILE_FORMAT_NEWEST)
        return generation_append(next, lookup, record, kv_slice(NULL, 0));
    bool bundled = next->log.bundle != NULL;
    enum kv_status status = bundled ? logtail_close_bundle(&next->log) : KV_OK;
    if (status == KV_OK)
        status = generation_append_extent(next, record, &extent);
    if (status == KV_OK)
        status = logtail_fill_extent(&next->log, extent.offset, record, kv_slice(NULL, 0));
    if (status == KV_OK)
        status = generation_append_pointer(next, lookup, record, &extent);
    if (bundled)
        logtail_open_bundle(&next->log);
    return status;
}

/* Copies a candidate in the first pass, when the next generation has no other record of the key: a
 * later record would have made this one dead. */
static enum kv_status copy_first(struct copylog *copy, const struct candidate *candidate)
{
    struct lookup absent = {.hash = candidate->hash};
    struct record record = candidate->record;
    record_detach(&record);
    return candidate->alive ? copy_as_placed(copy, &absent, &record) : KV_OK;
}

/* Copies a candidate in a later pass, when the next generation may have an older record of the key,
 * damaged or not, which is replaced or deleted (all that the first pass has copied is older), or,
 * if shared, a later one. A dead put need not be repeated, since the record that made it dead is
 * still to come, unless it expired, which leaves no record. `extent`, if not NULL, has the record
 * of a candidate that is alive. */
static enum kv_status copy_later(struct copylog *copy, const struct candidate *candidate,
                                 const struct extent *extent)
{
    struct lookup lookup;
    bool deletes = !candidate->alive &&
                   (candidate->record.kind == RECORD_DELETE || candidate->record.expiry_ms != 0);
    if (!candidate->alive && !deletes)
        return KV_OK;
    generation_find(copy->next, candidate->hash, candidate->record.key, &lookup);
    if (lookup.error != 0)
        return kv_status_from_errno(lookup.error);
    bool is_there = lookup.found || lookup.damaged;
    bool is_of_first_pass = is_there && lookup.offset < copy->first_pass_end;
    if (lookup.damaged && !is_of_first_pass)
        return KV_CORRUPT;
    if (is_there ? !is_of_first_pass && lookup.record.version >= candidate->record.version
                 : deletes)
        return KV_OK;
    struct record record = candidate->record;
    record_detach(&record);
    if (deletes)
        record = (struct record){
            .kind = RECORD_DELETE, .version = record.version, .key = candidate->record.key};
    if (extent && !deletes)
        return generation_append_pointer(copy->next, &lookup, &record, extent);
    return copy_as_placed(copy, &lookup, &record);
}

/* Nobody reads the records of the first pass before it is over, so that their writes can be
 * bundled. */
static enum kv_status copy_unshared(struct copylog *copy, const struct candidate *candidates,
                                    uint32_t count)
{
    enum kv_status status = KV_OK;
    struct generation *next = copy->next;
    bool first = copy->passes == 0;
    if (first)
        logtail_open_bundle(&next->log);
    for (uint32_t i = 0; i < count && status == KV_OK; i++) {
        if (i % PREFETCH_RECORDS == 0)
            prefetch_alive(next->index, candidates + i, at_most(count - i, PREFETCH_RECORDS));
        status = first ? copy_first(copy, &candidates[i]) : copy_later(copy, &candidates[i], NULL);
    }
    enum kv_status closed = first ? logtail_close_bundle(&next->log) : KV_OK;
    return status == KV_OK ? closed : status;
}

/* After a failure the next generation may lack records that a writer expects there:
 * file->next_status keeps writers from looking anything up in it. Holds: the file's lock for
 * writing. */
static enum kv_status copy_shared(struct copylog *copy, const struct candidate *candidates,
                                  uint32_t count, const struct extent *extent)
{
    struct datafile *file = copy->file;
    KV_ASSERT(lockset_is_write_held(copy->with.context->locks, file->number));
    KV_ASSERT(file->next == copy->next && copy->shared);
    enum kv_status status = file->read_only ? KV_READ_ONLY : file->next_status;
    for (uint32_t i = 0; i < count && status == KV_OK; i++)
        status = copy_later(copy, &candidates[i], extent);
    file->next_status = status;
    return status;
}

static enum kv_status step_shared(struct copylog *copy, struct candidate *candidates,
                                  uint32_t count, uint64_t now_ms)
{
    enum kv_status status = KV_OK;
    if (has_unverified(candidates, count))
        status = verify_alive(copy, candidates, count, now_ms);
    if (status != KV_OK)
        return status;
    lockset_write_lock(copy->with.context->locks, copy->file->number);
    find_alive(copy, candidates, count, now_ms);
    status = copy_shared(copy, candidates, count, NULL);
    lockset_write_unlock(copy->with.context->locks, copy->file->number);
    return status;
}

/* Takes an extent in the next generation, if the candidate is still alive. Holds: the file's lock
 * for writing. */
static enum kv_status take_copy_extent(struct copylog *copy, struct candidate *candidate,
                                       uint64_t now_ms, struct extent *extent)
{
    struct datafile *file = copy->file;
    find_alive(copy, candidate, 1, now_ms);
    enum kv_status status = file->read_only ? KV_READ_ONLY : file->next_status;
    if (status == KV_OK && candidate->alive) {
        struct record record = candidate->record;
        record_detach(&record);
        status = generation_append_extent(copy->next, &record, extent);
    }
    file->next_status = status;
    return status;
}

/* Copies one large record, without the lock, as a writer places a value (placing.h). What comes of
 * it is decided when it is there: as long as it was not, a record of a writer may have come in. */
static enum kv_status step_placed(struct copylog *copy, struct candidate *candidate,
                                  uint64_t now_ms)
{
    const struct store_context *context = copy->with.context;
    uint32_t number = copy->file->number;
    struct extent extent;
    enum kv_status status = KV_OK;
    if (!candidate->verified)
        status = verify_alive(copy, candidate, 1, now_ms);
    if (status != KV_OK)
        return status;
    lockset_write_lock(context->locks, number);
    status = take_copy_extent(copy, candidate, now_ms, &extent);
    bool fills = status == KV_OK && candidate->alive;
    if (status == KV_OK && !fills)
        status = copy_shared(copy, candidate, 1, NULL);
    lockset_write_unlock(context->locks, number);
    if (!fills)
        return status;
    struct record record = candidate->record;
    record_detach(&record);
    enum kv_status filled =
        logtail_fill_extent(&copy->next->log, extent.offset, &record, kv_slice(NULL, 0));
    lockset_write_lock(context->locks, number);
    if (filled != KV_OK && copy->file->next_status == KV_OK)
        copy->file->next_status = filled;
    find_alive(copy, candidate, 1, now_ms);
    status = copy_shared(copy, candidate, 1, &extent);
    lockset_write_unlock(context->locks, number);
    return status;
}

static enum kv_status step_unshared(struct copylog *copy, struct candidate *candidates,
                                    uint32_t count, uint64_t now_ms)
{
    enum kv_status status = verify_alive(copy, candidates, count, now_ms);
    return status == KV_OK ? copy_unshared(copy, candidates, count) : status;
}

static enum kv_status copy_candidates(struct copylog *copy)
{
    struct candidate *candidates = &copy->candidates[copy->candidate_next];
    uint32_t count = step_size(copy);
    uint64_t now_ms = clock_realtime_ms();
    copy->candidate_next += count;
    if (is_placed_apart(copy, candidates))
        return step_placed(copy, candidates, now_ms);
    return copy->shared ? step_shared(copy, candidates, count, now_ms)
                        : step_unshared(copy, candidates, count, now_ms);
}

/* What damage has hidden ----------------------------------------------------------------------- */

/* The content of an extent is copied for the value pointer that names it. Where that is damaged, or
 * the content is, the index still has the content, and the next generation misses it. */

static uint32_t entries_of_hash(const struct index *index, uint32_t hash)
{
    struct index_probe probe;
    uint64_t offset;
    uint32_t count = 0;
    for (index_probe_start(&probe, index, hash); index_probe_next(&probe, &offset);)
        count++;
    return count;
}

/* Collects those entries of a segment of the index, from copy->missed_from on, which the next
 * generation may miss, and sets that to where the next segment begins. Returns how many. Takes the
 * file's lock. */
static size_t collect_missed(struct copylog *copy, struct index_item items[INDEX_SEGMENT_SLOTS])
{
    const struct store_context *context = copy->with.context;
    size_t kept = 0;
    lockset_read_lock(context->locks, copy->file->number);
    const struct index *index = copy->file->current->index;
    size_t count =
        index_collect(index, copy->missed_from, items, INDEX_SEGMENT_SLOTS, &copy->missed_from);
    for (size_t i = 0; i < count; i++)
        if (items[i].offset_bytes < copy->end && entries_of_hash(copy->next->index, items[i].hash) <
                                                     entries_of_hash(index, items[i].hash))
            items[kept++] = items[i];
    lockset_read_unlock(context->locks, copy->file->number);
    return kept;
}

/* Has the next generation get the record of an entry that it may miss: as a candidate, or carried
 * over if it is damaged. */
static enum kv_status take_missed(struct copylog *copy, const struct index_item *item)
{
    const struct logfile *log = &copy->file->current->log;
    uint64_t offset = item->offset_bytes;
    struct candidate *candidate = &copy->candidates[0];
    struct lookup lookup;
    *candidate = (struct candidate){.verified = true, .offset = offset, .hash = item->hash};
    logfile_begin(log, READ_BUFFER_WALK);
    enum record_verdict verdict = logfile_read_before(log, READ_BUFFER_WALK, offset, copy->end,
                                                      &candidate->record, &candidate->size_bytes);
    if (verdict == RECORD_UNREADABLE)
        return kv_status_from_errno(errno);
    if (verdict != RECORD_VALID) {
        uint64_t end = logfile_extent_end(log, READ_BUFFER_VISIT, offset, copy->end);
        copy->at = end != 0 ? copy->at : offset;
        return end != 0 ? carry_damaged(copy, offset, end) : KV_CORRUPT;
    }
    generation_find(copy->next, item->hash, candidate->record.key, &lookup);
    if (lookup.error != 0)
        return kv_status_from_errno(lookup.error);
    if (lookup.found)
        return KV_OK;
    return step_unshared(copy, candidate, 1, clock_realtime_ms());
}

/* Copies what the next generation misses of a segment of the index, at the end of the first pass.
 */
static enum kv_status copy_missed(struct copylog *copy)
{
    struct index_item items[INDEX_SEGMENT_SLOTS];
    enum kv_status status = KV_OK;
    size_t count = collect_missed(copy, items);
    for (size_t i = 0; i < count && status == KV_OK; i++)
        status = take_missed(copy, &items[i]);
    copy->may_miss = copy->missed_from < INDEX_HASH_END;
    return status;
}

/* Passes --------------------------------------------------------------------------------------- */

/* Has every append go to the next generation as well from now on. Holds: the file's lock for
 * writing. */
static enum kv_status share_next(struct copylog *copy)
{
    struct datafile *file = copy->file;
    struct generation *next = copy->next;
    KV_ASSERT(lockset_is_write_held(copy->with.context->locks, file->number));
    KV_ASSERT(!copy->shared && !file->next);
    /* Until now puts and deletes may have left no trace in the new log: their versions must not be
     * given again. */
    next->words->max_version =
        at_least(next->words->max_version, file->current->words->max_version);
    struct file_gone gone = {.version = next->words->max_version};
    if (lognotes_put_gone(&next->log, &gone) != 0 ||
        logfile_note_progress(&next->log, FILE_HEADER_BYTES, next->words->max_version) != 0)
        return KV_IO;
    copy->shared = true;
    file->next = next;
    file->next_status = KV_OK;
    return KV_OK;
}

/* Begins the next pass, over what was appended during this one. */
static enum kv_status next_pass(struct copylog *copy)
{
    struct datafile *file = copy->file;
    enum kv_status status = KV_OK;
    uint64_t before = copy->pass_bytes;
    copy->passes++;
    if (copy->first_pass_end == 0)
        copy->first_pass_end = copy->next->log.tail;
    lockset_write_lock(copy->with.context->locks, file->number);
    copy->end = file->current->log.tail;
    copy->pass_bytes = copy->end - copy->at;
    if (copy->pass_bytes <= SHARE_BYTES || copy->pass_bytes > before / SHARE_PART)
        status = share_next(copy);
    lockset_write_unlock(copy->with.context->locks, file->number);
    return status;
}

enum kv_status copylog_step(struct copylog *copy)
{
    enum kv_status status = KV_OK;
    if (!has_candidates(copy))
        status = copy->at < copy->end ? read_candidates(copy)
                 : copy->may_miss     ? copy_missed(copy)
                                      : next_pass(copy);
    return status == KV_OK && has_candidates(copy) ? copy_candidates(copy) : status;
}
