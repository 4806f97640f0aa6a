/*
 * settings: what holds for every command: the options that clientk itself takes.
 */
#ifndef MQKV_CLIENTK_PROGRAM_SETTINGS_H
#define MQKV_CLIENTK_PROGRAM_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "clientk/program/arguments.h"

struct settings {
    const char *queue; /* -m, else $MQKV_QUEUE, else the default; never NULL */
    uint64_t timeout_ms;
    int format; /* enum output_format */
    bool wait;  /* for a server to come, up to the timeout */
    bool escapes;
    const char *server_uid; /* NULL: $MQKV_SERVER_UID, else any */
    const char *spin;
    uint64_t priority;
    bool help;
    bool version;
};

/* The defaults, the environment looked at. */
struct settings settings_defaults(void);

extern const struct option_row settings_options[];

#endif
