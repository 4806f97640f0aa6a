/*
 * diagnosis: the findings of doctor and how it prints them.
 */
#ifndef MQKV_TOOLS_OPS_DIAGNOSIS_H
#define MQKV_TOOLS_OPS_DIAGNOSIS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "clientk/program/cli/cli_context.h"
#include "wire/limits.h"

#define DIAGNOSIS_FIXES     24u
#define DIAGNOSIS_FIX_BYTES 512u

/* A command that mends what a finding says; "" if mending takes more than a command. */
struct fix {
    char reason[DIAGNOSIS_FIX_BYTES];
    char command[DIAGNOSIS_FIX_BYTES];
};

struct diagnosis {
    struct cli_context *context;
    FILE *stream;
    struct fix fixes[DIAGNOSIS_FIXES];
    unsigned fix_count;
    char last[DIAGNOSIS_FIX_BYTES]; /* the last finding that has a mark */
    struct wire_limits limits;
    bool shares_replies; /* new clients of this user need no queue */
    bool removes;        /* remove what killed processes left */
    bool problem;        /* something needs fixing */
    bool no_server;      /* there is no server, or it does not answer */
    pid_t server;        /* process of the server; 0: not known here */
    bool silent;         /* there is a server, but an answer did not come in time */
};

/* Prints a line under a heading. Marks: "ok", "low" (works, but less well), "BAD" (sets problem),
 * "NONE" (sets no_server); "" continues the line before. */
void finding(struct diagnosis *diagnosis, const char *mark, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a command that mends the last finding with a mark. Only the first few are kept. */
void fix(struct diagnosis *diagnosis, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Quotes the text as a word for the shell, whatever is in it: paths may come from other users.
 * Returns `quoted`; "''" if the text is too long. */
#define DIAGNOSIS_WORD_BYTES 400u
const char *shell_word(const char *text, char quoted[DIAGNOSIS_WORD_BYTES]);

/* Notes that no command mends the last finding. */
void fix_by_hand(struct diagnosis *diagnosis);

/* Returns true if there is a command that mends something. */
bool has_fixes(const struct diagnosis *diagnosis);

/* Prints all commands for a shell, each below a comment with its reason. */
void print_fixes(const struct diagnosis *diagnosis, FILE *stream);

void heading(const struct diagnosis *diagnosis, const char *text);

/* Writes "uid 1001 (name)" into `buffer`, and returns that. */
const char *user_name(uid_t uid, char buffer[64]);

/* doctor_limits.c: checks the kernel's limits and how much of them is in use. */
void doctor_check_limits(struct diagnosis *diagnosis);
void doctor_print_limit_advice(struct diagnosis *diagnosis);

/* doctor_store.c: checks the data files and the disk, by the statistics of the server. Needs a
 * connection. */
void doctor_check_store(struct diagnosis *diagnosis);

/* doctor_users.c: checks the users who have sessions, by the same statistics, and their limits. */
struct json_value;
void doctor_check_users(struct diagnosis *diagnosis, const struct json_value *sessions);

/* Reads RLIMIT_MSGQUEUE of another process; false: it cannot be read. */
bool doctor_queue_limit_of(pid_t pid, uint64_t *bytes);

/* doctor_config.c: checks the configuration file of the server (process 0: that of the unit, if it
 * is installed). It reads the file only if this user or root wrote it and, unless it is that of the
 * unit, named it. */
void doctor_check_config(struct diagnosis *diagnosis, pid_t server);

/* Adds the command that starts the server, or starts it again. */
void doctor_fix_by_start(struct diagnosis *diagnosis);
void doctor_fix_by_restart(struct diagnosis *diagnosis);

#endif
