#include "kvstore/table/takeover.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "kvstore/format/sizes.h"
#include "kvstore/index/index_claim.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/log/logtail.h"
#include "kvstore/table/recovery.h"

/* Returns true if the words are of this very file. */
static bool words_are_of(const struct shared_generation *left, const struct logfile *log)
{
    struct stat facts;
    return left->salt == log->identity.salt && fstat(log->fd, &facts) == 0 &&
           left->device == facts.st_dev && left->inode == facts.st_ino && log->boot != BOOT_EARLIER;
}

/* Returns true if nothing was written to the file since. */
static bool left_log_ends_at(const struct logfile *log, uint64_t tail)
{
    return tail >= FILE_HEADER_BYTES && tail % RECORD_ALIGNMENT == 0 &&
           tail >= log->progress.synced_offset && tail <= log->allocated_bytes &&
           logfile_is_end(log, tail);
}

/* Returns true if records before the tail can have these sums. */
static bool left_sums_are_possible(const struct shared_generation *left, const struct logfile *log)
{
    return left->live_bytes <= left->tail - FILE_HEADER_BYTES &&
           left->reserve_bytes <= left->live_bytes && left->expiring_keys <= left->keys &&
           left->keys <= left->reserve_bytes / record_size(1, 0, false) &&
           left->max_version >= log->progress.version_floor &&
           left->max_version < RECOVERY_VERSION_LIMIT;
}

/* Returns true if what the superseded pointer names was overwritten by a later content, and not
 * lost. */
static bool was_overwritten(const struct logfile *log, const struct record *superseded,
                            uint64_t tail)
{
    uint64_t version = superseded->version, size_bytes;
    struct record content;
    return logfile_read_before(log, READ_BUFFER_WALK, superseded->content_at, tail, &content,
                               &size_bytes) == RECORD_VALID &&
           content.version > version;
}

/* Returns true if the part of the log that was not known to be on disk is whole, up to the tail.
 * may_be_lost: a sync of it may have failed. */
static bool unsynced_part_is_whole(const struct logfile *log, uint64_t tail, bool may_be_lost)
{
    uint64_t offset = at_least(log->progress.synced_offset, FILE_HEADER_BYTES);
    logfile_begin(log, READ_BUFFER_WALK);
    while (offset < tail) {
        struct record record;
        uint64_t size_bytes;
        enum record_verdict verdict =
            logfile_read_before(log, READ_BUFFER_WALK, offset, tail, &record, &size_bytes);
        /* If nothing has replaced a superseded pointer, its content is damaged; who reads it is
         * told. */
        if (verdict != RECORD_VALID && verdict != RECORD_SUPERSEDED)
            return false;
        if (verdict == RECORD_SUPERSEDED && may_be_lost && !was_overwritten(log, &record, tail))
            return false;
        offset += size_bytes;
    }
    return offset == tail && !logfile_is_broken(log);
}

bool takeover_claim(struct generation *generation, struct shared_generation *left,
                    struct arena *arena)
{
    struct logfile *log = &generation->log;
    uint64_t sum;
    bool at_rest = left->writing == 0 && left->moves % 2 == 0 &&
                   (left->flags & SHARED_GENERATION_DOUBTFUL) == 0;
    if (!at_rest || !words_are_of(left, log) || !left_log_ends_at(log, left->tail) ||
        !left_sums_are_possible(left, log))
        return false;
    bool was_syncing = (left->flags & SHARED_GENERATION_SYNCING) != 0;
    if (was_syncing && logfile_flush_and_forget(log) != 0)
        return false;
    if (!unsynced_part_is_whole(log, left->tail, was_syncing))
        return false;
    if (!index_claim(arena, left, FILE_HEADER_BYTES, left->tail, &sum))
        return false;
    struct index *index = left->check == generation_check_of(left, log->chapter, sum)
                              ? index_resume(arena, left, sum)
                              : NULL;
    if (!index) {
        index_give_up(arena, left);
        return false;
    }
    KV_ASSERT(!generation->index && index_count(index) == left->keys);
    generation->index = index;
    generation->words = left;
    log->tail = left->tail;
    left->flags = 0;
    return true;
}

enum kv_status takeover_make_writable(struct generation *generation, struct kv_error *error)
{
    struct logfile *log = &generation->log;
    struct file_name name = file_name(log->identity.number, FILE_LOG);
    if (logtail_cut(log, log->tail) != KV_OK)
        return kv_error_set_errno(error, "%s: cannot cut the file to %" PRIu64 " bytes", name.text,
                                  log->tail);
    if (logtail_ensure_room(log, generation->words->reserve_bytes + 1) != KV_OK)
        log_warn("%s: no disk space for writes (%s); reads continue", name.text, strerror(errno));
    if (lognotes_put_opening(log) != 0)
        return kv_error_set_errno(error, "%s: cannot write the header", name.text);
    return KV_OK;
}
