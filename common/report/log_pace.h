/*
 * log_pace: lines of the log that anybody can cause as often as he likes: one in so many
 * milliseconds, with the number of those that were left out since the one before.
 *
 * Threads: any.
 */
#ifndef MQKV_COMMON_REPORT_LOG_PACE_H
#define MQKV_COMMON_REPORT_LOG_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct log_pace {
    uint64_t every_ms;
    _Atomic uint64_t next_ms; /* of the monotonic clock: no line before */
    _Atomic uint64_t unsaid;
};

#define LOG_PACE(milliseconds)     \
    {                              \
        .every_ms = (milliseconds) \
    }

#define LOG_PACE_TEXT_BYTES 64u

/* True if a line may be written now; `unsaid` then is what is to end it: "" or " (7 more were not
 * logged)". */
bool log_pace_allows(struct log_pace *pace, char unsaid[LOG_PACE_TEXT_BYTES]);

#endif
