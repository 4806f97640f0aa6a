#include "experiments/peers/echo.h"

#include <inttypes.h>
#include <stdio.h>

void echo_lane_name(char name[ECHO_NAME_BYTES], const char *base, unsigned lane)
{
    snprintf(name, ECHO_NAME_BYTES, "%.40s.e%u", base, lane);
}

void echo_reply_name(char name[ECHO_NAME_BYTES], const char *base, uint32_t slot)
{
    snprintf(name, ECHO_NAME_BYTES, "%.40s.r%" PRIu32, base, slot);
}

void echo_segment_name(char name[ECHO_NAME_BYTES], const char *base, uint32_t slot)
{
    snprintf(name, ECHO_NAME_BYTES, "%.40s.s%" PRIu32, base, slot);
}
