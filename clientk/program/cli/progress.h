/*
 * progress: one line on the terminal that tells how far a long command is. Silent where stderr is no
 * terminal. Any thread may call.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_PROGRESS_H
#define MQKV_CLIENTK_PROGRAM_CLI_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;
    const char *what; /* "records loaded" */
    uint64_t start_ns;
    _Atomic uint64_t next_ns; /* when to print again */
};

/* quiet: nothing is shown, whatever stderr is. */
void progress_start(struct progress *progress, const char *what, bool quiet);

/* Prints, a few times a second at most. total 0: not known. */
void progress_show(struct progress *progress, uint64_t done, uint64_t total);

/* Takes the line away. */
void progress_end(struct progress *progress);

#endif
