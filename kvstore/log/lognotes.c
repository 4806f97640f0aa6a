#include "kvstore/log/lognotes.h"

#include <errno.h>

#include "common/numbers/random.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/fileio.h"

static int put_note(const struct logfile *log, const uint8_t *header, enum file_note note)
{
    return logfile_put_header(log, header, fileheader_note_offset(note), FILE_NOTE_PLACE_BYTES);
}

int lognotes_put_opening(struct logfile *log)
{
    uint8_t page[FILE_HEADER_BYTES] = {0};
    uint8_t *header = log->map ? log->map : page;
    boot_note(header, log->identity.salt);
    fileheader_write_hash_key(header, &log->identity);
    if (put_note(log, header, FILE_NOTE_BOOT) != 0 ||
        put_note(log, header, FILE_NOTE_HASH_KEY) != 0)
        return -1;
    return log->notes_are_missing ? logfile_sync(log) : 0;
}

static int put_chapters(const struct logfile *log, uint8_t *header,
                        const struct file_chapters *chapters)
{
    file_chapters_write(header, log->identity.salt, chapters);
    return logfile_put_header(log, header, FILE_CHAPTERS_OFFSET, FILE_CHAPTERS_BYTES);
}

int lognotes_begin_chapter(struct logfile *log)
{
    uint8_t page[FILE_HEADER_BYTES];
    uint8_t *header = log->map ? log->map : page;
    struct file_chapters chapters;
    if (!log->map && fileio->read_at(log->fd, page, sizeof page, 0) != (ssize_t)sizeof page)
        return -1;
    log->chapter = random_secret() | 1;
    file_chapters_read(header, log->identity.salt, &chapters);
    file_chapters_begin(&chapters, log->chapter,
                        at_least(log->progress.synced_offset, FILE_HEADER_BYTES));
    chapters.gone = log->gone;
    return put_chapters(log, header, &chapters);
}

int lognotes_put_gone(struct logfile *log, const struct file_gone *gone)
{
    uint8_t page[FILE_HEADER_BYTES];
    uint8_t *header = log->map ? log->map : page;
    struct file_chapters chapters;
    if (!log->map && fileio->read_at(log->fd, page, sizeof page, 0) != (ssize_t)sizeof page)
        return -1;
    file_chapters_read(header, log->identity.salt, &chapters);
    chapters.gone = *gone;
    if (put_chapters(log, header, &chapters) != 0)
        return -1;
    log->gone = *gone;
    return 0;
}

int lognotes_put_replaced(struct logfile *log, const struct file_replaced *replaced)
{
    uint8_t page[FILE_HEADER_BYTES] = {0};
    uint8_t *header = log->map ? log->map : page;
    if (!fileheader_write_replaced(header, log->identity.salt, replaced)) {
        errno = EFBIG;
        return -1;
    }
    return put_note(log, header, FILE_NOTE_REPLACED);
}

int lognotes_put_newest_format(const struct logfile *log)
{
    uint8_t page[FILE_HEADER_BYTES] = {0};
    uint8_t *header = log->map ? log->map : page;
    uint32_t at = fileheader_write_format(header, FILE_FORMAT_NEWEST);
    return logfile_put_header(log, header, at, FILE_FORMAT_BYTES);
}

int lognotes_put_stream(struct logfile *log, uint64_t stream)
{
    uint8_t page[FILE_HEADER_BYTES] = {0};
    uint8_t *header = log->map ? log->map : page;
    fileheader_write_stream(header, log->identity.salt, stream);
    if (put_note(log, header, FILE_NOTE_STREAM) != 0)
        return -1;
    log->stream = stream;
    return 0;
}

void lognotes_replaced(const struct logfile *log, struct file_replaced *replaced)
{
    uint8_t page[FILE_HEADER_BYTES] = {0};
    *replaced = (struct file_replaced){0};
    if (fileio->read_at(log->fd, page, sizeof page, 0) == (ssize_t)sizeof page)
        fileheader_read_replaced(page, log->identity.salt, replaced);
}
