/*
 * copylog: the copying step of compaction: the live records of one generation's log, a few at a
 * time, into the next generation.
 *
 * It goes in passes. The first copies what the log has when it begins; each further one what was
 * appended during the one before, and as it copies much faster than writers append, that is less
 * each time. So far nobody else knows the next generation: it is filled without a lock, and writers
 * are held up only while it is looked whether records are alive. When little is left the next
 * generation is shared: from then on writers append to both, and the rest is copied under their
 * lock.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_COPYLOG_H
#define MQKV_KVSTORE_MAINTENANCE_COPYLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/maintenance/maintenance.h"
#include "kvstore/table/datafile.h"

/* Records that are read together, at most. */
#define COPYLOG_BATCH_RECORDS 512u

/* A put or, after the first pass, a delete that was read. */
struct candidate {
    bool verified; /* false: large, and noted as sound before (logfile_walk): not looked at yet */
    bool alive;
    struct record record;
    uint64_t offset;
    uint64_t size_bytes;
    uint32_t hash;
};

/* Stretches of damaged records in use that are copied as they are, at most: a file with more is left
 * as it is. */
#define COPYLOG_MOST_CARRIED DATAFILE_DAMAGED_MAX

struct copylog {
    struct maintenance with;
    struct datafile *file;
    struct generation *next;
    unsigned passes;     /* completed */
    bool shared;         /* every append goes to the next generation as well: it is file->next */
    uint64_t at;         /* records before this offset have been read */
    uint64_t end;        /* of this pass, */
    uint64_t pass_bytes; /* the size of this pass */
    struct candidate candidates[COPYLOG_BATCH_RECORDS]; /* were read; */
    uint32_t candidate_count;
    uint32_t candidate_next; /* those before were copied or found dead */
    /* The first entry of each damaged stretch that was carried over, with its new offset. */
    struct index_item carried[COPYLOG_MOST_CARRIED];
    uint32_t carried_count;
    uint64_t first_pass_end; /* in the next generation's log; 0: during the first pass */
};

/* Begins. The next generation stays the caller's. */
void copylog_start(struct copylog *copy, const struct maintenance *with, struct datafile *file,
                   struct generation *next);

/* Copies the next few; takes the file's lock for short times. What is damaged and dead is left out,
 * what is damaged and in use is carried over as it is (reads of it go on failing, a write takes its
 * place), each with a line in the log. KV_OK, or why the next generation cannot be completed:
 * KV_NO_SPACE, KV_CORRUPT (of the record at copy->at: there are too many damaged stretches, or it
 * was appended during the first pass) ... */
enum kv_status copylog_step(struct copylog *copy);

/* When the next generation is the current one: says in the log where what was carried over is now
 * (datafile_tell_damage). Takes the file's lock. */
void copylog_tell_carried(const struct copylog *copy);

/* Everything was copied, and the next generation is shared. */
bool copylog_is_done(const struct copylog *copy);

/* When it is done: does the next generation have a key for each that the current one has? A record
 * whose key is damaged is not found in the index, and passes for dead if it is not verified. Takes
 * the file's lock. */
bool copylog_is_complete(const struct copylog *copy);

#endif
