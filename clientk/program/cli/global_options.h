/*
 * global_options: the options of clientk itself, which apply to every command.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_GLOBAL_OPTIONS_H
#define MQKV_CLIENTK_PROGRAM_CLI_GLOBAL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/program/cli/arguments.h"

struct global_options {
    const char *queue; /* -m, else $MQKV_QUEUE, else the default; never NULL */
    uint64_t timeout_ms;
    int format; /* enum output_format */
    bool wait;  /* wait for a server, at most timeout_ms */
    bool escapes;
    const char *server_uid; /* NULL: $MQKV_SERVER_UID, else any */
    const char *spin;
    const char *replies; /* NULL: $MQKV_REPLIES, else auto */
    int direct;          /* enum clientk_direct; below 0: not given, $MQKV_DIRECT decides */
    uint64_t direct_stale_ms;
    uint64_t priority;
    bool help;
    bool version;
};

/* The defaults, some of them from the environment. */
struct global_options global_option_defaults(void);

/* The name of an enum clientk_direct: "map" for CLIENTK_DIRECT_MAP. NULL: there is no such
 * number. */
const char *direct_name(int direct);

extern const struct option_row global_option_rows[];

#endif
