/*
 * decimal: numbers as Redis reads them, and writes those that are not whole.
 */
#ifndef MQKV_KRESP_PROTOCOL_DECIMAL_H
#define MQKV_KRESP_PROTOCOL_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* The canonical form of a signed 64-bit number, and no other: no "+1", "007", "-0", blanks. */
bool decimal_parse(struct kv_slice text, int64_t *value);

/* An unsigned 64-bit number in decimal digits, as a cursor of SCAN; leading zeros are allowed. */
bool decimal_parse_cursor(struct kv_slice text, uint64_t *value);

/* A floating-point number as strtold reads it, the whole text; infinities too, but no NaN. */
bool decimal_parse_real(struct kv_slice text, long double *value);

#define DECIMAL_REAL_BYTES 5120 /* of the longest real number without exponent */

/* Writes it (and a NUL) without exponent, with 17 digits behind the point at most and no zeros at
 * the end; returns the number of bytes without the NUL, or 0: it needs more than
 * DECIMAL_REAL_BYTES. */
size_t decimal_write_real(char out[DECIMAL_REAL_BYTES], long double value);

#endif
