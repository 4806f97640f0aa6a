/*
 * kresp_options: the command line of kresp, as docs/kresp.1 describes it.
 */
#ifndef MQKV_KRESP_PROGRAM_KRESP_OPTIONS_H
#define MQKV_KRESP_PROGRAM_KRESP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "mqkv/error.h"

/* The texts are borrowed from the arguments. */
struct kresp_options {
    const char *queue; /* NULL: as libclientk chooses */
    const char *socket_path;
    mode_t socket_mode;
    uint32_t port; /* 0: no TCP */
    const char *password;
    const char *password_file;
    uint32_t threads;
    uint32_t timeout_ms;
    uint64_t max_clients, max_pipeline;
    uint64_t buffer_bytes, request_bytes;
    bool allow_flush, sandbox, verbose;
};

enum kresp_outcome {
    KRESP_OPTIONS_OK,
    KRESP_OPTIONS_DONE, /* help or the version was asked for, and printed */
    KRESP_OPTIONS_BAD   /* the error says what is wrong */
};

enum kresp_outcome kresp_options_parse(int argc, char **argv, struct kresp_options *options,
                                       struct kv_error *error);

#endif
