/*
 * remains: what lies behind the end of a log: nothing, what a write that was under way has left, or
 * whole records behind a gap. The checksum of a record covers its place and the salt of its file,
 * so that what is found behind a gap was written there, in this file, and not cut off since.
 *
 * Threads: none of its own; the caller is alone with the file.
 */
#ifndef MQKV_KVSTORE_LOG_REMAINS_H
#define MQKV_KVSTORE_LOG_REMAINS_H

#include <stdint.h>

#include "mqkv/error.h"
#include "kvstore/log/logfile.h"

struct remains {
    uint64_t end;             /* of the last byte that is not zero; the tail if there is none */
    uint64_t intact;          /* records behind the gap that is at the tail */
    uint64_t first_intact_at; /* if there are any */
};

/* Looks through what the file has after its tail, but for holes. KV_IO ... */
enum kv_status remains_find(const struct logfile *log, struct remains *remains);

#define REMAINS_NAME_BYTES 48

/* Copies them to a new file beside the data file, synced, its name too: the header page and, in
 * their places, the remains. As data.NNNN of a directory of its own kvcheck reads it. */
enum kv_status remains_keep(const struct logfile *log, const struct remains *remains, int dir_fd,
                            char name[REMAINS_NAME_BYTES], struct kv_error *error);

#endif
