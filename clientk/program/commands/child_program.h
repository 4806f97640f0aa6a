/*
 * child_program: a program that a command runs, and whose signals it passes on. One at a time, from
 * the only thread.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_CHILD_PROGRAM_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_CHILD_PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "clientk/program/cli/line.h"
#include "mqkv/error.h"

struct child_program {
    pid_t pid;
    int exit_code; /* once it has ended: its own, or 128 and the signal that ended it */
    int signal;    /* the last one that came for this process meanwhile; 0: none */
    sigset_t mask; /* of this thread before */
    sigset_t awaited;
};

/* The exit code of a program that could not be run: 127: it was not found; 126. */
int child_program_failure_code(const struct kv_error *error);

/* Runs words[0], which is looked for in PATH, with the other words as its arguments. From here to
 * child_program_end, SIGINT, SIGTERM and SIGHUP are blocked. KV_OK; KV_USAGE: a word has a NUL
 * byte; KV_NOT_FOUND, KV_IO: it cannot be run, with a sentence. After KV_OK the caller calls
 * child_program_wait until it returns true, then child_program_end. */
enum kv_status child_program_start(struct child_program *self, const struct word *words,
                                   size_t count, struct kv_error *error);

/* Waits until it has ended, for timeout_ms at most; below 0: without end. Passes signals on, but
 * for those of a terminal, which it has got itself. True: it has ended. */
bool child_program_wait(struct child_program *self, int timeout_ms);

/* Asks it to end (SIGTERM). */
void child_program_stop(const struct child_program *self);

/* This process gets its signals again. */
void child_program_end(struct child_program *self);

#endif
