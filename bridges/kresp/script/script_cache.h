/*
 * script_cache: the texts of scripts that clients have sent, by their SHA-1, for all threads. It
 * has an end: then the oldest goes.
 *
 * Threads: any.
 */
#ifndef MQKV_KRESP_SCRIPT_SCRIPT_CACHE_H
#define MQKV_KRESP_SCRIPT_SCRIPT_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/sha1.h"
#include "mqkv/slice.h"

#define SCRIPTS_MAX       4096u
#define SCRIPTS_MAX_BYTES ((size_t)32 << 20)

struct script_text;

/* Keeps a copy of the text under this SHA-1, if it is not there. Without memory it is not kept. */
void script_cache_add(const char hex[SHA1_HEX_BYTES], struct kv_slice text);

/* Returns the text, which the caller releases; NULL: it is not there. hex: in lower case. */
struct script_text *script_cache_find(const char hex[SHA1_HEX_BYTES]);
struct kv_slice script_text_slice(const struct script_text *text);
void script_text_release(struct script_text *text); /* NULL is harmless */

/* Forgets all. */
void script_cache_flush(void);

/* Returns how often all was forgotten. */
uint64_t script_cache_flushes(void);

#endif
