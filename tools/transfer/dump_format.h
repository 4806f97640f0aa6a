/*
 * dump_format: the text that dump writes and load reads: a batch file of PUT lines between two
 * comments.
 *
 *     # mqkv dump 1, queue /serverk, 2026-11-20T11:12:13Z
 *     PUT "key" "value" --expires-at 1795168333000
 *     ...
 *     # mqkv dump end: 2 entries, checksum 9ae16a3b2f90404f
 *
 * The checksum covers the lines between the two comments: XXH3_64 of each line without its newline,
 * seeded with the checksum of the lines before it (0 for the first). It detects damaged and cut-off
 * files, not forgery.
 */
#ifndef MQKV_TOOLS_TRANSFER_DUMP_FORMAT_H
#define MQKV_TOOLS_TRANSFER_DUMP_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/text/escape.h"
#include "mqkv/slice.h"

/* Returns the checksum after one more line (without its newline); `checksum`: that of the lines
 * before (0 at first). */
uint64_t dump_checksum(uint64_t checksum, const void *line, size_t size);

void dump_print_header(FILE *stream, const char *queue);

/* Writes the line of an entry, with its newline, and returns its size; text has
 * DUMP_ENTRY_MAX_BYTES. */
#define DUMP_ENTRY_MAX_BYTES(key_bytes, value_bytes) \
    (ESCAPE_MAX_BYTES(key_bytes) + ESCAPE_MAX_BYTES(value_bytes) + 64)
size_t dump_put_entry(char *text, struct kv_slice key, struct kv_slice value, uint64_t expiry_ms);

void dump_print_trailer(FILE *stream, uint64_t entries, uint64_t checksum);

/* What a reader has seen so far; start from {0}. */
struct dump_check {
    bool has_header, has_trailer, other_version;
    uint64_t entries, checksum; /* count and checksum of the lines since the header */
    uint64_t trailer_entries, trailer_checksum; /* as the trailer says */
};

/* Takes a line (without its newline). True: it is a header or trailer; else the line was
 * counted. */
bool dump_check_line(struct dump_check *check, const char *line, size_t size);

/* Returns NULL if all lines were a sound dump, or not a dump but another batch file; else `reason`,
 * which then says what is wrong. */
const char *dump_check_verdict(const struct dump_check *check, char reason[160]);

#endif
