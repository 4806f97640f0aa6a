/*
 * verify: kvcheck without options: every record of every data file, and a table of what they hold.
 */
#ifndef MQKV_KVSTORE_KVCHECK_VERIFY_H
#define MQKV_KVSTORE_KVCHECK_VERIFY_H

#include "mqkv/error.h"
#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/findings.h"

/* Findings first, then the table, on findings->stream. Failures are those of reading. */
enum kv_status verify_store(int dir_fd, const struct layout *layout, struct findings *findings,
                            struct kv_error *error);

#endif
