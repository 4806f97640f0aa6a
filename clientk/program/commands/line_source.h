/*
 * line_source: the lines of a file or of standard input, handed out in chunks to any number of
 * threads. A file compressed by zstd is decompressed. A chunk holds the lines that are available: a
 * single line from a pipe is not held back.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_LINE_SOURCE_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_LINE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/error.h"

#define LINE_SOURCE_CHUNK 64 /* most lines of a chunk */

struct line_source; /* opaque */

struct source_line {
    size_t offset, size; /* where the line is in the chunk's bytes, without its newline */
    bool too_long;       /* the line was longer than any sensible one: the rest was skipped */
};

/* A chunk can be used again; start from {0}. */
struct line_chunk {
    uint64_t ticket;       /* chunks of a source are numbered from 0 */
    uint64_t first_number; /* the number of its first line, from 1 */
    size_t count;
    struct source_line lines[LINE_SOURCE_CHUNK];
    char *bytes;
    size_t size, capacity;
};

/* Opens the file; path "-": standard input. KV_NOT_FOUND, KV_DENIED, KV_IO, KV_NO_MEMORY with a
 * sentence. */
enum kv_status line_source_open(const char *path, struct line_source **source,
                                struct kv_error *error);

/* From now on all lines of a transaction's block (transact_block.h) are one line, with newlines in
 * it, which ends its chunk. */
void line_source_join_blocks(struct line_source *source);

/* Returns "stdin", or the path. */
const char *line_source_name(const struct line_source *source);

/* The size of the file (0: unknown, because it is a pipe or compressed), and how much of it was
 * handed out. */
uint64_t line_source_total_bytes(struct line_source *source);
uint64_t line_source_done_bytes(struct line_source *source);

/* Takes the next lines, at most `most`. False at the end, after a signal (interrupt.h), or when
 * reading failed: line_source_error then is not NULL. */
bool line_source_take(struct line_source *source, size_t most, struct line_chunk *chunk);
const char *line_source_error(struct line_source *source);

void line_source_close(struct line_source *source); /* NULL is harmless */
void line_chunk_free(struct line_chunk *chunk);

#endif
