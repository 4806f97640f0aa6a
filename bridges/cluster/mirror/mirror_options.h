/*
 * mirror_options: how a mirror is started.
 */
#ifndef MQKV_MIRROR_MIRROR_OPTIONS_H
#define MQKV_MIRROR_MIRROR_OPTIONS_H

#include <stdint.h>

#include "bridges/cluster/natskv/natskv_options.h"

/* What becomes of writes while the copy is further behind than the bound. */
enum mirror_over {
    MIRROR_OVER_NOTHING, /* there is no bound */
    MIRROR_OVER_SLOW,
    MIRROR_OVER_FAIL
};

/* Strings are borrowed until the mirror is stopped. */
struct mirror_options {
    const char *dir; /* directory of the store: the file `mirror` is there */
    struct natskv_options nats;
    uint64_t bound_ms;
    enum mirror_over over;
};

#endif
