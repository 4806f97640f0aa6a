/*
 * progress: one line on the terminal that shows how far a long command is. Prints nothing if stderr
 * is not a terminal. Any thread may call.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_PROGRESS_H
#define MQKV_CLIENTK_PROGRAM_CLI_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;
    const char *what; /* what is counted, such as "records loaded" */
    uint64_t start_ns;
    _Atomic uint64_t next_ns; /* when to print again */
};

/* Starts the line; `quiet`: nothing is ever shown. */
void progress_start(struct progress *progress, const char *what, bool quiet);

/* Prints the line, at most a few times per second. total 0: unknown. */
void progress_show(struct progress *progress, uint64_t done, uint64_t total);

/* Has progress_show_watched print *done, which the calling thread changes, until progress_end. One
 * at a time in a process. */
void progress_watch(struct progress *progress, const uint64_t *done);

/* Prints the line of what is watched, if something is, as progress_show. For a thread that is in a
 * call of the library, which asks now and then whether to go on (clientk_options.interrupted). */
void progress_show_watched(void);

/* Erases the line. */
void progress_end(struct progress *progress);

#endif
