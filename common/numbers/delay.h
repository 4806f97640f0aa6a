/*
 * delay: how long something is to take, drawn anew each time: what `serverk --service-time` and
 * `clientk bench --think` are given.
 *
 *   off               nothing; as does a time of 0
 *   fixed:TIME        always TIME
 *   uniform:MIN-MAX   each time between the two as likely as any other
 *   exp:MEAN          exponential
 *   pareto:MEAN[,A]   Pareto (type I) with shape A > 1 (default 2.5): few are very long
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

/* What a right value is, as the end of a sentence. */
#define DELAY_EXPECTS \
    "off, fixed:TIME, uniform:MIN-MAX, exp:MEAN or pareto:MEAN[,SHAPE] (50us, 1ms)"

/* Takes the first `bytes` bytes of text. False: they are none of the above, or a time is above
 * cap_ns; *delay is left alone. */
bool delay_parse(const char *text, size_t bytes, double cap_ns, struct delay *delay);

/* 0 .. cap_ns. */
uint64_t delay_draw_ns(const struct delay *delay, struct random_state *random);

#endif
