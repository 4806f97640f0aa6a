/*
 * machine_handles: the machine's open descriptors, of files and directories.
 */
#ifndef MQKV_TESTS_EXPLORE_MACHINE_HANDLES_H
#define MQKV_TESTS_EXPLORE_MACHINE_HANDLES_H

#include "tests/explore/machine_file.h"

struct machine_handle {
    bool in_use;
    struct machine_file *file; /* NULL: a directory */
    unsigned directory;
    unsigned process;
    unsigned next;  /* of the listing */
    off_t position; /* of a file: where read and write go on */
    bool appends;   /* write goes to the end */
};

/* There are none any more. */
void machine_handles_forget(void);

/* Those of a process that has died are closed. */
void machine_handles_bury(unsigned process);

/* A new descriptor of the process that runs, or -1 with an errno. */
int machine_handle_open(struct machine_file *file, unsigned directory);
void machine_handle_close(struct machine_handle *handle);

/* NULL: the descriptor is none of the machine's. */
struct machine_handle *machine_handle_of(int descriptor);

/* The same, and the file's: what is none ends the schedule. */
struct machine_handle *machine_handle(int descriptor);
struct machine_file *machine_handle_file(int descriptor);

#endif
