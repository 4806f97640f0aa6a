/*
 * copy: copying runs of bytes that may be long, like values.
 *
 * AMD processors of the Zen 3 and Zen 4 families take some twenty times as long for "rep movsb" if
 * the destination lies 1 to 31 bytes after the source, both counted from the start of their pages
 * of 4 KiB (measured: 64 KiB in 33 us instead of 1.6; 4 KiB in 2.5 instead of 0.09). memcpy uses
 * that instruction from about 2 KiB on in glibc before 2.39 (its bug 30994), and so does the kernel
 * for what it copies from and to a program: there the addresses have to be chosen well
 * (wire_queue_buffer).
 */
#ifndef MQKV_COMMON_MEMORY_COPY_H
#define MQKV_COMMON_MEMORY_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The page size that the processor's rule is about, whatever larger pages the machine may have. */
#define COPY_PAGE_BYTES 4096u

/* A memcpy of this size does not use the instruction. */
#define COPY_PIECE_BYTES 2048u

/* Copies `size` bytes in pieces of COPY_PIECE_BYTES; `from` and `to` do not overlap. */
void copy_in_pieces(void *to, const void *from, size_t size);

/* Copies `size` bytes as memcpy does; `from` and `to` do not overlap, and may be NULL if size is 0.
 * */
static inline void copy_bytes(void *to, const void *from, size_t size)
{
    size_t apart = ((uintptr_t)to - (uintptr_t)from) % COPY_PAGE_BYTES;
    if (size > COPY_PIECE_BYTES && apart - 1 < 31)
        copy_in_pieces(to, from, size);
    else if (size > 0)
        memcpy(to, from, size);
}

#endif
