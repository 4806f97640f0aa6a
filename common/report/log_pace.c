#include "common/report/log_pace.h"

#include <stdio.h>

#include "common/time/clock.h"

bool log_pace_allows(struct log_pace *pace, char unsaid[LOG_PACE_TEXT_BYTES])
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t next_ms = atomic_load(&pace->next_ms);
    if (now_ms < next_ms ||
        !atomic_compare_exchange_strong(&pace->next_ms, &next_ms, now_ms + pace->every_ms)) {
        atomic_fetch_add(&pace->unsaid, 1);
        return false;
    }
    uint64_t count = atomic_exchange(&pace->unsaid, 0);
    unsaid[0] = '\0';
    if (count > 0)
        snprintf(unsaid, LOG_PACE_TEXT_BYTES, " (%llu more like this %s not logged)",
                 (unsigned long long)count, count == 1 ? "was" : "were");
    return true;
}
