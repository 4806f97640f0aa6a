/*
 * glob: patterns of keys as Redis has them: * ? [a-z] [^a-z] and \ before a character that stands
 * for itself.
 */
#ifndef MQKV_KRESP_PROTOCOL_GLOB_H
#define MQKV_KRESP_PROTOCOL_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "mqkv/slice.h"

/* True if the whole text matches. Time at most proportional to the product of both sizes, whatever
 * the pattern. */
bool glob_matches(struct kv_slice pattern, struct kv_slice text, bool ignore_case);

/* The bytes at the start of the pattern that every match begins with: none of them is special. */
struct kv_slice glob_literal_prefix(struct kv_slice pattern);

#endif
