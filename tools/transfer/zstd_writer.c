#include "tools/transfer/zstd_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

struct zstd_writer {
    FILE *inner;
    ZSTD_CCtx *context;
    size_t room_bytes;
    char room[];
};

/* Compresses the bytes into the other stream. Returns 0, or -1 and errno. */
static int compress_bytes(struct zstd_writer *writer, const char *data, size_t size,
                          ZSTD_EndDirective directive)
{
    ZSTD_inBuffer in = {data, size, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {writer->room, writer->room_bytes, 0};
        left = ZSTD_compressStream2(writer->context, &out, &in, directive);
        if (ZSTD_isError(left)) {
            errno = ENOMEM;
            return -1;
        }
        if (fwrite(writer->room, 1, out.pos, writer->inner) < out.pos)
            return -1;
    } while (in.pos < in.size || (directive == ZSTD_e_end && left > 0));
    return 0;
}

static ssize_t compress_cookie_write(void *cookie, const char *data, size_t size)
{
    return compress_bytes(cookie, data, size, ZSTD_e_continue) == 0 ? (ssize_t)size : 0;
}

static int close_writer(void *cookie)
{
    struct zstd_writer *writer = cookie;
    int result = compress_bytes(writer, NULL, 0, ZSTD_e_end);
    ZSTD_freeCCtx(writer->context);
    free(writer);
    return result;
}

FILE *zstd_writer_open(FILE *inner)
{
    size_t room_bytes = ZSTD_CStreamOutSize();
    struct zstd_writer *writer = malloc(sizeof *writer + room_bytes);
    if (!writer)
        return NULL;
    *writer = (struct zstd_writer){
        .inner = inner, .context = ZSTD_createCCtx(), .room_bytes = room_bytes};
    FILE *stream = NULL;
    if (writer->context)
        stream = fopencookie(
            writer, "w",
            (cookie_io_functions_t){.write = compress_cookie_write, .close = close_writer});
    if (!stream) {
        ZSTD_freeCCtx(writer->context);
        free(writer);
        return NULL;
    }
    setvbuf(stream, NULL, _IOFBF, ZSTD_CStreamInSize());
    return stream;
}
