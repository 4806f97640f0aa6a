/*
 * torn_tail: the bytes behind the end of a log: none, the torn_tail of a write that was under way,
 * or whole records behind a gap. The checksum of a record covers its place and the salt of its
 * file, so that a record found behind a gap was written there, in this file, and was not cut off
 * since.
 *
 * Threads: none of its own; the caller is alone with the file.
 */
#ifndef MQKV_KVSTORE_LOG_TORN_TAIL_H
#define MQKV_KVSTORE_LOG_TORN_TAIL_H

#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/log/logfile.h"

struct torn_tail {
    uint64_t end;             /* behind the last byte that is not zero; `from` if there is none */
    uint64_t intact;          /* number of records behind the gap that is at `from` */
    uint64_t first_intact_at; /* offset of the first of them */
};

/* Looks through what `log` has from `from` on, where it has no valid record, except holes.
 * KV_IO ... */
enum kv_status torn_tail_find(const struct logfile *log, uint64_t from,
                              struct torn_tail *torn_tail);

#define TORN_TAIL_NAME_BYTES 48

/* Copies what `log` has after its tail, `torn_tail` at the end, to a new file in the directory of
 * `dir_fd`, and syncs file and name: a header page and, in their places, the torn_tail. Under the
 * name data.NNNN, in a directory of its own, kvcheck reads the file. `name` is set to its name.
 * Fails with a sentence in `error`. */
enum kv_status torn_tail_keep(const struct logfile *log, const struct torn_tail *torn_tail,
                              int dir_fd, char name[TORN_TAIL_NAME_BYTES], struct kv_error *error);

#endif
