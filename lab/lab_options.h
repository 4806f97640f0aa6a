/*
 * lab_options: the switches of studies: --dispatch, --locking, --rwlock, --allocator,
 * --sched-queue, --service-time. Their values lie in struct server_options, in the room that it has
 * for the lab.
 */
#ifndef MQKV_LAB_LAB_OPTIONS_H
#define MQKV_LAB_LAB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/options/option_table.h"
#include "lab/service/service_time.h"
#include "serverk/config/options.h"

struct lab_options {
    int dispatch;                     /* the index of a model */
    int locking;                      /* enum kvstore_locking */
    int rwlock;                       /* enum kvstore_rwlock; -1: not given */
    int allocator;                    /* enum kvstore_allocator */
    uint32_t sched_queue;             /* messages that may wait in the daemon, with --sched cost */
    struct service_time service_time; /* added to each operation */
};

_Static_assert(sizeof(struct lab_options) <= OPTIONS_LAB_BYTES, "they have room in server_options");

#define LAB_DEFAULT_SCHED_QUEUE 4096u
#define LAB_MAX_SCHED_QUEUE     65536u

static inline const struct lab_options *lab_options_of(const struct server_options *options)
{
    return (const void *)options->lab;
}

/* The rows, their defaults, and which of them go together: as struct lab has them. */
extern const struct option_row lab_option_rows[];
void lab_options_begin(struct parsed_line *line);
bool lab_options_check(const struct parsed_line *line, struct server_options *options,
                       struct kv_error *error);

#endif
