/*
 * covers: kvstore/format/record.c kvstore/table/recovery.c kvstore/log/logtail.c
 *
 * The record decoder and the opening of a data file under libFuzzer.
 *
 * Each input is read as a record at its start, and then taken for the log of a store of one file:
 *
 *   byte 0     bit 0: make the checksums of what parses as records, and of the checkpoint, hold, so
 *              that the input gets past them; bit 1: the input is the whole file, header page
 *              included; bit 2: its second half is the checkpoint
 *   byte 1, 2  the synced offset, in 8 bytes after the header page
 *   the rest   the log, or the file
 *
 * Whatever it is: the store opens or says what is wrong; if it opens, all that a scan gives can be
 * got, a put can be read back, and so it can after another open.
 */
#include "tests/fuzz/fuzz_store.h"

#include <xxhash.h>

#include "common/memory/cursor.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"

#define SALT            UINT64_C(0x5a17)
#define SEED            UINT64_C(0x5eed)
#define CONTROL_BYTES   3u
#define MAX_INPUT_BYTES 65536u

enum { FIX_CHECKSUMS = 1, WHOLE_FILE = 2, WITH_CHECKPOINT = 4 };

static void write_file(const char *name, const uint8_t *first, size_t first_bytes,
                       const uint8_t *second, size_t second_bytes)
{
    int fd = fuzz_open_file(name, O_WRONLY | O_CREAT | O_TRUNC);
    require(write(fd, first, first_bytes) == (ssize_t)first_bytes);
    require(second_bytes == 0 || write(fd, second, second_bytes) == (ssize_t)second_bytes);
    close(fd);
}

static void write_header(uint8_t *page, uint64_t synced_offset)
{
    struct file_identity identity = {
        .format_version = FILE_FORMAT_VERSION, .datafiles = 1, .store_seed = SEED, .salt = SALT};
    struct file_progress progress = {1, synced_offset, 7, 0};
    memset(page, 0, FILE_HEADER_BYTES);
    fileheader_write_identity(page, &identity);
    fileheader_write_progress(page, SALT, &progress);
}

/* Writes a record as it is when it is whole: the content of an extent with its version. */
static uint64_t write_whole(uint8_t *at, const struct record *record, uint64_t offset)
{
    uint64_t size_bytes = record_write(at, record, kv_slice(NULL, 0), SALT, offset);
    if (record->in_extent)
        record_number(record, SALT, offset, at, at + RECORD_VERSION_AT);
    return size_bytes;
}

/* Goes into extents. */
static void fix_checksums(uint8_t *log, size_t size)
{
    struct record record;
    uint64_t size_bytes;
    for (size_t at = 0; at < size; at += size_bytes) {
        if (record_parse(log + at, size - at, &record, &size_bytes) != RECORD_VALID)
            break;
        uint8_t *copy = malloc(size_bytes);
        require(copy != NULL);
        write_whole(copy, &record, FILE_HEADER_BYTES + at);
        memcpy(log + at, copy, size_bytes);
        free(copy);
        if (record.kind == RECORD_EXTENT)
            size_bytes = RECORD_EXTENT_HEAD_BYTES;
    }
}

static void fix_checkpoint(uint8_t *checkpoint, size_t size)
{
    const size_t checksum_bytes = 8;
    if (size >= checksum_bytes)
        store_u64(checkpoint + size - checksum_bytes,
                  XXH3_64bits_withSeed(checkpoint, size - checksum_bytes, SALT));
}

/* A record that reads as valid is written to the same bytes. */
static void try_record(const uint8_t *data, size_t size)
{
    struct record record;
    uint64_t size_bytes;
    if (record_parse(data, size, &record, &size_bytes) != RECORD_VALID)
        return;
    require(size_bytes <= size && size_bytes % RECORD_ALIGNMENT == 0);
    require((const uint8_t *)record.key.data + record.key.size <= data + size_bytes);
    if (record_read(data, size, SALT, 0, &record, &size_bytes) != RECORD_VALID)
        return;
    uint8_t *copy = malloc(size_bytes);
    require(copy != NULL);
    require(write_whole(copy, &record, 0) == size_bytes);
    require(memcmp(copy, data, size_bytes) == 0);
    free(copy);
}

static bool visit(void *context, const struct kvstore_scanned *entry)
{
    uint64_t *visits = context;
    ++*visits;
    return entry->key.size > 0 && entry->key.size <= KVSTORE_MAX_KEY_BYTES;
}

static void scan_all(struct kvstore *store)
{
    uint64_t cursor = 0;
    uint64_t visits = 0;
    do {
        enum kv_status status =
            kvstore_scan(store, &cursor, kv_slice(NULL, 0), 1000, visit, &visits, NULL);
        if (status == KV_CORRUPT)
            return;
        require(status == KV_OK);
    } while (cursor != 0);
    require(visits <= MAX_INPUT_BYTES);
}

static void try_store(void)
{
    static const struct kvstore_options options = {.max_value_bytes = KVSTORE_MAX_VALUE_BYTES,
                                                   .compact_dead_percent = 100};
    for (int round = 0; round < 2; round++) {
        struct kvstore *store;
        struct kv_error error = {0};
        if (kvstore_open(fuzz_dir, &options, &store, &error) != KV_OK) {
            require(error.text[0] != '\0');
            return;
        }
        scan_all(store);
        fuzz_try_put(store);
        require(kvstore_close(store, &error) == KV_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_make_dir();
    try_record(data, size);
    if (size < CONTROL_BYTES || size > MAX_INPUT_BYTES)
        return 0;

    uint8_t control = data[0];
    uint64_t synced_offset = FILE_HEADER_BYTES + UINT64_C(8) * load_u16(data + 1);
    size_t content_bytes = size - CONTROL_BYTES;
    size_t log_bytes = control & WITH_CHECKPOINT ? content_bytes / 2 : content_bytes;
    uint8_t *log = malloc(content_bytes + 1);
    require(log != NULL);
    memcpy(log, data + CONTROL_BYTES, content_bytes);
    if (control & FIX_CHECKSUMS && !(control & WHOLE_FILE))
        fix_checksums(log, log_bytes);

    uint8_t page[FILE_HEADER_BYTES];
    write_header(page, synced_offset);
    write_file("data.0000", page, control & WHOLE_FILE ? 0 : sizeof page, log, log_bytes);
    if (control & FIX_CHECKSUMS && control & WITH_CHECKPOINT)
        fix_checkpoint(log + log_bytes, content_bytes - log_bytes);
    if (control & WITH_CHECKPOINT)
        write_file("data.0000.index", log + log_bytes, content_bytes - log_bytes, NULL, 0);
    free(log);
    try_store();
    return 0;
}
