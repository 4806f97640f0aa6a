/*
 * live_records: the records of a data file that its keys hold: of each key the last, unless that is
 * a deletion.
 *
 * Threads: one.
 */
#ifndef MQKV_CLIENTK_PROGRAM_BACKUP_LIVE_RECORDS_H
#define MQKV_CLIENTK_PROGRAM_BACKUP_LIVE_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/program/backup/backup_source.h"
#include "kvstore/format/record.h"

struct live_slot {
    uint64_t hash;
    uint64_t offset; /* 0: the slot is free */
};

struct live_records {
    const uint8_t *bytes; /* of the file, mapped */
    uint64_t size;
    uint64_t salt;
    struct live_slot *slots; /* of the last record of each key */
    size_t slot_count;       /* a power of two */
    size_t used;
    uint64_t at; /* the next record to look at */
};

/* Reads the whole file and verifies every record. `name` is for sentences. KV_CORRUPT: a record is
 * damaged; KV_NO_MEMORY, KV_IO. */
enum kv_status live_records_open(struct live_records *records, const struct source_file *file,
                                 const char *name, struct kv_error *error);
void live_records_close(struct live_records *records);

/* The next one, in the order of the file; false: there is none. */
bool live_records_next(struct live_records *records, struct record *record);

#endif
