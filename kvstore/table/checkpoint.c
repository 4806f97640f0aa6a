#include "kvstore/table/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/assert/assert.h"
#include "common/memory/cursor.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "kvstore/log/fileio.h"

#define MAGIC_BYTES    8u
#define HEADER_BYTES   80u
#define RUN_BYTES      12u
#define ITEM_BYTES     8u
#define CHECKSUM_BYTES 8u
#define OFFSET_UNIT    8u

/* 1 was the same without the check of the hash key, with hashes of another kind. */
#define CHECKPOINT_FORMAT_VERSION 2u

#define BUFFER_BYTES (UINT64_C(256) << 10)
_Static_assert(BUFFER_BYTES >= HEADER_BYTES, "the header fits");
_Static_assert(BUFFER_BYTES >= RUN_BYTES + INDEX_SEGMENT_SLOTS * ITEM_BYTES, "a run fits");

_Static_assert(HEADER_BYTES == MAGIC_BYTES + 2 * 4 + 8 * 8, "layout");
_Static_assert(OFFSET_UNIT == SEGMENT_OFFSET_UNIT, "layout");

static const char magic[MAGIC_BYTES + 1] = "mqkvindx";

/* A file that is read or written from start to end, through a buffer, with a running checksum. */
struct stream {
    int fd;
    uint64_t offset; /* in the file, of the buffer's start */
    uint64_t used;   /* bytes in the buffer */
    uint64_t taken;  /* when reading: how many of those were given out */
    XXH3_state_t *checksum;
    bool failed; /* a call failed (errno), or reading met the end of the file too early */
    uint8_t buffer[BUFFER_BYTES];
};

/* NULL and errno: out of memory. */
static struct stream *stream_open(int fd, uint64_t salt)
{
    struct stream *stream = malloc(sizeof *stream);
    XXH3_state_t *checksum = XXH3_createState();
    if (!stream || !checksum) {
        free(stream);
        XXH3_freeState(checksum);
        errno = ENOMEM;
        return NULL;
    }
    XXH3_64bits_reset_withSeed(checksum, salt);
    stream->fd = fd;
    stream->offset = stream->used = stream->taken = 0;
    stream->checksum = checksum;
    stream->failed = false;
    return stream;
}

static void stream_close(struct stream *stream)
{
    XXH3_freeState(stream->checksum);
    free(stream);
}

static void stream_flush(struct stream *stream)
{
    if (!stream->failed &&
        fileio->write_at(stream->fd, stream->buffer, stream->used, (off_t)stream->offset) < 0)
        stream->failed = true;
    stream->offset += stream->used;
    stream->used = 0;
}

/* Returns room for `size` bytes, to be filled before stream_wrote. */
static uint8_t *stream_room(struct stream *stream, uint64_t size)
{
    KV_ASSERT(size <= BUFFER_BYTES);
    if (stream->used + size > BUFFER_BYTES)
        stream_flush(stream);
    return stream->buffer + stream->used;
}

static void stream_wrote(struct stream *stream, uint64_t size)
{
    XXH3_64bits_update(stream->checksum, stream->buffer + stream->used, size);
    stream->used += size;
    KV_ASSERT(stream->used <= BUFFER_BYTES);
}

/* The next `size` bytes, valid until the next call; NULL at the end. */
static const uint8_t *stream_take(struct stream *stream, uint64_t size)
{
    if (stream->used - stream->taken < size) {
        uint64_t left = stream->used - stream->taken;
        memmove(stream->buffer, stream->buffer + stream->taken, left);
        stream->offset += stream->taken;
        ssize_t got = fileio->read_at(stream->fd, stream->buffer + left, BUFFER_BYTES - left,
                                      (off_t)(stream->offset + left));
        stream->used = left + (got > 0 ? (uint64_t)got : 0);
        stream->taken = 0;
    }
    if (stream->used - stream->taken < size) {
        stream->failed = true;
        return NULL;
    }
    const uint8_t *bytes = stream->buffer + stream->taken;
    stream->taken += size;
    return bytes;
}

static const uint8_t *stream_take_checked(struct stream *stream, uint64_t size)
{
    const uint8_t *bytes = stream_take(stream, size);
    if (bytes)
        XXH3_64bits_update(stream->checksum, bytes, size);
    return bytes;
}

/* Writing -------------------------------------------------------------------------------------- */

/* Tells whether hashes are made with the same key, without telling the key. */
static uint64_t hash_key_check(const struct logfile *log)
{
    return keyhash(&log->identity.hash_key, kv_slice(magic, MAGIC_BYTES));
}

static void write_checkpoint_header(struct stream *stream, const struct generation *generation)
{
    const struct logfile *log = &generation->log;
    struct write_cursor cursor = write_cursor(stream_room(stream, HEADER_BYTES), HEADER_BYTES);
    write_bytes(&cursor, magic, MAGIC_BYTES);
    write_u32(&cursor, CHECKPOINT_FORMAT_VERSION);
    write_u32(&cursor, log->identity.number);
    write_u64(&cursor, log->identity.salt);
    write_u64(&cursor, log->tail);
    write_u64(&cursor, generation->words->max_version);
    write_u64(&cursor, generation->words->live_bytes);
    write_u64(&cursor, generation->words->expiring_keys);
    write_u64(&cursor, generation->words->reserve_bytes);
    write_u64(&cursor, index_count(generation->index));
    write_u64(&cursor, hash_key_check(log));
    stream_wrote(stream, HEADER_BYTES);
}

static void write_index(struct stream *stream, const struct index *index)
{
    struct index_item items[INDEX_SEGMENT_SLOTS];
    for (uint64_t hash = 0; hash < INDEX_HASH_END;) {
        uint64_t expiry_bound_ms = index_expiry_bound(index, (uint32_t)hash);
        size_t count = index_collect(index, hash, items, INDEX_SEGMENT_SLOTS, &hash);
        if (count > 0) {
            uint64_t size = RUN_BYTES + count * ITEM_BYTES;
            struct write_cursor cursor = write_cursor(stream_room(stream, size), size);
            write_u32(&cursor, (uint32_t)count);
            write_u64(&cursor, expiry_bound_ms);
            for (uint64_t i = 0; i < count; i++) {
                write_u32(&cursor, items[i].hash);
                write_u32(&cursor, (uint32_t)(items[i].offset_bytes / OFFSET_UNIT));
            }
            stream_wrote(stream, size);
        }
    }
}

static bool write_checkpoint(const struct generation *generation, int fd)
{
    struct stream *stream = stream_open(fd, generation->log.identity.salt);
    if (!stream)
        return false;
    write_checkpoint_header(stream, generation);
    write_index(stream, generation->index);
    uint64_t checksum = XXH3_64bits_digest(stream->checksum);
    store_u64(stream_room(stream, CHECKSUM_BYTES), checksum);
    stream->used += CHECKSUM_BYTES;
    stream_flush(stream);
    bool written = !stream->failed;
    stream_close(stream);
    return written && fileio->sync_data(fd) == 0;
}

enum kv_status checkpoint_write(const struct generation *generation, int dir_fd,
                                struct kv_error *error)
{
    uint32_t number = generation->log.identity.number;
    struct file_name unfinished = file_name(number, FILE_CHECKPOINT_NEW);
    struct file_name name = file_name(number, FILE_CHECKPOINT);
    int fd =
        fileio->open_at(dir_fd, unfinished.text, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return kv_error_set_errno(error, "%s: cannot create the file", unfinished.text);
    KV_ASSERT(generation->log.progress.synced_offset == generation->log.tail);
    KV_ASSERT(generation->words->live_bytes <= generation->log.tail - FILE_HEADER_BYTES);
    bool written = write_checkpoint(generation, fd) &&
                   fileio->rename_at(dir_fd, unfinished.text, name.text) == 0;
    enum kv_status status = KV_OK;
    if (!written) {
        status = kv_error_set(error, kv_status_from_errno(errno),
                              "%s: cannot write the index checkpoint: %s; the next start rebuilds "
                              "the index from the data",
                              name.text, strerror(errno));
        fileio->unlink_at(dir_fd, unfinished.text);
    }
    close(fd);
    return status;
}

/* Loading -------------------------------------------------------------------------------------- */

/* The header of a checkpoint that is being loaded, and the index that is being filled. */
struct loaded {
    uint64_t tail;
    uint64_t live_bytes;
    uint64_t expiring_keys;
    uint64_t reserve_bytes;
    uint64_t keys;
    struct index *index; /* the generation's */
};

/* Returns true if nothing was appended to the log since: it was synced up to `tail`, and ends
 * there. */
static bool synced_log_ends_at(const struct logfile *log, uint64_t tail)
{
    if (tail != log->progress.synced_offset || tail < FILE_HEADER_BYTES ||
        tail > log->allocated_bytes)
        return false;
    return logfile_is_end(log, tail);
}

/* Returns true if records before the tail can have these sums: their bytes bound all of them, and
 * the shortest record has 24. */
static bool loaded_sums_are_possible(const struct loaded *loaded)
{
    return loaded->live_bytes <= loaded->tail - FILE_HEADER_BYTES &&
           loaded->reserve_bytes <= loaded->live_bytes &&
           loaded->keys <= loaded->reserve_bytes / record_size(1, 0, false) &&
           loaded->expiring_keys <= loaded->keys;
}

static bool load_header(struct stream *stream, const struct logfile *log, struct loaded *loaded)
{
    const uint8_t *bytes = stream_take_checked(stream, HEADER_BYTES);
    if (!bytes || memcmp(bytes, magic, MAGIC_BYTES) != 0)
        return false;
    struct read_cursor cursor = read_cursor(bytes + MAGIC_BYTES, HEADER_BYTES - MAGIC_BYTES);
    uint32_t format_version = read_u32(&cursor);
    uint32_t number = read_u32(&cursor);
    uint64_t salt = read_u64(&cursor);
    loaded->tail = read_u64(&cursor);
    uint64_t max_version = read_u64(&cursor);
    loaded->live_bytes = read_u64(&cursor);
    loaded->expiring_keys = read_u64(&cursor);
    loaded->reserve_bytes = read_u64(&cursor);
    loaded->keys = read_u64(&cursor);
    return format_version == CHECKPOINT_FORMAT_VERSION &&
           read_u64(&cursor) == hash_key_check(log) && number == log->identity.number &&
           salt == log->identity.salt && synced_log_ends_at(log, loaded->tail) &&
           max_version <= log->progress.version_floor && loaded_sums_are_possible(loaded);
}

static bool load_item(struct loaded *loaded, const uint8_t *bytes, uint64_t expiry_bound_ms)
{
    uint32_t hash = load_u32(bytes);
    uint64_t offset = (uint64_t)load_u32(bytes + 4) * OFFSET_UNIT;
    if (offset < FILE_HEADER_BYTES || offset >= loaded->tail || !index_reserve(loaded->index, hash))
        return false;
    index_insert(loaded->index, hash, offset);
    if (expiry_bound_ms != UINT64_MAX)
        index_note_expiry(loaded->index, hash, expiry_bound_ms);
    return true;
}

static bool load_record_run(struct stream *stream, struct loaded *loaded)
{
    const uint8_t *bytes = stream_take_checked(stream, RUN_BYTES);
    if (!bytes)
        return false;
    uint32_t count = load_u32(bytes);
    uint64_t expiry_bound_ms = load_u64(bytes + 4);
    if (count == 0 || count > INDEX_SEGMENT_SLOTS)
        return false;
    bytes = stream_take_checked(stream, (uint64_t)count * ITEM_BYTES);
    for (uint32_t i = 0; bytes && i < count; i++)
        if (!load_item(loaded, bytes + (uint64_t)i * ITEM_BYTES, expiry_bound_ms))
            return false;
    return bytes != NULL;
}

static bool load_checkpoint(struct stream *stream, const struct logfile *log, struct loaded *loaded)
{
    if (!load_header(stream, log, loaded))
        return false;
    while (index_count(loaded->index) < loaded->keys)
        if (!load_record_run(stream, loaded))
            return false;
    uint64_t checksum = XXH3_64bits_digest(stream->checksum);
    const uint8_t *bytes = stream_take(stream, CHECKSUM_BYTES);
    return bytes && load_u64(bytes) == checksum && index_count(loaded->index) == loaded->keys;
}

bool checkpoint_load(struct generation *generation, int dir_fd)
{
    const struct logfile *log = &generation->log;
    struct file_name name = file_name(log->identity.number, FILE_CHECKPOINT);
    int fd = fileio->open_at(dir_fd, name.text, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0)
        return false;
    struct loaded loaded = {.index = generation->index};
    struct stream *stream = stream_open(fd, log->identity.salt);
    bool valid = stream && load_checkpoint(stream, log, &loaded);
    if (stream)
        stream_close(stream);
    close(fd);
    if (!valid) {
        log_info(
            "%s: the checkpoint does not match its data file, or memory is short; the index is "
            "rebuilt",
            name.text);
        return false;
    }
    generation->log.tail = loaded.tail;
    generation->words->live_bytes = loaded.live_bytes;
    generation->words->expiring_keys = loaded.expiring_keys;
    generation->words->reserve_bytes = loaded.reserve_bytes;
    return true;
}
