/*
 * zstd_writer: a stream whose bytes are compressed by zstd into another one.
 */
#ifndef MQKV_CLIENTK_PROGRAM_TRANSFER_ZSTD_WRITER_H
#define MQKV_CLIENTK_PROGRAM_TRANSFER_ZSTD_WRITER_H

#include <stdio.h>

/* Closing it ends the compressed data, and leaves the other stream open: EOF if that failed, with
 * the errno of the other stream. NULL: out of memory. */
FILE *zstd_writer_open(FILE *inner);

#endif
