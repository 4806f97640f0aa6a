/*
 * copylog: the copying step of compaction: the live records of one generation's log, a few at a
 * time, into the next generation.
 *
 * The log is copied in passes. The first pass copies what the log has when it begins; each further
 * pass copies what was appended during the pass before, which is less each time, as a pass copies
 * much faster than writers append. So far no other thread knows the next generation: it is filled
 * without a lock, and writers are held up only while the copylog finds out which records are alive.
 * When little is left the next generation is shared: from then on writers append to both
 * generations, and the rest is copied under their lock.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_COPYLOG_H
#define MQKV_KVSTORE_MAINTENANCE_COPYLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/maintenance/maintenance.h"
#include "kvstore/table/datafile.h"

/* The most records that are read together. */
#define COPYLOG_BATCH_RECORDS 512u

/* A record that was read: a put or, after the first pass, a delete. */
struct candidate {
    bool verified; /* false: a large record, noted as sound before (logfile_walk) */
    bool alive;
    struct record record;
    uint64_t offset;
    uint64_t size_bytes;
    uint32_t hash;
};

/* The most stretches of damaged records in use that are copied as they are: a file with more is
 * left as it is. */
#define COPYLOG_MOST_CARRIED DATAFILE_DAMAGED_MAX

struct copylog {
    struct maintenance with;
    struct datafile *file;
    struct generation *next;
    unsigned passes;     /* number of completed passes */
    bool shared;         /* every append goes to the next generation as well, which is file->next */
    uint64_t at;         /* records before this offset have been read */
    uint64_t end;        /* where this pass ends */
    uint64_t pass_bytes; /* the size of this pass */
    struct candidate candidates[COPYLOG_BATCH_RECORDS]; /* the records that were read */
    uint32_t candidate_count;
    uint32_t candidate_next; /* candidates before this one were copied or found dead */
    /* The first entry of each damaged stretch that was carried over, with its new offset. */
    struct index_item carried[COPYLOG_MOST_CARRIED];
    uint32_t carried_count;
    bool may_miss; /* damage was passed in the first pass: what it named is still to be found */
    uint64_t missed_from;    /* where in the index that is looked for next */
    uint64_t first_pass_end; /* in the next generation's log; 0: during the first pass */
};

/* Begins to copy `file` to `next`, which stays the caller's. Takes the file's lock. */
void copylog_start(struct copylog *copy, const struct maintenance *with, struct datafile *file,
                   struct generation *next);

/* Copies the next few records; takes the file's lock for short times. Damaged bytes in which
 * nothing in use lies are left out; damaged bytes in use are carried over as they are (reads of
 * them fail as before, and a write takes their place); each with a line in the log. KV_OK, or why
 * the next generation cannot be completed: KV_NO_SPACE, KV_CORRUPT (the record at copy->at is
 * damaged, and there are too many damaged stretches, or it was appended during the first pass) ...
 * */
enum kv_status copylog_step(struct copylog *copy);

/* Called when the next generation is the current one: logs where the damaged bytes that were
 * carried over are now (datafile_tell_damage). Takes the file's lock. */
void copylog_tell_carried(const struct copylog *copy);

/* Returns true if everything was copied, and the next generation is shared. */
bool copylog_is_done(const struct copylog *copy);

/* Called when copylog_is_done: returns true if the next generation has as many keys as the current
 * one. A record whose key is damaged is not found in the index, and counts as dead if it is not
 * verified. Takes the file's lock. */
bool copylog_is_complete(const struct copylog *copy);

#endif
