/*
 * lock_command: runs a program while it holds a lock, which is an entry of the store: the Lock of
 * the Python package (bridges/python/mqkv/recipes.py), so that both exclude each other.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_LOCK_COMMAND_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_LOCK_COMMAND_H

#include "clientk/program/cli/cli_context.h"

struct lock_options {
    uint64_t lease_ms; /* the lock is free so long after the last word of its holder */
    uint64_t wait_ms;  /* the longest wait for the lock; 0: without end */
    bool no_wait;
    const char *prefix; /* that of the keys of Python's Cache */
};
extern const struct option_row lock_option_rows[];
extern const struct lock_options lock_option_defaults;

/* Returns the exit code of the program; EXIT_NOT_FOUND: another has the lock; EXIT_REFUSED: it was
 * lost meanwhile; 126, 127: the program could not be run; else that of a failure. */
int lock_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count);

#endif
