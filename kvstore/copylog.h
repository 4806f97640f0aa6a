/*
 * copylog: the copying step of compaction: the live records of one generation's log, a few at a
 * time, into the next generation.
 */
#ifndef MQKV_KVSTORE_COPYLOG_H
#define MQKV_KVSTORE_COPYLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/store.h"

/* Records looked at under one lock hold at most. Most may be dead, and all that were appended while
 * the compaction before was running have to be looked at: this must go much faster than writers
 * append, or each compaction would take longer than the last. */
#define COPYLOG_BATCH_RECORDS 512u

/* A put that was read, and may be alive. */
struct candidate {
    bool verified; /* false: large, and noted as sound before (logfile_walk): not looked at now */
    struct record record;
    uint64_t offset;
    uint64_t size_bytes;
    uint32_t hash;
};

struct copylog {
    struct kvstore *store;
    struct datafile *file;
    uint64_t at;  /* records before this offset have been read */
    uint64_t end; /* records from here on were appended to both generations */
    struct candidate candidates[COPYLOG_BATCH_RECORDS]; /* were read; */
    uint32_t candidate_count;
    uint32_t candidate_next; /* those before were copied or found dead */
};

/* Begins: from now on every append goes to `next` as well. */
void copylog_start(struct copylog *copy, struct kvstore *store, struct datafile *file,
                   struct generation *next);

/* Copies the next few. Takes the file's lock for writing once, for a short time. KV_OK, or why the
 * next generation can not be completed: KV_NO_SPACE, KV_CORRUPT (of the record at copy->at) ... */
enum kv_status copylog_step(struct copylog *copy);

bool copylog_is_done(const struct copylog *copy);

/* When it is done: does the next generation have a key for each that the current one has? A record
 * whose key is damaged is not found in the index, and passes for dead if it is not verified. (More
 * keys it may have: what was copied and then expired.) Takes the file's lock. */
bool copylog_is_complete(const struct copylog *copy);

#endif
