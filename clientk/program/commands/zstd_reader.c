#include "clientk/program/commands/zstd_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define INPUT_BYTES (128u << 10)

static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

/* Reads more input. Returns what read(2) returns. */
static ssize_t fill_input(struct zstd_reader *reader, int fd)
{
    if (!reader->input)
        reader->input = malloc(INPUT_BYTES);
    if (!reader->input) {
        errno = ENOMEM;
        return -1;
    }
    ssize_t got = read(fd, reader->input + reader->end, INPUT_BYTES - reader->end);
    if (got > 0)
        reader->end += (size_t)got;
    return got;
}

/* Reads until the first bytes tell whether the data are compressed. Returns 1 if that is known;
 * else what read(2) returned. */
static ssize_t read_magic(struct zstd_reader *reader, int fd)
{
    while (reader->end < sizeof magic &&
           memcmp(reader->input ? reader->input : "", magic, reader->end) == 0) {
        ssize_t got = fill_input(reader, fd);
        if (got < 0)
            return got;
        if (got == 0)
            break;
    }
    reader->is_known = true;
    if (reader->end < sizeof magic || memcmp(reader->input, magic, sizeof magic) != 0)
        return 1;
    reader->context = ZSTD_createDCtx();
    if (reader->context)
        return 1;
    errno = ENOMEM;
    return -1;
}

static ssize_t give_plain(struct zstd_reader *reader, int fd, void *data, size_t size)
{
    size_t there = reader->end - reader->start;
    if (there == 0)
        return read(fd, data, size);
    if (there < size)
        size = there;
    memcpy(data, reader->input + reader->start, size);
    reader->start += size;
    return (ssize_t)size;
}

/* Returns the number of bytes written to data; 0: more input is needed. */
static ssize_t decompress(struct zstd_reader *reader, void *data, size_t size)
{
    ZSTD_inBuffer in = {reader->input, reader->end, reader->start};
    ZSTD_outBuffer out = {data, size, 0};
    size_t result = ZSTD_decompressStream(reader->context, &out, &in);
    reader->start = in.pos;
    reader->in_frame = result != 0;
    reader->has_output = result != 0 && out.pos == size;
    if (!ZSTD_isError(result))
        return (ssize_t)out.pos;
    errno = EBADMSG;
    return -1;
}

static ssize_t give_decompressed(struct zstd_reader *reader, int fd, void *data, size_t size)
{
    for (;;) {
        ssize_t given = 0;
        if (reader->start < reader->end || reader->has_output)
            given = decompress(reader, data, size);
        if (given != 0)
            return given;
        if (reader->start < reader->end)
            continue;
        reader->start = reader->end = 0;
        ssize_t got = fill_input(reader, fd);
        if (got == 0 && reader->in_frame) {
            errno = ENODATA;
            return -1;
        }
        if (got <= 0)
            return got;
    }
}

ssize_t zstd_reader_read(struct zstd_reader *reader, int fd, void *data, size_t size)
{
    if (!reader->is_known) {
        ssize_t result = read_magic(reader, fd);
        if (result <= 0)
            return result;
    }
    return reader->context ? give_decompressed(reader, fd, data, size)
                           : give_plain(reader, fd, data, size);
}

void zstd_reader_free(struct zstd_reader *reader)
{
    ZSTD_freeDCtx(reader->context);
    free(reader->input);
    *reader = (struct zstd_reader){0};
}
