#include "kvstore/log/logtail.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/memory/cursor.h"
#include "common/memory/machine_sizes.h"
#include "kvstore/log/fileio.h"
#include "kvstore/format/sizes.h"

/* The file grows by about 1/8 at a time. */
#define GROWTH_SHARE     8u
#define GROWTH_MIN_BYTES LOGFILE_UNIT_BYTES
#define GROWTH_MAX_BYTES (UINT64_C(64) << 20)

/* Pages are brought in ahead of the tail in steps of at most POPULATE_MAX_BYTES, and at most this
 * share of the log: a fault for each page costs up to three times as much. The first sync after a
 * step writes all of its pages; later syncs then meet disk blocks that were written already, and
 * the file system has nothing to note about the file. */
#define POPULATE_SHARE     8u
#define POPULATE_MAX_BYTES (UINT64_C(64) << 10)

/* Before a log is written where it has no pages yet, pages are brought in up to the next multiple
 * of this, as one folio (fileio's zero). Exceptions: a small log, and stores to a log that is
 * synced at each write (a call makes only its own part of a folio dirty). With its share of
 * bringing pages in and freeing them, a record of 4 KiB takes the kernel 1.7 us instead of 4.5, a
 * record of 64 KiB 22 instead of 32. And a sync meets disk blocks that were written already: a
 * record of 16 KiB and its sync take 220 us instead of 400. */
#define FOLIO_BYTES       POPULATE_MAX_BYTES
#define LARGE_FOLIO_BYTES (2 * FOLIO_BYTES) /* where records are written with calls */

/* Records from this size on are written with calls, even with a mapping: the kernel then need not
 * zero the pages first, nor fault for each page, nor tell every CPU at a sync that the pages are
 * clean. At 64 KiB that is half of the CPU time of a put; at 4 KiB the call costs as much as it
 * saves. */
#define CALL_MIN_BYTES (UINT64_C(16) << 10)

/* Room ----------------------------------------------------------------------------------------- */

/* Allocates the file's first `bytes`, if leave_bytes of the disk stay free or the disk does not say
 * what is free. */
static enum kv_status grow_to(struct logfile *log, uint64_t bytes, uint64_t leave_bytes)
{
    uint64_t growth_bytes = bytes - log->allocated_bytes;
    struct statvfs disk;
    KV_ASSERT(bytes >= log->allocated_bytes && bytes <= log->map_bytes);
    if (leave_bytes > 0 && fstatvfs(log->fd, &disk) == 0 &&
        (uint64_t)disk.f_bavail * disk.f_frsize < growth_bytes + leave_bytes) {
        errno = ENOSPC;
        return KV_NO_SPACE;
    }
    if (fileio->allocate(log->fd, (off_t)log->allocated_bytes, (off_t)growth_bytes) != 0)
        return kv_status_from_errno(errno);
    log->allocated_bytes = bytes;
    return KV_OK;
}

uint64_t logtail_most_to_leave(const struct logfile *log)
{
    struct statvfs disk;
    if (fstatvfs(log->fd, &disk) != 0)
        return 0;
    return at_most((uint64_t)disk.f_blocks * disk.f_frsize / LOGTAIL_LEAVE_SHARE,
                   LOGTAIL_LEAVE_BYTES);
}

/* How much more than is needed. */
static uint64_t growth_step(const struct logfile *log)
{
    return at_least(at_most(log->allocated_bytes / GROWTH_SHARE, GROWTH_MAX_BYTES),
                    GROWTH_MIN_BYTES);
}

uint64_t logtail_growth_bytes(const struct logfile *log, uint64_t bytes)
{
    return round_up(log->tail + bytes + growth_step(log), GROWTH_MIN_BYTES) - log->allocated_bytes;
}

static enum kv_status allocate_room(struct logfile *log, uint64_t bytes, uint64_t leave_bytes)
{
    KV_ASSERT(log->tail <= log->allocated_bytes && log->allocated_bytes <= log->map_bytes);
    if (bytes > log->map_bytes - log->tail)
        return KV_NO_SPACE;
    uint64_t needed = log->tail + bytes;
    uint64_t generous =
        at_most(round_up(needed + growth_step(log), GROWTH_MIN_BYTES), log->map_bytes);
    if (grow_to(log, generous, leave_bytes) == KV_OK)
        return KV_OK;
    /* The last blocks of a disk are as good as others. */
    return grow_to(log, at_most(round_up(needed, PAGE_BYTES), log->map_bytes), leave_bytes);
}

enum kv_status logtail_ensure_room(struct logfile *log, uint64_t bytes)
{
    return bytes <= log->allocated_bytes - log->tail ? KV_OK : allocate_room(log, bytes, 0);
}

enum kv_status logtail_ensure_room_for_data(struct logfile *log, uint64_t bytes,
                                            uint64_t leave_bytes)
{
    return bytes <= log->allocated_bytes - log->tail ? KV_OK
                                                     : allocate_room(log, bytes, leave_bytes);
}

void logtail_expect_syncs(struct logfile *log)
{
    log->synced_often = true;
    uint64_t from = log->tail / PAGE_BYTES * PAGE_BYTES;
    if (log->map && log->map_bytes > from)
        madvise(log->map + from, log->map_bytes - from, MADV_RANDOM);
}

/* Brings in the pages from `from` to `end`, where the coming write ends, and on to the end of a
 * folio, but not beyond the allocated blocks. Nothing was written at or after `from` yet. */
static void zero_ahead(struct logfile *log, uint64_t from, uint64_t end, uint64_t folio_bytes)
{
    if (end <= log->zeroed_bytes || from < POPULATE_SHARE * folio_bytes)
        return;
    from = at_least(log->zeroed_bytes, round_up(from, PAGE_BYTES));
    end = at_most(round_up(end, folio_bytes), log->allocated_bytes / PAGE_BYTES * PAGE_BYTES);
    if (end <= from)
        return;
    /* After a failure the pages come one by one. */
    fileio->zero(log->fd, end - from, (off_t)from);
    log->zeroed_bytes = end;
}

/* Populates pages to the end of the coming record and some way on, but not beyond the allocated
 * blocks. */
static void populate_ahead(struct logfile *log, uint64_t record_end)
{
    if (!log->synced_often)
        zero_ahead(log, log->tail, record_end, FOLIO_BYTES);
    uint64_t from = at_least(log->populated_bytes, log->tail / PAGE_BYTES * PAGE_BYTES);
    uint64_t ahead = at_most(log->tail / POPULATE_SHARE, POPULATE_MAX_BYTES);
    uint64_t end = at_most(round_up(record_end + ahead, PAGE_BYTES),
                           log->allocated_bytes / PAGE_BYTES * PAGE_BYTES);
    if (record_end <= log->zeroed_bytes) /* no page without its folio */
        end = at_most(end, log->zeroed_bytes);
    if (end <= from)
        return;
    /* After a failure the stores bring the pages in. Their disk blocks are allocated. */
    if (fileio->populate(log->map + from, end - from) != 0 && errno == EINVAL)
        end = UINT64_MAX;
    log->populated_bytes = end;
}

enum kv_status logtail_cut(struct logfile *log, uint64_t tail)
{
    KV_ASSERT(log->writable && !log->bundle && tail >= FILE_HEADER_BYTES);
    if (fileio->truncate(log->fd, (off_t)tail) != 0)
        return kv_status_from_errno(errno);
    log->tail = tail;
    log->allocated_bytes = tail;
    log->populated_bytes = at_most(log->populated_bytes, tail / PAGE_BYTES * PAGE_BYTES);
    log->zeroed_bytes = at_most(log->zeroed_bytes, tail);
    return KV_OK;
}

bool logtail_give_room(struct logfile *log, uint64_t keep_bytes)
{
    uint64_t end = round_up(log->tail + keep_bytes, PAGE_BYTES);
    KV_ASSERT(log->writable && !log->bundle);
    if (end >= log->allocated_bytes || log->unerased_end != 0 ||
        fileio->truncate(log->fd, (off_t)end) != 0)
        return false;
    log->allocated_bytes = end;
    log->populated_bytes = at_most(log->populated_bytes, end);
    log->zeroed_bytes = at_most(log->zeroed_bytes, end);
    return true;
}

void logtail_allocate_room(struct logfile *log)
{
    uint64_t from = log->tail / PAGE_BYTES * PAGE_BYTES;
    /* A file never gets more room than this: the rest is a hole. */
    log->allocated_bytes = at_most(log->allocated_bytes, log->tail + 2 * GROWTH_MAX_BYTES);
    if (fileio->allocate(log->fd, (off_t)from, (off_t)(log->allocated_bytes - from)) != 0)
        log->allocated_bytes = log->tail;
}

/* Appending ------------------------------------------------------------------------------------ */

/* Zeros what a write that failed half-way, or is taken back, has left, and which must not look like
 * a torn tail: from the end, so that what is left of it, if the disk refuses, is no gap. False,
 * errno: not all is zero. */
static bool erase_written(const struct logfile *log, uint64_t offset, uint64_t size)
{
    static const uint8_t zeros[PAGE_BYTES];
    while (size > 0) {
        uint64_t piece = at_most(size, PAGE_BYTES);
        size -= piece;
        if (fileio->write_at(log->fd, zeros, piece, (off_t)(offset + size)) < 0)
            return false;
    }
    return true;
}

enum kv_status logtail_erase_remains(struct logfile *log)
{
    if (log->unerased_end > log->tail &&
        !erase_written(log, log->tail, log->unerased_end - log->tail))
        return kv_status_from_errno(errno);
    log->unerased_end = 0;
    return KV_OK;
}

/* Zeros what a write behind the tail that failed has left, now or before the next append. */
static void erase_failed(struct logfile *log, uint64_t size)
{
    if (!erase_written(log, log->tail, size))
        log->unerased_end = at_least(log->unerased_end, log->tail + size);
}

static int put_piece(void *log, const uint8_t *bytes, uint64_t size, uint64_t at)
{
    const struct logfile *to = log;
    return fileio->write_at(to->fd, bytes, size, (off_t)(to->tail + at)) < 0 ? -1 : 0;
}

__attribute__((noinline)) static enum kv_status append_by_call(struct logfile *log,
                                                               const struct record *record,
                                                               struct kv_slice value_tail,
                                                               uint64_t size)
{
    uint64_t room_bytes = at_most(size, READ_BUFFER_KEPT_BYTES);
    uint8_t *room = read_buffer_reserve(READ_BUFFER_APPEND, room_bytes);
    if (!room)
        return KV_NO_MEMORY;
    /* Writing in pieces brings in whole folios by itself, except the last one. */
    uint64_t end = log->tail + size;
    uint64_t last_folio = end / LARGE_FOLIO_BYTES * LARGE_FOLIO_BYTES;
    zero_ahead(log, size > room_bytes ? at_least(last_folio, log->tail) : log->tail, end,
               LARGE_FOLIO_BYTES);
    if (record_write_pieces(record, value_tail, log->identity.salt, log->tail, room, room_bytes,
                            put_piece, log) == 0)
        return KV_OK;
    enum kv_status status = kv_status_from_errno(errno);
    erase_failed(log, size);
    return status;
}

/* Writes the bundle's records; the bundle is open and empty then. */
static enum kv_status write_bundle(struct logfile *log)
{
    uint64_t from = log->bundle_from;
    KV_ASSERT(log->tail >= from && log->tail - from <= READ_BUFFER_KEPT_BYTES);
    uint64_t size = log->tail - from;
    zero_ahead(log, from, log->tail, LARGE_FOLIO_BYTES);
    if (size > 0 && fileio->write_at(log->fd, log->bundle, size, (off_t)from) < 0) {
        enum kv_status status = kv_status_from_errno(errno);
        log->tail = from;
        return status;
    }
    log->bundle_from = log->tail;
    return KV_OK;
}

static enum kv_status append_to_bundle(struct logfile *log, const struct record *record,
                                       uint64_t size)
{
    enum kv_status status = KV_OK;
    if (size > READ_BUFFER_KEPT_BYTES - (log->tail - log->bundle_from))
        status = write_bundle(log);
    if (status != KV_OK)
        return status;
    if (size > READ_BUFFER_KEPT_BYTES) { /* the record needs the bundle's room, which is free now */
        status = append_by_call(log, record, kv_slice(NULL, 0), size);
        if (status == KV_OK)
            log->bundle_from += size; /* as the tail, which the caller raises next */
        return status;
    }
    record_write(log->bundle + (log->tail - log->bundle_from), record, kv_slice(NULL, 0),
                 log->identity.salt, log->tail);
    return KV_OK;
}

enum kv_status logtail_append(struct logfile *log, const struct record *record,
                              struct kv_slice value_tail)
{
    uint64_t offset = log->tail;
    uint64_t size = record_bytes_in_log(record, record->value.size + value_tail.size);
    enum kv_status status = KV_OK;
    KV_ASSERT(log->writable && size <= log->allocated_bytes - offset);
    KV_ASSERT(offset >= FILE_HEADER_BYTES && offset % RECORD_ALIGNMENT == 0);
    KV_ASSERT(!log->bundle || value_tail.size == 0);
    KV_ASSERT(record->key.size > 0 && record->version > 0);
    KV_ASSERT(record->version < RECORD_VERSION_LIMIT);
    KV_ASSERT(record->kind != RECORD_EXTENT);
    KV_ASSERT(record->kind != RECORD_DELETE || record->value.size + value_tail.size == 0);
    if (__builtin_expect(log->unerased_end != 0, 0))
        status = logtail_erase_remains(log);
    if (status != KV_OK)
        return status;
    if (log->bundle) {
        status = append_to_bundle(log, record, size);
    } else if (!log->map || size >= CALL_MIN_BYTES) {
        status = append_by_call(log, record, value_tail, size);
    } else {
        if (offset + size > log->populated_bytes)
            populate_ahead(log, offset + size);
        record_write(log->map + offset, record, value_tail, log->identity.salt, offset);
    }
    if (status != KV_OK)
        return status;
    if (logfile_is_broken(log)) { /* source or destination may read as zeros now */
        erase_failed(log, size);
        return KV_IO;
    }
    __atomic_store_n(&log->tail, offset + size, __ATOMIC_RELEASE);
    verified_bitmap_note(&log->verified, offset, size);
    return KV_OK;
}

/* Extents -------------------------------------------------------------------------------------- */

enum kv_status logtail_append_extent(struct logfile *log, uint64_t version, uint64_t content_bytes)
{
    uint8_t head[RECORD_EXTENT_HEAD_BYTES];
    uint64_t offset = log->tail;
    KV_ASSERT(log->writable && !log->bundle && log->unerased_end <= offset);
    KV_ASSERT(RECORD_EXTENT_HEAD_BYTES + content_bytes <= log->allocated_bytes - offset);
    record_write_extent(head, version, content_bytes, log->identity.salt, offset);
    enum kv_status status = KV_OK;
    if (fileio->write_at(log->fd, head, sizeof head, (off_t)offset) < 0)
        status = kv_status_from_errno(errno);
    else if (logfile_is_broken(log))
        status = KV_IO;
    if (status != KV_OK) {
        erase_failed(log, sizeof head);
        return status;
    }
    __atomic_store_n(&log->tail, offset + sizeof head + content_bytes, __ATOMIC_RELEASE);
    return KV_OK;
}

enum kv_status logtail_empty_extent(const struct logfile *log, uint64_t offset)
{
    static const uint64_t version = RECORD_NO_VERSION_YET;
    uint64_t at = offset + RECORD_VERSION_AT;
    if (!log->map)
        return fileio->write_at(log->fd, &version, sizeof version, (off_t)at) < 0
                   ? kv_status_from_errno(errno)
                   : KV_OK;
    /* The bytes of the content are stored later, by the kernel or by plain stores. */
    (void)__atomic_exchange_n((uint64_t *)(void *)(log->map + at), version, __ATOMIC_SEQ_CST);
#if !defined(__SANITIZE_THREAD__) || defined(MQKV_EXPLORED) /* that one knows no fences */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    return KV_OK;
}

struct extent_filling {
    const struct logfile *log;
    uint64_t offset;
};

static int put_content(void *context, const uint8_t *bytes, uint64_t size, uint64_t at)
{
    const struct extent_filling *filling = context;
    return fileio->write_at(filling->log->fd, bytes, size, (off_t)(filling->offset + at)) < 0 ? -1
                                                                                              : 0;
}

/* `content` as it is written, until it has its version. */
static struct record without_version(const struct record *content)
{
    struct record unnumbered = *content;
    record_detach(&unnumbered);
    unnumbered.in_extent = true;
    unnumbered.version = RECORD_NO_VERSION_YET;
    return unnumbered;
}

static enum kv_status note_filled(const struct logfile *log, uint64_t offset, uint64_t size)
{
    if (logfile_is_broken(log)) /* source or destination may read as zeros now */
        return KV_IO;
    verified_bitmap_note(&log->verified, offset, size);
    return KV_OK;
}

enum kv_status logtail_fill_extent(const struct logfile *log, uint64_t offset,
                                   const struct record *content, struct kv_slice value_tail)
{
    const struct record unnumbered = without_version(content);
    uint64_t size = record_bytes_in_log(&unnumbered, unnumbered.value.size + value_tail.size);
    uint64_t room_bytes = at_most(size, READ_BUFFER_KEPT_BYTES);
    uint8_t *room = read_buffer_reserve(READ_BUFFER_APPEND, room_bytes);
    struct extent_filling filling = {log, offset};
    if (!room)
        return KV_NO_MEMORY;
    if (record_write_pieces(&unnumbered, value_tail, log->identity.salt, offset, room, room_bytes,
                            put_content, &filling) != 0)
        return kv_status_from_errno(errno);
    return note_filled(log, offset, size);
}

enum kv_status logtail_refill_extent(const struct logfile *log, uint64_t offset,
                                     const struct record *content, struct kv_slice value_tail)
{
    const struct record unnumbered = without_version(content);
    if (!log->map || !log->blocks_stay)
        return logtail_fill_extent(log, offset, content, value_tail);
    return note_filled(
        log, offset,
        record_write(log->map + offset, &unnumbered, value_tail, log->identity.salt, offset));
}

/* The content was just written, so its page is there. */
static enum kv_status number_by_store(const struct logfile *log, uint64_t offset,
                                      const struct record *content)
{
    uint8_t *at = log->map + offset;
    uint8_t checksum[4], version[8];
    memcpy(checksum, at, sizeof checksum);
    record_number(content, log->identity.salt, offset, checksum, version);
    __atomic_store_n((uint64_t *)(void *)(at + RECORD_VERSION_AT), load_u64(version),
                     __ATOMIC_RELEASE);
    __atomic_store_n((uint32_t *)(void *)at, load_u32(checksum), __ATOMIC_RELEASE);
    return logfile_is_broken(log) ? KV_IO : KV_OK;
}

enum kv_status logtail_number_extent(const struct logfile *log, uint64_t offset,
                                     const struct record *content)
{
    uint8_t checksum[4], version[8];
    if (log->map)
        return number_by_store(log, offset, content);
    errno = EIO; /* if fewer bytes come */
    if (fileio->read_at(log->fd, checksum, sizeof checksum, (off_t)offset) != sizeof checksum)
        return kv_status_from_errno(errno);
    record_number(content, log->identity.salt, offset, checksum, version);
    return fileio->write_at(log->fd, version, sizeof version, (off_t)(offset + RECORD_VERSION_AT)) <
                       0 ||
                   fileio->write_at(log->fd, checksum, sizeof checksum, (off_t)offset) < 0
               ? kv_status_from_errno(errno)
               : KV_OK;
}

/* ---------------------------------------------------------------------------------------------- */

void logtail_take_back(struct logfile *log, uint64_t tail)
{
    KV_ASSERT(!log->bundle && tail >= FILE_HEADER_BYTES && tail <= log->tail);
    if (log->unerased_end == 0 && !erase_written(log, tail, log->tail - tail))
        log->unerased_end = log->tail;
    __atomic_store_n(&log->tail, tail, __ATOMIC_RELEASE);
}

enum kv_status logtail_append_damaged(struct logfile *log, const uint8_t *bytes, uint64_t size)
{
    uint64_t offset = log->tail;
    enum kv_status status = KV_OK;
    if (fileio->write_at(log->fd, bytes, size, (off_t)offset) < 0)
        status = kv_status_from_errno(errno);
    else if (logfile_is_broken(log))
        status = KV_IO;
    if (status == KV_OK)
        __atomic_store_n(&log->tail, offset + size, __ATOMIC_RELEASE);
    else
        erase_failed(log, size);
    return status;
}

void logtail_open_bundle(struct logfile *log)
{
    KV_ASSERT(!log->bundle);
    log->bundle = read_buffer_reserve(READ_BUFFER_APPEND, READ_BUFFER_KEPT_BYTES);
    log->bundle_from = log->tail;
}

enum kv_status logtail_close_bundle(struct logfile *log)
{
    enum kv_status status = log->bundle ? write_bundle(log) : KV_OK;
    log->bundle = NULL;
    return status;
}
