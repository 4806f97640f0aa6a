/*
 * delay: a time that is drawn anew each time, as the value of `serverk --service-time` and of
 * `clientk bench --think` describes it.
 *
 *   off               no time; the same as a time of 0
 *   fixed:TIME        always TIME
 *   uniform:MIN-MAX   every time between MIN and MAX is as likely as any other
 *   exp:MEAN          exponential
 *   pareto:MEAN[,A]   Pareto (type I) with shape A > 1 (default 2.5): a few times are very long
 *
 * A TIME is a number and its unit: ns, us, ms or s ("50us", "1.5ms"); "0" needs none.
 */
#ifndef MQKV_COMMON_NUMBERS_DELAY_H
#define MQKV_COMMON_NUMBERS_DELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/numbers/random.h"

enum delay_kind { DELAY_OFF, DELAY_FIXED, DELAY_UNIFORM, DELAY_EXPONENTIAL, DELAY_PARETO };

struct delay {
    enum delay_kind kind;
    double time_ns; /* of FIXED; the mean of EXPONENTIAL and PARETO; the least of UNIFORM */
    double most_ns; /* of UNIFORM */
    double shape;   /* of PARETO */
    double cap_ns;  /* no draw is longer */
};

/* Which values are right, as the end of a sentence. */
#define DELAY_EXPECTS \
    "off, fixed:TIME, uniform:MIN-MAX, exp:MEAN or pareto:MEAN[,SHAPE] (50us, 1ms)"

/* Reads the first `bytes` bytes of `text`. False: they are none of the above, or a time is above
 * cap_ns; *delay stays as it is. */
bool delay_parse(const char *text, size_t bytes, double cap_ns, struct delay *delay);

/* Draws a time, 0 .. cap_ns. */
uint64_t delay_draw_ns(const struct delay *delay, struct random_state *random);

#endif
