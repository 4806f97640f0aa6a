#include "tests/explore/machine_clock.h"

#include <stdio.h>
#include <string.h>

#include "tests/explore/machine.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/machine_file.h"
#include "tests/explore/seeded_schedule.h"

static uint64_t machine_seed;
static uint32_t boots;
static int64_t offset_ms;
static uint64_t latest_ms;

void machine_clock_begin(uint64_t seed)
{
    machine_seed = seed;
    boots = 0;
    offset_ms = 0;
    latest_ms = 0;
}

void machine_clock_boot(void)
{
    boots++;
}

ssize_t machine_read_boot(void *to, size_t bytes, off_t offset)
{
    char text[64];
    size_t length = (size_t)snprintf(text, sizeof text, "%08x-0000-4000-8000-%012llx\n", boots + 1,
                                     (unsigned long long)(machine_seed & 0xffffffffffff));
    if ((size_t)offset >= length)
        return 0;
    bytes = at_most(bytes, length - (size_t)offset);
    memcpy(to, text + offset, bytes);
    return (ssize_t)bytes;
}

static uint64_t day_ns(uint64_t clock_ns)
{
    /* Some day in 2026. */
    return clock_ns + UINT64_C(1790000000000000000) + (uint64_t)(offset_ms * 1000000);
}

uint64_t machine_clock_now_ns(void)
{
    return day_ns(schedule_clock_ns());
}

uint64_t machine_clock_ns(uint64_t clock_ns)
{
    uint64_t now_ns = day_ns(clock_ns);
    latest_ms = at_least(latest_ms, now_ns / 1000000);
    return now_ns;
}

void machine_move_clock(int64_t by_ms)
{
    offset_ms += by_ms;
}

uint64_t machine_latest_ms(void)
{
    return latest_ms;
}
