/*
 * machine_faults: which calls of the machine fail, and when a process dies in one: drawn from the
 * seed, at the rates that a harness has set.
 */
#ifndef MQKV_TESTS_EXPLORE_MACHINE_FAULTS_H
#define MQKV_TESTS_EXPLORE_MACHINE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/explore/machine.h"

extern struct fault_state {
    struct machine_faults rates;
    uint64_t random; /* of the calls, and of what the disk does between them */
    uint32_t die_in; /* calls; 0: never */
    bool has_failed; /* since the power came last */
} faults;

/* Everything anew, from that seed. */
void machine_faults_begin(uint64_t seed);

/* Return -1 with that errno; EIO: the disk has failed. */
int machine_fail(int error_number);
int machine_fail_io(void);

/* One more call. True: the process is to die in it. */
bool machine_faults_kill(void);

#endif
