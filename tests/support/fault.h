/*
 * fault: makes the file layer of kvstore fail on purpose. While a plan is installed, the `fileio`
 * table counts its calls by kind, and those the plan names fail with its errno; every other call
 * goes to the operating system. Calls may come from any thread.
 */
#ifndef MQKV_TESTS_SUPPORT_FAULT_H
#define MQKV_TESTS_SUPPORT_FAULT_H

#include <stdbool.h>
#include <stddef.h>

enum fault_call {
    FAULT_OPEN,
    FAULT_ALLOCATE,
    FAULT_TRUNCATE,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_ZERO,
    FAULT_SYNC_DATA,
    FAULT_SYNC_DIR,
    FAULT_RENAME,
    FAULT_EXCHANGE,
    FAULT_UNLINK,
    FAULT_MAP,
    FAULT_UNMAP,
    FAULT_POPULATE,
    FAULT_CALL_COUNT,
    FAULT_ANY = FAULT_CALL_COUNT /* in a plan: whatever the kind */
};

/* What becomes of a read: an error; fewer bytes than there are; all, with one bit wrong. Other
 * calls always fail. */
enum fault_effect { FAULT_FAILS, FAULT_SHORTENS, FAULT_FLIPS };

struct fault_plan {
    enum fault_call call;
    unsigned long nth;      /* the first call that fails, counted from 1; 0: none, only count */
    unsigned long length;   /* how many calls fail from there on; 0: all (the disk stays full) */
    int error;              /* errno of the failure */
    size_t written_bytes;   /* a write that fails has written so many bytes of its data before */
    bool only_first_writes; /* of those that fail the others write nothing */
    enum fault_effect effect;
    size_t read_bytes; /* SHORTENS: so many are given; FLIPS: the byte after so many is wrong */
};

/* "write" ...: for messages. */
const char *fault_call_name(enum fault_call call);

/* Installs the plan, all counts zero; replaces an earlier one. Stores may be open. */
void fault_install(const struct fault_plan *plan);

/* Nothing fails any more. Counts stay readable. */
void fault_clear(void);

/* Calls of that kind (FAULT_ANY: of all kinds) since the plan was installed, failed ones too. */
unsigned long fault_calls(enum fault_call call);

/* True once a call failed because of the plan. */
bool fault_has_fired(void);

#endif
