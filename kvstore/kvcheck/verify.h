/*
 * verify: kvcheck without options: reads every record of every data file, and prints a table of
 * what they hold.
 */
#ifndef MQKV_KVSTORE_KVCHECK_VERIFY_H
#define MQKV_KVSTORE_KVCHECK_VERIFY_H

#include "mqkv/error.h"
#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/findings.h"

/* Prints findings, then the table, on findings->stream. It fails only if something cannot be
 * read. */
enum kv_status verify_store(int dir_fd, const struct layout *layout, struct findings *findings,
                            struct kv_error *error);

/* Does the same for a store that a daemon uses, which it neither holds up nor changes: each data
 * file is read up to its end at that time. KV_BUSY: a file is replaced again and again. */
enum kv_status verify_live_store(int dir_fd, const struct layout *layout, struct findings *findings,
                                 struct kv_error *error);

#endif
