/*
 * service_time: what --service-time says: DIST[:sleep|work][:unlocked|locked].
 */
#ifndef MQKV_LAB_SERVICE_SERVICE_TIME_H
#define MQKV_LAB_SERVICE_SERVICE_TIME_H

#include <stdbool.h>

#include "common/numbers/delay.h"

/* No operation takes longer for it: a process of --dispatch process is ended soon after. */
#define SERVICE_TIME_MAX_NS 1e9

struct service_time {
    struct delay delay; /* DELAY_OFF: there is none */
    bool work;          /* CPU time is burned; else the worker sleeps */
    bool locked;        /* while the lock of the data file is held; else after it was released */
};

#define SERVICE_TIME_EXPECTS                                                                      \
    "DIST[:sleep|work][:unlocked|locked]; DIST is off, fixed:TIME, uniform:MIN-MAX, exp:MEAN or " \
    "pareto:MEAN[,SHAPE], with times up to 1s (50us, 1ms)"

/* Reads the value of --service-time. False: the text is none; *service_time is left alone. */
bool service_time_parse(const char *text, struct service_time *service_time);

#endif
