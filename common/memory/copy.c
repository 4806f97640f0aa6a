#include "common/memory/copy.h"

void copy_in_pieces(void *to, const void *from, size_t size)
{
    char *at = to;
    const char *next = from;
    size_t piece = COPY_PIECE_BYTES;
    /* A size that the compiler knows it may turn into the instruction itself. */
    __asm__("" : "+r"(piece));
    for (; size > piece; size -= piece, at += piece, next += piece)
        memcpy(at, next, piece);
    memcpy(at, next, size);
}
