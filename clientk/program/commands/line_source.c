#include "clientk/program/commands/line_source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/transact_block.h"
#include "clientk/program/commands/zstd_reader.h"
#include "common/report/error.h"

/* A value of 64 MiB, each byte as \xHH, with a key of 64 KiB likewise, and some options. */
#define LONGEST_LINE_BYTES (4u * ((64u << 20) + (64u << 10)) + 4096u)
#define READ_BYTES         (256u << 10)

struct line_source {
    const char *name;
    int fd;
    pthread_mutex_t lock; /* covers what follows */
    uint64_t total_bytes;
    struct zstd_reader reader;
    char *buffer; /* bytes start..end are read and not yet handed out */
    size_t start, end, capacity;
    size_t searched; /* the newline is not among the bytes before this one */
    size_t line;     /* where the last line of a transaction's block begins, if in_block */
    bool in_block;
    bool joins_blocks;
    uint64_t block_lines; /* that are ended */
    bool skipping;        /* the rest of a line that is too long is being skipped */
    bool ended;
    char error[160]; /* "": no error */
    uint64_t done_bytes;
    uint64_t next_ticket;
    uint64_t next_number;
};

enum kv_status line_source_open(const char *path, struct line_source **source,
                                struct kv_error *error)
{
    bool standard_input = strcmp(path, "-") == 0;
    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kv_error_set_errno(error, "cannot open %.200s", path);
    struct line_source *made = calloc(1, sizeof *made);
    if (!made) {
        if (!standard_input)
            close(fd);
        return kv_error_set(error, KV_NO_MEMORY, "no memory to read %.200s", path);
    }
    struct stat status;
    made->name = standard_input ? "stdin" : path;
    made->fd = fd;
    made->next_number = 1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        made->total_bytes = (uint64_t)status.st_size;
    pthread_mutex_init(&made->lock, NULL);
    *source = made;
    return KV_OK;
}

void line_source_join_blocks(struct line_source *source)
{
    pthread_mutex_lock(&source->lock);
    source->joins_blocks = true;
    pthread_mutex_unlock(&source->lock);
}

const char *line_source_name(const struct line_source *source)
{
    return source->name;
}

uint64_t line_source_total_bytes(struct line_source *source)
{
    pthread_mutex_lock(&source->lock);
    uint64_t total = source->total_bytes;
    pthread_mutex_unlock(&source->lock);
    return total;
}

uint64_t line_source_done_bytes(struct line_source *source)
{
    pthread_mutex_lock(&source->lock);
    uint64_t done = source->done_bytes;
    pthread_mutex_unlock(&source->lock);
    return done;
}

const char *line_source_error(struct line_source *source)
{
    pthread_mutex_lock(&source->lock);
    const char *error = source->error[0] ? source->error : NULL;
    pthread_mutex_unlock(&source->lock);
    return error;
}

/* Makes room for READ_BYTES more bytes. Holds: lock. */
static bool make_line_room(struct line_source *source)
{
    if (source->start > 0) {
        memmove(source->buffer, source->buffer + source->start, source->end - source->start);
        source->end -= source->start;
        source->searched -= source->start;
        source->line -= source->in_block ? source->start : 0;
        source->start = 0;
    }
    if (source->capacity - source->end >= READ_BYTES)
        return true;
    size_t capacity = source->capacity * 2 + READ_BYTES;
    char *buffer = realloc(source->buffer, capacity);
    if (!buffer) {
        strcpy(source->error, "not enough memory for the line");
        return false;
    }
    source->buffer = buffer;
    source->capacity = capacity;
    return true;
}

/* Ends the source in the middle of a line, which is dropped: half a line is no line. Holds:
 * lock. */
static void end_within_line(struct line_source *source)
{
    source->ended = true;
    source->start = source->searched = source->end;
}

/* Reads more; false at the end, after a signal, or on failure. Holds: lock. */
static bool read_more(struct line_source *source)
{
    if (source->ended)
        return false;
    if (!make_line_room(source)) {
        end_within_line(source);
        return false;
    }
    ssize_t got = -1;
    bool readable;
    do {
        readable = zstd_reader_has_more(&source->reader) || interrupt_wait_readable(source->fd);
        if (readable)
            got = zstd_reader_read(&source->reader, source->fd, source->buffer + source->end,
                                   READ_BYTES);
    } while (readable && got < 0 && errno == EINTR);
    if (zstd_reader_is_compressed(&source->reader))
        source->total_bytes = 0;
    if (got > 0) {
        source->end += (size_t)got;
        return true;
    }
    source->ended = true;
    if (got < 0)
        end_within_line(source);
    if (got < 0 && readable) {
        char reason[100];
        const char *text = errno == EBADMSG ? "the compressed data are damaged"
                           : errno == ENODATA
                               ? "the compressed data end too early: they were cut off"
                               : strerror_r(errno, reason, sizeof reason);
        snprintf(source->error, sizeof source->error, "reading: %s", text);
    }
    return false;
}

/* Finds the end of the line at `start`, if its newline was read. Holds: lock. */
static bool find_newline(struct line_source *source, size_t *end)
{
    size_t unseen = source->end - source->searched;
    const char *newline =
        unseen > 0 ? memchr(source->buffer + source->searched, '\n', unseen) : NULL;
    source->searched = newline ? (size_t)(newline - source->buffer) : source->end;
    *end = source->searched;
    return newline != NULL;
}

/* Finds the end of what is handed out as one: a line, or all lines of a transaction's block. Holds:
 * lock. */
static bool find_command_end(struct line_source *source, size_t *end)
{
    while (find_newline(source, end)) {
        size_t line = source->in_block ? source->line : source->start;
        const char *text = source->buffer + line;
        bool begins =
            source->joins_blocks && !source->skipping && transact_block_begins(text, *end - line);
        if (!source->in_block && !begins)
            return true;
        source->block_lines++;
        if (source->in_block && transact_block_ends(text, *end - line))
            return true;
        source->in_block = true;
        source->line = source->searched = *end + 1;
    }
    return false;
}

/* Appends a line; an empty line has memory, too, so that nothing is added to NULL. */
static bool chunk_append(struct line_chunk *chunk, const char *bytes, size_t size, bool too_long)
{
    if (chunk->capacity - chunk->size < size + !too_long) {
        size_t capacity = (chunk->size + size + 1) * 2;
        char *grown = realloc(chunk->bytes, capacity);
        if (!grown)
            return false;
        chunk->bytes = grown;
        chunk->capacity = capacity;
    }
    if (size > 0)
        memcpy(chunk->bytes + chunk->size, bytes, size);
    chunk->lines[chunk->count++] = (struct source_line){chunk->size, size, too_long};
    chunk->size += size;
    return true;
}

/* Hands out the bytes up to `end` as one line and drops `taken` of them. Holds: lock. */
static void hand_out(struct line_source *source, struct line_chunk *chunk, size_t end, size_t taken)
{
    bool fits = end - source->start <= LONGEST_LINE_BYTES && !source->skipping;
    if (!chunk_append(chunk, source->buffer + source->start, fits ? end - source->start : 0, !fits))
        chunk_append(chunk, NULL, 0, true);
    source->skipping = false;
    source->done_bytes += taken;
    source->start += taken;
    source->searched = source->start;
    source->next_number += source->block_lines > 0 ? source->block_lines : 1;
    source->block_lines = 0;
    source->in_block = false;
}

bool line_source_take(struct line_source *source, size_t most, struct line_chunk *chunk)
{
    chunk->count = 0;
    chunk->size = 0;
    pthread_mutex_lock(&source->lock);
    chunk->first_number = source->next_number;
    while (chunk->count < most && chunk->count < LINE_SOURCE_CHUNK) {
        size_t end;
        if (find_command_end(source, &end)) {
            bool was_block = source->in_block;
            hand_out(source, chunk, end, end - source->start + 1);
            if (was_block) /* the lines of a chunk are numbered one by one */
                break;
        } else if (chunk->count > 0) {
            break;
        } else if (source->end - source->start > LONGEST_LINE_BYTES) {
            source->skipping = true;
            source->done_bytes += source->end - source->start;
            source->start = source->end = source->searched = source->line = 0;
        } else if (!read_more(source)) {
            if (source->start < source->end || source->skipping)
                hand_out(source, chunk, source->end, source->end - source->start);
            break;
        }
    }
    if (chunk->count > 0)
        chunk->ticket = source->next_ticket++;
    pthread_mutex_unlock(&source->lock);
    return chunk->count > 0;
}

void line_source_close(struct line_source *source)
{
    if (!source)
        return;
    if (source->fd != STDIN_FILENO)
        close(source->fd);
    pthread_mutex_destroy(&source->lock);
    zstd_reader_free(&source->reader);
    free(source->buffer);
    free(source);
}

void line_chunk_free(struct line_chunk *chunk)
{
    free(chunk->bytes);
    *chunk = (struct line_chunk){0};
}
