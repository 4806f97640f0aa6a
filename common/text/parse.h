/*
 * parse: numbers as people type them on command lines. All reject empty text, trailing garbage,
 * signs where none belongs, and overflow; *value is left alone on failure.
 */
#ifndef MQKV_COMMON_TEXT_PARSE_H
#define MQKV_COMMON_TEXT_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal, min <= value <= max. */
bool parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *value);
bool parse_i64(const char *text, int64_t min, int64_t max, int64_t *value);

/* Like parse_i64 over bytes that need not end in NUL (a stored value), but only the form of a
 * counter: optional '-', then 1..19 digits, nothing else. */
bool parse_i64_bytes(const void *data, uint64_t size, int64_t *value);

/* Bytes: "4096", "64k", "1M", "1.5G" (powers of 1024; B, k, K, KiB, M, MiB, G, GiB, T, TiB). */
bool parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *bytes);

/* Time: "250" and "250ms" are milliseconds, "2s", "5m", "1.5h", "7d", "2w". With a fraction
 * it must be a whole number of milliseconds all the same. DURATION_EXAMPLES: an example of each
 * unit, for messages and help. */
#define DURATION_EXAMPLES "250ms, 2s, 5m, 1h, 7d or 2w"
bool parse_duration_ms(const char *text, uint64_t min, uint64_t max, uint64_t *ms);

/* Returns true if the text is a number above 0 without a unit, which may be taken for seconds. */
bool parse_lacks_unit(const char *text);

/* A decimal fraction, min <= value <= max, C locale, finite. */
bool parse_double(const char *text, double min, double max, double *value);

/* The name of choice `index`; NULL beyond the last. */
typedef const char *parse_name_of(int index);

/* Which of the names it is, letter case aside. */
bool parse_choice(const char *text, parse_name_of *name_of, int *choice);

#define INTEGER_BYTES 24 /* of the longest integer in decimal digits, with a NUL */

/* Writes the number in decimal digits (and a NUL); returns the number of bytes without the NUL. For
 * hot paths: snprintf was a tenth of an add. */
size_t format_i64(int64_t value, char out[INTEGER_BYTES]);
size_t format_u64(uint64_t value, char out[INTEGER_BYTES]);

/* Formats bytes as "1.5 MiB" / durations as "12.3 us" for people; buffer of at least 32 bytes,
 * which is returned. */
char *format_size(uint64_t bytes, char buffer[32]);
char *format_duration_ns(uint64_t ns, char buffer[32]);

/* As parse_size and parse_duration_ms take it: "64k", "1500B"; "90s", "2h", "1500ms"; as above. */
char *format_size_exactly(uint64_t bytes, char buffer[32]);
char *format_duration_ms_exactly(uint64_t ms, char buffer[32]);

/* "1 worker", "2 workers", for a noun of up to 9 letters that takes an s; as above. */
char *format_count(uint64_t count, const char *noun, char buffer[32]);

#endif
