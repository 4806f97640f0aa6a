/*
 * zstd_writer: a stream whose bytes are compressed by zstd into another one.
 */
#ifndef MQKV_TOOLS_TRANSFER_ZSTD_WRITER_H
#define MQKV_TOOLS_TRANSFER_ZSTD_WRITER_H

#include <stdio.h>

/* Opens the stream. Closing it ends the compressed data and leaves `inner` open; fclose returns EOF
 * if that failed, with the errno of `inner`. NULL: out of memory. */
FILE *zstd_writer_open(FILE *inner);

#endif
