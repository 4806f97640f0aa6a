/*
 * whole_scan: a scan that does not end at a record that is damaged or cannot be read: it reports
 * the record and continues after it.
 */
#ifndef MQKV_CLIENTK_PROGRAM_COMMANDS_WHOLE_SCAN_H
#define MQKV_CLIENTK_PROGRAM_COMMANDS_WHOLE_SCAN_H

#include "clientk/program/cli/cli_context.h"

struct whole_scan {
    const char *command; /* the command that the reports name */
    struct kv_slice prefix;
    bool keys_only;
    uint64_t limit; /* most entries; 0: all */
    clientk_visit visit;
    void *context;
};

/* KV_OK: the scan reached the end or the limit, or the visitor ended it. *left_out: the number of
 * skipped records. The first WHOLE_SCAN_TOLD of them were reported as failures with file and
 * offset, and the others by their number. Any other status is the error that stopped the scan, as
 * from clientk_scan. */
enum kv_status whole_scan_run(struct cli_context *context, const struct whole_scan *scan,
                              uint64_t *left_out);

#define WHOLE_SCAN_TOLD 10u

#endif
