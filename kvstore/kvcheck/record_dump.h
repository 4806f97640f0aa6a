/*
 * record_dump: kvcheck --dump: prints every intact record, in the order of the log, one per line on
 * stdout.
 */
#ifndef MQKV_KVSTORE_KVCHECK_RECORD_DUMP_H
#define MQKV_KVSTORE_KVCHECK_RECORD_DUMP_H

#include "mqkv/error.h"
#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/findings.h"

enum dump_format { DUMP_TEXT, DUMP_JSON };

/* Prints the records; reports damage on findings->stream. */
enum kv_status dump_store(int dir_fd, const struct layout *layout, enum dump_format format,
                          struct findings *findings, struct kv_error *error);

#endif
