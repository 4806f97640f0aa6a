/*
 * zstd_reader: reads a descriptor that may be compressed by zstd, which its first bytes tell.
 *
 * Threads: one at a time.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_ZSTD_READER_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_ZSTD_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ZSTD_DCtx_s;

/* Start from {0}. */
struct zstd_reader {
    struct ZSTD_DCtx_s *context; /* NULL: what comes is plain, or not known yet */
    char *input;                 /* read, and not yet given: start .. end */
    size_t start, end;
    bool is_known;   /* whether it is compressed */
    bool in_frame;   /* the data must not end here */
    bool has_output; /* more may come without reading */
};

/* As read(2). -1 and errno: EBADMSG: the compressed data are damaged, ENODATA: or end too early;
 * EINTR, EAGAIN: nothing is lost, call again. */
ssize_t zstd_reader_read(struct zstd_reader *reader, int fd, void *data, size_t size);

static inline bool zstd_reader_is_compressed(const struct zstd_reader *reader)
{
    return reader->context != NULL;
}

/* Whether a read may give something without waiting for the descriptor. */
static inline bool zstd_reader_has_more(const struct zstd_reader *reader)
{
    return reader->is_known && (reader->start < reader->end || reader->has_output);
}

void zstd_reader_free(struct zstd_reader *reader);

#endif
