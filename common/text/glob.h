/*
 * glob: patterns of keys as Redis has them: * ? [a-z] [^a-z] and \ before a character that stands
 * for itself.
 */
#ifndef MQKV_COMMON_TEXT_GLOB_H
#define MQKV_COMMON_TEXT_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* Returns a number of steps that suffices for every sensible pattern on texts of text_bytes in all.
 * A pattern of many long sets, or with long stretches between its stars, may need more. */
static inline uint64_t glob_steps(size_t text_bytes)
{
    return 256 * 1024 + (uint64_t)16 * text_bytes;
}

/* Returns true if the whole text matches. Each byte of the pattern that is looked at, and each of
 * the text, takes one off *steps. If none is left the search ends: it returns false, and *steps is
 * 0, which it is in no other case. */
bool glob_matches(struct kv_slice pattern, struct kv_slice text, bool ignore_case, uint64_t *steps);

/* Returns the bytes at the start of the pattern with which every match begins: none of them is
 * special. */
struct kv_slice glob_literal_prefix(struct kv_slice pattern);

#endif
