/*
 * redis_expiry: times as the commands take them.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_EXPIRY_H
#define MQKV_KRESP_SESSION_REDIS_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>

#include "bridges/kresp/session/redis_job.h"

struct redis_time_unit {
    bool seconds;  /* else milliseconds */
    bool absolute; /* since 1970; else from now on */
};

/* Reads argument i as the time when an entry expires, in milliseconds since 1970; false: the job
 * has failed. `positive`: times of 0 and less are refused (SET and similar commands); else the
 * result may be in the past, or negative (EXPIRE). */
bool redis_expiry_parse(struct redis_job *job, size_t i, struct redis_time_unit unit, bool positive,
                        int64_t *expiry_ms);

/* Reads the unit of an option EX, PX, EXAT or PXAT; false: argument i is none of them. */
bool redis_expiry_option(const struct redis_job *job, size_t i, struct redis_time_unit *unit);

/* Returns the expiry for a put of an entry that must be gone at `expiry_ms`: there 0 would mean
 * never. */
static inline uint64_t redis_expiry_put(int64_t expiry_ms)
{
    return expiry_ms > 0 ? (uint64_t)expiry_ms : 1;
}

#endif
