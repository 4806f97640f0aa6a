#include "kvstore/log/torn_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/memory/machine_sizes.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/holes.h"
#include "mqkv/kvstore.h"
#include "kvstore/format/sizes.h"

/* Bytes of a value may look like headers of large records, each of which costs a checksum: the
 * bytes that are checksummed are no more than the first credit, and the credit for each byte looked
 * at. */
#define FIRST_CREDIT_BYTES (UINT64_C(1) << 30)
#define CREDIT_PER_BYTE    256u

/* Files with the torn_tail at one offset. There are more only if a start fails again and again. */
#define MAX_KEPT_FILES 100u

/* How many bytes of a page stand before the zeros at its end. */
static uint64_t used_bytes(const uint8_t *bytes, uint64_t size)
{
    bool is_zero = size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
    uint64_t used = is_zero ? 0 : size;
    while (used > 0 && bytes[used - 1] == 0)
        used--;
    return used;
}

typedef enum kv_status page_visit(void *context, uint64_t at, const uint8_t *bytes, uint64_t used);

/* Calls visit for each page in [from, allocated_bytes) that is not all zeros, of the first and the
 * last page perhaps for a part. `visit` may use the read buffer. */
static enum kv_status each_page(const struct logfile *log, uint64_t from, page_visit *visit,
                                void *context)
{
    struct stretch_of_data data;
    for (; holes_next_data(log->fd, from, log->allocated_bytes, &data); from = data.to) {
        for (uint64_t at = data.from, size; at < data.to; at += size) {
            size = at_most(data.to - at, PAGE_BYTES - at % PAGE_BYTES);
            const uint8_t *bytes = logfile_bytes(log, READ_BUFFER_WALK, at, size);
            if (!bytes)
                return kv_status_from_errno(errno);
            uint64_t used = used_bytes(bytes, size);
            enum kv_status status = used > 0 ? visit(context, at, bytes, used) : KV_OK;
            if (status != KV_OK)
                return status;
        }
    }
    return KV_OK;
}

struct search {
    const struct logfile *log;
    struct torn_tail *torn_tail;
    uint64_t next; /* no record begins before */
    uint64_t credit_bytes;
};

/* Sets *size_bytes to the size of the record at `offset`; 0: there is none, or it would cost too
 * much to tell. */
static enum kv_status try_record(struct search *search, uint64_t offset, uint64_t *size_bytes)
{
    const struct logfile *log = search->log;
    uint64_t left = log->allocated_bytes - offset;
    uint64_t there = at_most(left, RECORD_MAX_HEADER_BYTES);
    struct record record;
    *size_bytes = 0;
    search->credit_bytes += (uint64_t)CREDIT_PER_BYTE * RECORD_ALIGNMENT;
    const uint8_t *at = logfile_bytes(log, READ_BUFFER_WALK, offset, there);
    if (!at)
        return kv_status_from_errno(errno);
    uint64_t size;
    if (record_parse(at, left, &record, &size) != RECORD_VALID ||
        record.value.size > KVSTORE_MAX_VALUE_BYTES || size > search->credit_bytes)
        return KV_OK;
    search->credit_bytes -= size;
    enum record_verdict verdict =
        logfile_read_before(log, READ_BUFFER_WALK, offset, log->allocated_bytes, &record, &size);
    if (verdict == RECORD_UNREADABLE)
        return kv_status_from_errno(errno);
    if (verdict == RECORD_VALID)
        *size_bytes = size;
    return KV_OK;
}

/* A record begins in this page or in the last 8 bytes of the one before, whose other bytes it has:
 * more zeros than its checksum and the size of its value do not begin one. */
static enum kv_status search_page(void *context, uint64_t at, const uint8_t *bytes, uint64_t used)
{
    struct search *search = context;
    struct torn_tail *torn_tail = search->torn_tail;
    (void)bytes;
    uint64_t end = at + used;
    uint64_t offset = at / RECORD_ALIGNMENT * RECORD_ALIGNMENT;
    if (offset >= RECORD_ALIGNMENT)
        offset -= RECORD_ALIGNMENT;
    for (offset = at_least(offset, search->next); offset < end;) {
        uint64_t size_bytes;
        enum kv_status status = try_record(search, offset, &size_bytes);
        if (status != KV_OK)
            return status;
        if (size_bytes > 0 && torn_tail->intact++ == 0)
            torn_tail->first_intact_at = offset;
        offset += at_least(size_bytes, RECORD_ALIGNMENT);
    }
    search->next = offset;
    torn_tail->end = at_least(torn_tail->end, end);
    return KV_OK;
}

enum kv_status torn_tail_find(const struct logfile *log, uint64_t from, struct torn_tail *torn_tail)
{
    *torn_tail = (struct torn_tail){.end = from};
    struct search search = {log, torn_tail, from + RECORD_ALIGNMENT, FIRST_CREDIT_BYTES};
    logfile_begin(log, READ_BUFFER_WALK);
    return each_page(log, from, search_page, &search);
}

/* Keeping -------------------------------------------------------------------------------------- */

static int create_kept_file(int dir_fd, uint32_t number, uint64_t offset,
                            char name[TORN_TAIL_NAME_BYTES])
{
    for (unsigned i = 0; i < MAX_KEPT_FILES; i++) {
        int length = snprintf(name, TORN_TAIL_NAME_BYTES, "%s.cut-%" PRIu64,
                              file_name(number, FILE_LOG).text, offset);
        if (i > 0)
            snprintf(name + length, TORN_TAIL_NAME_BYTES - (size_t)length, ".%u", i);
        int fd = fileio->open_at(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static enum kv_status copy_page(void *context, uint64_t at, const uint8_t *bytes, uint64_t used)
{
    const int *fd = context;
    return fileio->write_at(*fd, bytes, used, (off_t)at) < 0 ? kv_status_from_errno(errno) : KV_OK;
}

static enum kv_status copy_remains(const struct logfile *log, const struct torn_tail *torn_tail,
                                   int fd)
{
    uint8_t header[FILE_HEADER_BYTES] = {0};
    struct file_progress progress = {.sequence = 1,
                                     .synced_offset = FILE_HEADER_BYTES,
                                     .version_floor = log->progress.version_floor};
    fileheader_write_identity(header, &log->identity);
    fileheader_write_progress(header, log->identity.salt, &progress);
    enum kv_status status = copy_page(&fd, 0, header, sizeof header);
    logfile_begin(log, READ_BUFFER_WALK);
    if (status == KV_OK)
        status = each_page(log, log->tail, copy_page, &fd);
    if (status == KV_OK &&
        (fileio->truncate(fd, (off_t)round_up(torn_tail->end, PAGE_BYTES)) != 0 ||
         fileio->sync_data(fd) != 0))
        status = kv_status_from_errno(errno);
    return status;
}

enum kv_status torn_tail_keep(const struct logfile *log, const struct torn_tail *torn_tail,
                              int dir_fd, char name[TORN_TAIL_NAME_BYTES], struct kv_error *error)
{
    int fd = create_kept_file(dir_fd, log->identity.number, log->tail, name);
    if (fd < 0)
        return kv_error_set_errno(error,
                                  "%s: cannot create the file, to keep %" PRIu64
                                  " intact records in that lie behind a torn place",
                                  name, torn_tail->intact);
    enum kv_status status = copy_remains(log, torn_tail, fd);
    if (status == KV_OK && fileio->sync_dir(dir_fd) != 0)
        status = kv_status_from_errno(errno);
    if (status != KV_OK) {
        kv_error_set_errno(error,
                           "%s: cannot write the file, to keep %" PRIu64
                           " intact records in that lie behind a torn place; make room for %" PRIu64
                           " bytes",
                           name, torn_tail->intact, torn_tail->end - log->tail + FILE_HEADER_BYTES);
        fileio->unlink_at(dir_fd, name);
    }
    close(fd);
    return status;
}
