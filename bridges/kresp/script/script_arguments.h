/*
 * script_arguments: what a script or a function is given.
 */
#ifndef MQKV_KRESP_SCRIPT_SCRIPT_ARGUMENTS_H
#define MQKV_KRESP_SCRIPT_SCRIPT_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "mqkv/slice.h"

/* Borrowed. */
struct script_arguments {
    const struct kv_slice *keys, *rest;
    size_t key_count, rest_count;
    bool read_only;
};

#endif
