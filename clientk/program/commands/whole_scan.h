/*
 * whole_scan: a scan for people, which does not end at a record that is damaged or can not be read: it
 * tells of it and goes on with the rest.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_WHOLE_SCAN_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_WHOLE_SCAN_H

#include "clientk/program/cli/cli_context.h"

struct whole_scan {
    const char *command; /* in whose name it is told */
    struct kv_slice prefix;
    bool keys_only;
    uint64_t limit; /* entries; 0: all */
    clientk_visit visit;
    void *context;
};

/* KV_OK: at the end, the limit or the visitor's word; *left_out: records that were passed over, of which
 * the first WHOLE_SCAN_TOLD were told as failures, with file and offset, and the number of all if there
 * were any. Else what stopped it, as clientk_scan. */
enum kv_status whole_scan_run(struct cli_context *context, const struct whole_scan *scan,
                              uint64_t *left_out);

#define WHOLE_SCAN_TOLD 10u

#endif
