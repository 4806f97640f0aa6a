/*
 * json_scan: passes over JSON text (RFC 8259) without building anything: the members of an object
 * or the elements of an array, one after the other, each value as the text that it is. Whatever the
 * text is, nothing outside of it is read, in time that grows with its size. What a value is made of
 * is for the caller to see, who looks into it: of a value only the end is found.
 */
#ifndef MQKV_COMMON_TEXT_JSON_SCAN_H
#define MQKV_COMMON_TEXT_JSON_SCAN_H

#include <stdbool.h>

#include "mqkv/slice.h"

/* Values that lie deeper within each other are not passed over. */
#define JSON_SCAN_DEEPEST 32u

/* What is left of a text. */
struct json_scan {
    const char *at, *end;
};

static inline struct json_scan json_scan(struct kv_slice text)
{
    const char *bytes = text.data;
    return (struct json_scan){bytes, bytes + text.size};
}

/* Passes over blanks, and over the character that follows if it is `wanted`; else returns false. */
bool json_scan_take(struct json_scan *scan, char wanted);

/* Returns true if nothing but blanks is left. */
bool json_scan_is_over(struct json_scan *scan);

/* Passes over one value: *value is its text, without the blanks around it, of size 0 where none
 * stands. False: the value does not end, or lies too deep. */
bool json_scan_value(struct json_scan *scan, struct kv_slice *value);

/* Passes over a name and its colon: *name is what stands between the quotes, escapes as they
 * are. */
bool json_scan_name(struct json_scan *scan, struct kv_slice *name);

#endif
