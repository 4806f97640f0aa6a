/*
 * redis_comparison: the conditions of SET and DELEX about the value that is there: IFEQ value,
 * IFNE value, and IFDEQ digest, IFDNE digest, which compare its XXH3 of 64 bits.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_COMPARISON_H
#define MQKV_KRESP_SESSION_REDIS_COMPARISON_H

#include <stdbool.h>

#include "bridges/kresp/session/redis_job.h"

#define REDIS_DIGEST_BYTES 17u /* 16 hexadecimal digits, with the end */

/* Writes the digest of the value. */
void redis_digest(struct kv_slice value, char digest[REDIS_DIGEST_BYTES]);

/* Returns true if argument `at` is such a word and another argument follows. If that has to be a
 * digest and is none, the job has failed. */
bool redis_comparison_is_at(struct redis_job *job, size_t at);

/* Returns true if the condition at argument `at` holds. value.data NULL: the key is absent, and so
 * equal to nothing. */
bool redis_comparison_holds(const struct redis_job *job, size_t at, struct kv_slice value);

#endif
