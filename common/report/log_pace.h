/*
 * log_pace: for lines of the log that anybody can cause as often as he likes: at most one is
 * written in each interval, with the number of lines that were left out since the one before.
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

/* Returns true if a line may be written now. If so, `unsaid` is set to the text that ends the line:
 * "" or " (7 more were not logged)". */
bool log_pace_allows(struct log_pace *pace, char unsaid[LOG_PACE_TEXT_BYTES]);

#endif
