#include "kvstore/log/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/assert/assert.h"
#include "common/memory/machine_sizes.h"
#include "common/numbers/random.h"
#include "common/report/error.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/kept_pages.h"
#include "kvstore/format/sizes.h"

/* Address space for the mappings of all data files of a store; x86-64 and arm64 have 128 TiB. The
 * sanitizers keep shadow memory of the address space and leave less. */
#ifdef MQKV_SANITIZER
#define ADDRESS_SPACE_BYTES (UINT64_C(512) << 30)
#else
#define ADDRESS_SPACE_BYTES (UINT64_C(16) << 40)
#endif

/* File systems that write a block anew where it is. Others may find no room for it: a write to the
 * mapping then fails with the signal of a disk error. */
static bool blocks_stay(int fd)
{
    struct statfs facts;
    return fstatfs(fd, &facts) == 0 &&
           (facts.f_type == EXT4_SUPER_MAGIC || facts.f_type == XFS_SUPER_MAGIC ||
            facts.f_type == TMPFS_MAGIC);
}

/* Maps the file's share of the address space, or half of the share, a quarter ... where there is
 * less, but no less than twice the file's size. */
static enum kv_status map_log(struct logfile *log, uint32_t datafiles, const char *name,
                              struct kv_error *error)
{
    uint64_t needed = at_most(round_up(2 * log->allocated_bytes, PAGE_BYTES), LOGFILE_MAX_BYTES);
    uint64_t wanted = at_most(ADDRESS_SPACE_BYTES / at_least(datafiles, 1), LOGFILE_MAX_BYTES);
    int protection = log->writable ? PROT_READ | PROT_WRITE : PROT_READ;
    for (uint64_t bytes = at_least(wanted, needed); bytes >= needed; bytes /= 2) {
        log->map = fileio->map(bytes, protection, log->fd);
        log->map_bytes = bytes;
        if (log->map != MAP_FAILED) {
            verified_bitmap_init(&log->verified, bytes);
            log->guard = mapguard_add(log->map, bytes);
            log->blocks_stay = log->writable && blocks_stay(log->fd);
            return KV_OK;
        }
        if (errno != ENOMEM)
            break;
    }
    log->map = NULL;
    return kv_error_set_errno(
        error,
        "%s: cannot map %" PRIu64
        " bytes into memory (check the limit on the address space: ulimit -v)",
        name, needed);
}

static enum kv_status explain_direct(const char *name, struct kv_error *error)
{
    if (errno == EINVAL || errno == EOPNOTSUPP)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "%s: the file system has no reads past the page cache (O_DIRECT); take "
                            "another way of reading (mmap, pread) or another file system",
                            name);
    return kv_error_set_errno(error, "%s: cannot read past the page cache", name);
}

/* How the file is to be accessed. */
struct access_way {
    enum kvstore_io io;
    int dir_fd;
    const char *name;
};

/* Without a mapping the file may grow to what its format allows. */
static enum kv_status make_accessible(struct logfile *log, const struct access_way *way,
                                      uint32_t datafiles, struct kv_error *error)
{
    if (way->io == KVSTORE_IO_MMAP)
        return map_log(log, datafiles, way->name, error);
    log->map_bytes = LOGFILE_MAX_BYTES;
    if (way->io != KVSTORE_IO_DIRECT)
        return KV_OK;
    log->direct_fd = fileio->open_at(way->dir_fd, way->name, O_RDONLY | O_DIRECT | O_NOFOLLOW, 0);
    return log->direct_fd >= 0 ? KV_OK : explain_direct(way->name, error);
}

int logfile_put_header(const struct logfile *log, const uint8_t *header, uint32_t at, uint32_t size)
{
    KV_ASSERT((uint64_t)at + size <= FILE_HEADER_BYTES && (!log->map || header == log->map));
    return log->map || fileio->write_at(log->fd, header + at, size, (off_t)at) >= 0 ? 0 : -1;
}

static enum kv_status write_new_header(struct logfile *log, const char *name,
                                       uint64_t version_floor, struct kv_error *error)
{
    uint8_t page[FILE_HEADER_BYTES] = {0};
    uint8_t *header = log->map ? log->map : page;
    fileheader_write_identity(header, &log->identity);
    boot_note(header, log->identity.salt);
    fileheader_write_hash_key(header, &log->identity);
    struct file_chapters chapters = {.gone.version = version_floor};
    log->chapter = random_secret() | 1;
    log->gone = chapters.gone;
    file_chapters_begin(&chapters, log->chapter, FILE_HEADER_BYTES);
    file_chapters_write(header, log->identity.salt, &chapters);
    if (logfile_put_header(log, header, 0, FILE_HEADER_BYTES) != 0 ||
        logfile_note_progress(log, FILE_HEADER_BYTES, version_floor) != 0)
        return kv_error_set_errno(error, "%s: cannot write the header", name);
    return KV_OK;
}

static enum kv_status fill_new_file(struct logfile *log, const struct access_way *way,
                                    const struct file_identity *identity, uint64_t version_floor,
                                    uint64_t room_bytes, struct kv_error *error)
{
    uint64_t needed = FILE_HEADER_BYTES + room_bytes;
    uint64_t size = at_most(round_up(needed, LOGFILE_UNIT_BYTES), LOGFILE_MAX_BYTES);
    int result = fileio->allocate(log->fd, 0, (off_t)size);
    if (result != 0 && errno == ENOSPC) { /* the last blocks of a disk are as good as others */
        size = at_most(round_up(needed, FILE_HEADER_BYTES), LOGFILE_MAX_BYTES);
        result = fileio->allocate(log->fd, 0, (off_t)size);
    }
    if (result != 0)
        return kv_error_set_errno(error, "%s: cannot allocate %" PRIu64 " bytes on disk", way->name,
                                  size);
    log->allocated_bytes = size;
    enum kv_status status = make_accessible(log, way, identity->datafiles, error);
    if (status != KV_OK)
        return status;
    log->boot = BOOT_THIS;
    log->identity = *identity;
    log->tail = FILE_HEADER_BYTES;
    return write_new_header(log, way->name, version_floor, error);
}

enum kv_status logfile_create(struct logfile *log, enum kvstore_io io, int dir_fd, const char *name,
                              const struct file_identity *identity, uint64_t version_floor,
                              uint64_t room_bytes, struct kv_error *error)
{
    const struct access_way way = {io, dir_fd, name};
    *log = (struct logfile){.fd = -1, .direct_fd = -1, .writable = true};
    log->fd = fileio->open_at(dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (log->fd < 0)
        return kv_error_set_errno(error, "%s: cannot create the file", name);
    enum kv_status status = fill_new_file(log, &way, identity, version_floor, room_bytes, error);
    if (status != KV_OK) {
        logfile_close(log);
        fileio->unlink_at(dir_fd, name);
    }
    return status;
}

static enum kv_status read_header_page(struct logfile *log, const uint8_t *page, const char *name,
                                       struct kv_error *error)
{
    switch (fileheader_read_identity(page, &log->identity)) {
    case FILEHEADER_VALID:
        break;
    case FILEHEADER_FOREIGN:
        return kv_error_set(error, KV_CORRUPT,
                            "%s: not a data file of mqkv, or its first bytes are damaged", name);
    case FILEHEADER_OTHER_FORMAT:
        return kv_error_set(
            error, KV_MISMATCH,
            "%s: the file is of format version %u, this program reads versions 1 to %u "
            "(if that cannot be, its header is damaged: kvcheck tells)",
            name, log->identity.format_version, FILE_FORMAT_NEWEST);
    case FILEHEADER_DAMAGED:
        return kv_error_set(error, KV_CORRUPT, "%s: the header is damaged (offset 0)", name);
    }
    if (!fileheader_read_progress(page, log->identity.salt, &log->progress))
        return kv_error_set(error, KV_CORRUPT,
                            "%s: both copies of the synced offset are damaged (offset 512, 1024)",
                            name);
    log->boot = boot_noted(page, log->identity.salt);
    fileheader_read_hash_key(page, &log->identity);
    log->stream = fileheader_read_stream(page, log->identity.salt);
    struct file_chapters chapters;
    file_chapters_read(page, log->identity.salt, &chapters);
    log->chapter = chapters.count > 0 ? chapters.list[chapters.count - 1].number : 0;
    log->gone = chapters.gone;
    log->notes_are_missing =
        boot_is_unknown(log->boot) || hash_key_is_none(&log->identity.hash_key);
    return KV_OK;
}

static enum kv_status read_existing_file(struct logfile *log, const struct access_way *way,
                                         struct kv_error *error)
{
    const char *name = way->name;
    struct stat facts;
    if (fstat(log->fd, &facts) != 0)
        return kv_error_set_errno(error, "%s: cannot read the file's size", name);
    uint64_t size = (uint64_t)facts.st_size;
    if (!S_ISREG(facts.st_mode))
        return kv_error_set(error, KV_CORRUPT, "%s: not a regular file", name);
    if (size < FILE_HEADER_BYTES)
        return kv_error_set(error, KV_CORRUPT,
                            "%s: %" PRIu64 " bytes are too few for a data file's header", name,
                            size);
    if (size > LOGFILE_MAX_BYTES)
        return kv_error_set(error, KV_CORRUPT,
                            "%s: %" PRIu64 " bytes are more than a data file can have (%" PRIu64
                            ")",
                            name, size, LOGFILE_MAX_BYTES);
    log->allocated_bytes = size;

    uint8_t page[FILE_HEADER_BYTES];
    if (fileio->read_at(log->fd, page, sizeof page, 0) != (ssize_t)sizeof page)
        return kv_error_set_errno(error, "%s: cannot read the header", name);
    log->tail = FILE_HEADER_BYTES;
    enum kv_status status = read_header_page(log, page, name, error);
    if (status == KV_OK) /* the header says among how many files the address space is shared */
        status = make_accessible(log, way, log->identity.datafiles, error);
    if (status != KV_OK || log->direct_fd < 0)
        return status;
    /* Some file systems take the open with O_DIRECT and refuse the first read. */
    read_buffer_forget(READ_BUFFER_LOOKUP);
    return read_buffer_read_direct(READ_BUFFER_LOOKUP, log->direct_fd, 0, FILE_HEADER_BYTES,
                                   FILE_HEADER_BYTES)
               ? KV_OK
               : explain_direct(name, error);
}

const char *logfile_other_kind(int error_number)
{
    switch (error_number) {
    case ELOOP:
        return "a symbolic link";
    case EISDIR:
        return "a directory";
    case ENXIO:
        return "a FIFO, a socket or a device";
    default:
        return NULL;
    }
}

enum kv_status logfile_open(struct logfile *log, enum kvstore_io io, int dir_fd, const char *name,
                            bool writable, struct kv_error *error)
{
    const struct access_way way = {io, dir_fd, name};
    *log = (struct logfile){.fd = -1, .direct_fd = -1, .writable = writable};
    log->fd = fileio->open_at(dir_fd, name, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW, 0);
    if (log->fd < 0 && errno == ENOENT)
        return kv_error_set(error, KV_NOT_FOUND, "%s: no such file", name);
    if (log->fd < 0 && logfile_other_kind(errno))
        return kv_error_set(error, KV_CORRUPT, "%s: not a regular file, but %s", name,
                            logfile_other_kind(errno));
    if (log->fd < 0)
        return kv_error_set_errno(error, "%s: cannot open the file", name);
    enum kv_status status = read_existing_file(log, &way, error);
    if (status != KV_OK)
        logfile_close(log);
    return status;
}

void logfile_close(struct logfile *log)
{
    verified_bitmap_free(&log->verified);
    mapguard_remove(log->guard);
    log->guard = NULL;
    if (log->map)
        fileio->unmap(log->map, log->map_bytes);
    if (log->fd >= 0)
        close(log->fd);
    if (log->direct_fd >= 0)
        close(log->direct_fd);
    log->map = NULL;
    log->fd = -1;
    log->direct_fd = -1;
}

/* The one place that reads without a mapping. */
__attribute__((noinline)) static const uint8_t *bytes_by_call(const struct logfile *log,
                                                              enum read_buffer buffer,
                                                              uint64_t offset, uint64_t size,
                                                              uint64_t end)
{
    return log->direct_fd >= 0 && buffer == READ_BUFFER_LOOKUP
               ? read_buffer_read_direct(buffer, log->direct_fd, offset, size, end)
               : read_buffer_read(buffer, log->fd, offset, size, end);
}

const uint8_t *logfile_bytes(const struct logfile *log, enum read_buffer buffer, uint64_t offset,
                             uint64_t size)
{
    KV_ASSERT(offset + size <= log->allocated_bytes);
    return log->map ? log->map + offset
                    : bytes_by_call(log, buffer, offset, size, log->allocated_bytes);
}

/* How much of a record is needed. */
enum extent { UP_TO_KEY, WHOLE };

/* Of an extent the head is all that is looked at. */
static uint64_t bytes_to_read(const struct record *record, uint64_t size_bytes)
{
    return record->kind == RECORD_EXTENT ? RECORD_EXTENT_HEAD_BYTES : size_bytes;
}

/* The calls below are kept out of the functions that a mapping uses, so that these cost nothing
 * more. This function reads and parses by turns until the buffer has what its bytes ask for: if a
 * repeated read gives other bytes, nothing outside of them is looked at. */
__attribute__((noinline)) static enum record_verdict
parse_by_call(const struct logfile *log, enum read_buffer buffer, enum extent extent,
              uint64_t offset, uint64_t end, struct record *record, uint64_t *size_bytes)
{
    uint64_t there = at_most(RECORD_MAX_HEADER_BYTES, end - offset);
    for (;;) {
        const uint8_t *at = bytes_by_call(log, buffer, offset, there, end);
        if (!at)
            return RECORD_UNREADABLE;
        enum record_verdict verdict = record_parse(at, end - offset, record, size_bytes);
        if (verdict != RECORD_VALID)
            return verdict;
        uint64_t end_of_key = (uint64_t)((const uint8_t *)record->key.data - at) + record->key.size;
        uint64_t needed = extent == WHOLE ? bytes_to_read(record, *size_bytes) : end_of_key;
        if (needed <= there)
            return verdict;
        there = needed;
    }
}

enum record_verdict logfile_parse_by_call(const struct logfile *log, enum read_buffer buffer,
                                          uint64_t offset, struct record *record,
                                          uint64_t *size_bytes)
{
    return parse_by_call(log, buffer, UP_TO_KEY, offset, logfile_end_of(log), record, size_bytes);
}

enum record_verdict logfile_load(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, struct record *record, uint64_t *size_bytes)
{
    if (!log->map)
        return parse_by_call(log, buffer, WHOLE, offset, logfile_end_of(log), record, size_bytes);
    return record_parse(log->map + offset, logfile_end_of(log) - offset, record, size_bytes);
}

__attribute__((noinline)) static enum record_verdict
read_by_call(const struct logfile *log, enum read_buffer buffer, uint64_t offset, uint64_t end,
             struct record *record, uint64_t *size_bytes)
{
    enum record_verdict verdict =
        parse_by_call(log, buffer, WHOLE, offset, end, record, size_bytes);
    if (verdict != RECORD_VALID)
        return verdict;
    const uint8_t *at = bytes_by_call(log, buffer, offset, bytes_to_read(record, *size_bytes), end);
    return record_read(at, *size_bytes, log->identity.salt, offset, record, size_bytes);
}

/* logfile_read_before, with value pointers as they stand there. */
static enum record_verdict read_standing(const struct logfile *log, enum read_buffer buffer,
                                         uint64_t offset, uint64_t end, struct record *record,
                                         uint64_t *size_bytes)
{
    KV_ASSERT(offset >= FILE_HEADER_BYTES && offset <= end && end <= log->map_bytes);
    if (!log->map)
        return read_by_call(log, buffer, offset, end, record, size_bytes);
    enum record_verdict verdict = record_read(log->map + offset, end - offset, log->identity.salt,
                                              offset, record, size_bytes);
    /* The note of an extent would be taken for one of its content. */
    if (verdict == RECORD_VALID && record->kind != RECORD_EXTENT)
        verified_bitmap_note(&log->verified, offset, *size_bytes);
    return verdict;
}

/* Returns true if `content`, at `at`, is what `placed` names, whose key has key_hash. */
static bool take_named_place(const struct record *placed, uint64_t key_hash, uint64_t at,
                             struct record *content)
{
    return content->key.size == placed->key.size &&
           XXH3_64bits(content->key.data, content->key.size) == key_hash &&
           record_take_place(placed, at, content);
}

/* Parses what is at `at`. A walk reads far ahead, which is of no use here, nor to be read again. */
static enum record_verdict parse_content(const struct logfile *log, enum read_buffer buffer,
                                         uint64_t at, uint64_t end, struct record *record,
                                         uint64_t *size_bytes)
{
    if (log->map)
        return record_parse(log->map + at, end - at, record, size_bytes);
    if (buffer == READ_BUFFER_WALK)
        logfile_begin(log, buffer = READ_BUFFER_MIRROR);
    return parse_by_call(log, buffer, UP_TO_KEY, at, end, record, size_bytes);
}

/* Puts the content of an extent in the place of the value pointer at `offset` that names it. Not
 * `verified`: the content is only parsed. The checksum comes last: the extent may have been named
 * by many that are superseded. */
__attribute__((noinline)) static enum record_verdict read_content(const struct logfile *log,
                                                                  enum read_buffer buffer,
                                                                  uint64_t offset, bool verified,
                                                                  struct record *record)
{
    const struct record placed = *record;
    uint64_t key_hash = XXH3_64bits(placed.key.data, placed.key.size); /* the bytes may go */
    uint64_t at = record_placed_at(&placed, offset);
    uint64_t size_bytes;
    if (at < FILE_HEADER_BYTES)
        return RECORD_INVALID;
    enum record_verdict verdict = parse_content(log, buffer, at, offset, record, &size_bytes);
    if (verdict == RECORD_VALID && !take_named_place(&placed, key_hash, at, record))
        return RECORD_INVALID;
    if (verdict != RECORD_VALID || !verified)
        return verdict;
    verdict = read_standing(log, buffer, at, offset, record, &size_bytes);
    return verdict != RECORD_VALID || take_named_place(&placed, key_hash, at, record)
               ? verdict
               : RECORD_INVALID;
}

/* Gives the content of the value pointer at `offset` in its place, or the record as it stands if it
 * is superseded. */
static enum record_verdict read_placed(const struct logfile *log, enum read_buffer buffer,
                                       uint64_t offset, uint64_t end, bool verified,
                                       struct record *record, uint64_t *size_bytes)
{
    const struct record placed = *record;
    uint64_t at = record_placed_at(record, offset);
    enum record_verdict verdict = read_content(log, buffer, offset, verified, record);
    if (at < FILE_HEADER_BYTES || (verdict != RECORD_INVALID && verdict != RECORD_END))
        return verdict;
    *record = placed;
    errno = EIO; /* if other bytes come now */
    if (!log->map && read_standing(log, buffer, offset, end, record, size_bytes) != RECORD_VALID)
        return RECORD_UNREADABLE;
    record->content_at = at;
    return RECORD_SUPERSEDED;
}

uint64_t logfile_extent_end(const struct logfile *log, enum read_buffer buffer, uint64_t content_at,
                            uint64_t end)
{
    uint64_t head_at = content_at - RECORD_EXTENT_HEAD_BYTES;
    struct record record;
    uint64_t size_bytes;
    if (content_at < FILE_HEADER_BYTES + RECORD_EXTENT_HEAD_BYTES || content_at > end)
        return 0;
    logfile_begin(log, buffer);
    return read_standing(log, buffer, head_at, end, &record, &size_bytes) == RECORD_VALID &&
                   record.kind == RECORD_EXTENT
               ? head_at + size_bytes
               : 0;
}

enum record_verdict logfile_read_before(const struct logfile *log, enum read_buffer buffer,
                                        uint64_t offset, uint64_t end, struct record *record,
                                        uint64_t *size_bytes)
{
    enum record_verdict verdict = read_standing(log, buffer, offset, end, record, size_bytes);
    return verdict == RECORD_VALID && record->kind == RECORD_POINTER
               ? read_placed(log, buffer, offset, end, true, record, size_bytes)
               : verdict;
}

enum record_verdict logfile_walk(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, uint64_t end, struct record *record,
                                 uint64_t *size_bytes, bool *verified)
{
    *verified = !log->map ||
                record_parse(log->map + offset, end - offset, record, size_bytes) != RECORD_VALID ||
                !verified_bitmap_has(&log->verified, offset, *size_bytes);
    enum record_verdict verdict =
        *verified ? read_standing(log, buffer, offset, end, record, size_bytes) : RECORD_VALID;
    if (verdict != RECORD_VALID || record->kind != RECORD_POINTER)
        return verdict;
    *verified = !log->map;
    return read_placed(log, buffer, offset, end, *verified, record, size_bytes);
}

bool logfile_verify(const struct logfile *log, uint64_t offset, const struct record *record)
{
    uint64_t at = record_entry_offset(record, offset);
    struct record alone = *record;
    if (record->content_at != 0) {
        record_detach(&alone);
        alone.in_extent = true;
    }
    return record_is_sound(log->map + at, &alone, log->identity.salt, at);
}

enum record_verdict logfile_read(const struct logfile *log, enum read_buffer buffer,
                                 uint64_t offset, struct record *record, uint64_t *size_bytes)
{
    return logfile_read_before(log, buffer, offset, logfile_end_of(log), record, size_bytes);
}

bool logfile_holds(const struct logfile *log, enum read_buffer buffer, uint64_t offset)
{
    if (log->map)
        return true;
    if (!read_buffer_holds(buffer, offset, RECORD_MAX_HEADER_BYTES))
        return false;
    struct record record;
    uint64_t size_bytes;
    const uint8_t *at = bytes_by_call(log, buffer, offset, RECORD_MAX_HEADER_BYTES,
                                      offset + RECORD_MAX_HEADER_BYTES); /* without reading */
    return record_parse(at, LOGFILE_MAX_BYTES, &record, &size_bytes) != RECORD_VALID ||
           (record.kind != RECORD_POINTER && read_buffer_holds(buffer, offset, size_bytes));
}

bool logfile_is_end(const struct logfile *log, uint64_t offset)
{
    uint64_t left = log->allocated_bytes - offset;
    uint64_t size = at_most(RECORD_HEADER_BYTES, left);
    struct record record;
    uint64_t size_bytes;
    logfile_begin(log, READ_BUFFER_VISIT);
    const uint8_t *at = logfile_bytes(log, READ_BUFFER_VISIT, offset, size);
    return at && record_parse(at, left, &record, &size_bytes) == RECORD_END;
}

void logfile_prefetch(const struct logfile *log, uint64_t offset)
{
    if (!log->map)
        return;
    /* A header of 20 bytes, a key of 16 and a value of 64 lie in two lines or, depending on where
     * they begin, as often in three. */
    __builtin_prefetch(log->map + offset);
    __builtin_prefetch(log->map + offset + CACHE_LINE_BYTES);
    __builtin_prefetch(log->map + offset + (uint64_t)2 * CACHE_LINE_BYTES);
}

/* A disk that fails one call may take the next. */
#define NOTE_TRIES 3u

/* The kernel may have forgotten any page since the last sync. A note that cannot be written is not
 * missed on disk: whoever finds the disk without it finds another boot. But the next process of
 * this boot would take what was forgotten for damage. */
static void note_failed_sync(const struct logfile *log)
{
    uint8_t page[FILE_HEADER_BYTES] = {0};
    uint8_t *header = log->map ? log->map : page;
    int reason = errno;
    boot_note_failed_sync(header, log->identity.salt);
    uint32_t at = fileheader_note_offset(FILE_NOTE_BOOT);
    for (unsigned left = NOTE_TRIES; left > 0; left--)
        if (logfile_put_header(log, header, at, FILE_NOTE_PLACE_BYTES) == 0)
            break;
    errno = reason;
}

/* Where what is not known to be synced begins: at the synced offset, or before, where extents have
 * got another content that is named behind it. */
static uint64_t unsynced_begin(const struct logfile *log)
{
    uint64_t begin = at_least(log->progress.synced_offset, FILE_HEADER_BYTES);
    uint64_t offset = begin, size_bytes;
    struct record record;
    logfile_begin(log, READ_BUFFER_WALK);
    while (offset < log->allocated_bytes &&
           read_standing(log, READ_BUFFER_WALK, offset, log->allocated_bytes, &record,
                         &size_bytes) == RECORD_VALID) {
        uint64_t at = record.kind == RECORD_POINTER ? record_placed_at(&record, offset) : 0;
        if (at >= FILE_HEADER_BYTES)
            begin = at_most(begin, at);
        offset += size_bytes;
    }
    return begin;
}

int logfile_flush_and_forget(const struct logfile *log)
{
    if (logfile_sync(log) != 0)
        return -1;
    uint64_t from = log->progress.synced_offset / PAGE_BYTES * PAGE_BYTES;
    if (from >= log->allocated_bytes)
        return 0;
    fileio->forget(log->fd, log->map, log->allocated_bytes, (off_t)from);
    uint64_t begin = at_most(unsynced_begin(log) / PAGE_BYTES * PAGE_BYTES, from);
    if (begin < from)
        fileio->forget(log->fd, log->map, log->allocated_bytes, (off_t)begin);
    int result = kept_pages_write(log->fd, begin, log->allocated_bytes);
    if (result != 0)
        note_failed_sync(log);
    return result;
}

int logfile_sync(const struct logfile *log)
{
    int result = fileio->sync_data(log->fd);
    if (result != 0)
        note_failed_sync(log);
    return result;
}

int logfile_note_progress(struct logfile *log, uint64_t synced_offset, uint64_t version_floor)
{
    uint8_t page[FILE_HEADER_BYTES];
    KV_ASSERT(log->writable && synced_offset >= FILE_HEADER_BYTES);
    KV_ASSERT(synced_offset <= logfile_end_of(log)); /* which others may move on */
    log->progress.sequence++;
    log->progress.synced_offset = synced_offset;
    log->progress.version_floor = version_floor;
    uint8_t *header = log->map ? log->map : page;
    fileheader_write_progress(header, log->identity.salt, &log->progress);
    uint32_t at = fileheader_progress_offset(&log->progress);
    if (logfile_put_header(log, header, at, FILE_PROGRESS_BYTES) == 0)
        return 0;
    /* It is not known what is in this slot now: the next note goes there, too. */
    log->progress.sequence--;
    return -1;
}
