/*
 * zstd_reader: reads a descriptor whose data may be compressed by zstd, as their first bytes tell.
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
    struct ZSTD_DCtx_s *context; /* NULL: the data are plain, or not known yet */
    char *input;                 /* bytes start..end were read and are not yet given out */
    size_t start, end;
    bool is_known;   /* it is known whether the data are compressed */
    bool in_frame;   /* a frame is not complete: the data must not end here */
    bool has_output; /* the decompressor may give more without input */
};

/* Reads like read(2). -1 and errno: EBADMSG: the compressed data are damaged, ENODATA: they end too
 * early; EINTR, EAGAIN: nothing is lost, call again. */
ssize_t zstd_reader_read(struct zstd_reader *reader, int fd, void *data, size_t size);

static inline bool zstd_reader_is_compressed(const struct zstd_reader *reader)
{
    return reader->context != NULL;
}

/* Returns true if a read may give something without waiting for the descriptor. */
static inline bool zstd_reader_has_more(const struct zstd_reader *reader)
{
    return reader->is_known && (reader->start < reader->end || reader->has_output);
}

void zstd_reader_free(struct zstd_reader *reader);

#endif
