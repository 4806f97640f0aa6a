/*
 * glob: patterns of keys as Redis has them: * ? [a-z] [^a-z] and \ before a character that stands
 * for itself.
 */
#ifndef MQKV_KRESP_PROTOCOL_GLOB_H
#define MQKV_KRESP_PROTOCOL_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* Steps that suffice for every pattern that is meant to be used, on texts of so many bytes in all:
 * one of many long sets, or of long stretches between its stars, may run out of them. */
static inline uint64_t glob_steps(size_t text_bytes)
{
    return 256 * 1024 + (uint64_t)16 * text_bytes;
}

/* True if the whole text matches. Each byte of the pattern that is looked at, and each of the text,
 * takes a step off *steps. Where none is left the text is not looked at any further: false, and
 * *steps is 0, which it is in no other case. */
bool glob_matches(struct kv_slice pattern, struct kv_slice text, bool ignore_case, uint64_t *steps);

/* The bytes at the start of the pattern that every match begins with: none of them is special. */
struct kv_slice glob_literal_prefix(struct kv_slice pattern);

#endif
