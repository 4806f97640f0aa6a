/*
 * live_records: the live records of a data file: of each key the last record, unless that is a
 * deletion. A superseded pointer that is the last one of its key is damage.
 *
 * Threads: one.
 */
#ifndef MQKV_TOOLS_BACKUP_LIVE_RECORDS_H
#define MQKV_TOOLS_BACKUP_LIVE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/backup/backup_source.h"
#include "common/memory/mapguard.h"
#include "kvstore/format/record.h"

struct live_slot {
    uint64_t hash;
    uint64_t offset; /* 0: the slot is free */
};

struct live_records {
    const uint8_t *bytes; /* the bytes of the file, mapped */
    struct mapguard *guard;
    uint64_t size;
    uint64_t salt;
    struct live_slot *slots; /* the place of the last record of each key */
    size_t slot_count;       /* a power of two */
    size_t used;
    size_t superseded; /* slots with a superseded pointer (record.h) */
    uint64_t at;       /* the next record to look at */
};

/* Reads the whole file and verifies every record. `name` is for sentences. KV_CORRUPT: a record is
 * damaged; KV_IO: the disk does not give all of the file; KV_NO_MEMORY. */
enum kv_status live_records_open(struct live_records *records, const struct source_file *file,
                                 const char *name, struct kv_error *error);
void live_records_close(struct live_records *records);

/* Gives the next record, in the order of the file, verified again, because it may have been read
 * from the disk once more. *end: there is none. KV_CORRUPT and KV_IO as above; KV_IO may also be
 * about the record that was given before, whose bytes vanished while the caller used them. */
enum kv_status live_records_next(struct live_records *records, struct record *record, bool *end,
                                 const char *name, struct kv_error *error);

#endif
