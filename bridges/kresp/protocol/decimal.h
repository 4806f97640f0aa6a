/*
 * decimal: numbers as Redis reads them, and as it writes those that are not whole.
 */
#ifndef MQKV_KRESP_PROTOCOL_DECIMAL_H
#define MQKV_KRESP_PROTOCOL_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* Reads the canonical form of a signed 64-bit number, and no other: no "+1", "007", "-0",
 * blanks. */
bool decimal_parse(struct kv_slice text, int64_t *value);

/* Reads an unsigned 64-bit number in decimal digits, such as a cursor of SCAN; leading zeros are
 * allowed. */
bool decimal_parse_cursor(struct kv_slice text, uint64_t *value);

/* Reads the whole text as a floating-point number, as strtold does; infinities are allowed, NaN is
 * not. */
bool decimal_parse_real(struct kv_slice text, long double *value);

#define DECIMAL_REAL_BYTES 5120 /* the longest real number without exponent, in bytes */

/* Writes the number (and a NUL) without exponent, with at most 17 digits behind the point and no
 * zeros at the end. Returns the number of bytes without the NUL, or 0: it needs more than
 * DECIMAL_REAL_BYTES. */
size_t decimal_write_real(char out[DECIMAL_REAL_BYTES], long double value);

#endif
