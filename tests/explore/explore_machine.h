/*
 * explore_machine: what the lives of stores on the machine share (explore_machine.c): how this
 * schedule's stores are opened, what fails, and what the disk's state excuses.
 */
#ifndef MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_H
#define MQKV_TESTS_EXPLORE_EXPLORE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/kvstore.h"
#include "tests/explore/machine.h"
#include "tests/explore/store_model.h"

#define STORE_PATH MACHINE_PATH "/a"

#define LIVES_MOST     4u
#define WORKERS_MOST   3u
#define DATAFILES_MOST 4u
#define PARTS_OF_LIFE  64u /* LIVES_MOST of these are EXPLORE_PARTS */
#define PARTS_EACH     16u /* of a worker; the last worker's are the compactor's */

extern struct machine_run {
    uint64_t seed;
    const char *path; /* of the store */
    struct kvstore_options options;
    struct machine_faults faults;
    unsigned workers, actions;
    bool clock_jumps;
    bool transacts;
    bool waits_together; /* most writes do: the commit log has work */
    bool store_is_there; /* an open has returned */
    unsigned life;
    enum machine_death { LIVES_ON, DIES_AT_A_CALL, DIES_AT_A_STEP } death;
    bool goes_on_smoothly; /* since the follower was at the end the store was closed at most */
    bool all_done;         /* since the last judgement no power was lost, and no disk failed */
    bool is_judged;        /* what the life has found */
    bool may_refuse;       /* the boot is not known */
    struct kvstore *store;
    bool ended;     /* the life, by itself */
    bool is_strict; /* nothing is excused any more */
} run;

/* Numbers of a part of the schedule: the same, whatever the others do. */
struct model_random machine_part_random(unsigned part);

uint64_t machine_realtime_ms(void);

/* Whether the disk's state excuses that an operation ended so; what it does not, ends the schedule,
 * as does KV_OK not. */
bool machine_excuses(enum kv_status status);
void machine_check_status(enum kv_status status, const char *what);

#endif
