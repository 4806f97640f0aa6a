/*
 * diagnosis: the findings of doctor and how it prints them.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_DIAGNOSIS_H
#define MQKV_CLIENTK_PROGRAM_OPS_DIAGNOSIS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "clientk/program/cli/cli_context.h"
#include "wire/limits.h"

struct diagnosis {
    struct cli_context *context;
    FILE *stream;
    struct wire_limits limits;
    bool shares_replies; /* new clients of this user need no queue */
    bool problem;        /* something needs fixing */
    bool no_server;      /* there is none, or it does not answer */
    bool silent;         /* there is a server, but an answer did not come in time */
};

/* Prints a line under a heading. Marks: "ok", "low" (works, but less well), "BAD" (sets problem),
 * "NONE" (sets no_server); "" continues the line before. */
void finding(struct diagnosis *diagnosis, const char *mark, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void heading(const struct diagnosis *diagnosis, const char *text);

/* "uid 1001 (name)" */
const char *user_name(uid_t uid, char buffer[64]);

/* doctor_limits.c: the kernel's limits and how much of them is in use. */
void doctor_check_limits(struct diagnosis *diagnosis);
void doctor_print_limit_advice(struct diagnosis *diagnosis);

/* doctor_store.c: the data files and the disk, by the statistics of the server. Needs a
 * connection. */
void doctor_check_store(struct diagnosis *diagnosis);

#endif
