/*
 * machine_names: the names of the machine's files in its directories, as programs see them and as
 * the disk has them; changes get to the disk in their order.
 */
#ifndef MQKV_TESTS_EXPLORE_MACHINE_NAMES_H
#define MQKV_TESTS_EXPLORE_MACHINE_NAMES_H

#include <stdint.h>

#include "tests/explore/machine_file.h"

#define MACHINE_NAMES      128u
#define MACHINE_NAME_BYTES 48u

struct machine_name {
    unsigned directory;
    char text[MACHINE_NAME_BYTES];
    struct machine_file *file; /* NULL: there is none */
};

struct machine_change {
    enum { NAME_SET, NAME_EXCHANGED, NAME_MOVED, NAME_REMOVED } kind;
    struct machine_name name, to;
};

/* There are no names any more. */
void machine_names_forget(void);

struct machine_name machine_names_find(unsigned directory, const char *text);

/* The nth name that programs see, of all directories; NULL: there are no more. */
const struct machine_name *machine_names_nth(unsigned n);

void machine_names_change(const struct machine_change *change);

/* A name that is on disk at once. */
void machine_names_put(const struct machine_name *name, struct machine_file *file);

/* How many changes are not on disk; so many of them, from the oldest on, get there. */
unsigned machine_names_pending(void);
void machine_names_commit(uint64_t count);

/* All that may be found on disk of the names and their files, as numbers below this: so many of the
 * changes, in their order, with any state of each file that has a name then. At most 2^62. */
uint64_t machine_names_states(void);

/* The disk has that. */
void machine_names_take_state(uint64_t state);

/* The power comes back: what is not on disk is forgotten. */
void machine_names_wake_up(void);

#endif
