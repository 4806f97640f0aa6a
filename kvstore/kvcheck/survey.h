/*
 * survey: all that a data file holds, record by record: counts, gaps, and which record of a key is
 * its newest. What the engine would take for the content after a recovery, but for what the survey
 * finds in a damaged file and the engine would not: records that lie behind damage, and sound large
 * values, the strays, which no record names any more, as it is among what is damaged.
 */
#ifndef MQKV_KVSTORE_KVCHECK_SURVEY_H
#define MQKV_KVSTORE_KVCHECK_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/status.h"
#include "kvstore/index/index.h"
#include "kvstore/format/keyhash.h"
#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/walk.h"

struct survey {
    const struct source *source;
    struct hash_key hash_key;       /* of this survey alone */
    struct index *newest;           /* of each key the newest record, be it a deletion */
    struct arena *arena;            /* its memory */
    struct shared_generation words; /* its numbers */
    uint64_t records;
    uint64_t keys;          /* whose newest record is a put */
    uint64_t expiring_keys; /* of those, with an expiry */
    uint64_t expired_keys;  /* of those, passed by now */
    uint64_t live_bytes;    /* of the records of keys */
    uint64_t record_bytes;  /* of all */
    uint64_t max_version;
    uint64_t damaged_bytes;
    uint64_t torn_bytes;   /* of gaps at or after the synced offset */
    uint64_t hole_at;      /* the first of those that intact records follow; 0: there is none */
    uint64_t after_hole;   /* these records */
    uint64_t after_damage; /* records found behind the first gap of any kind */
    uint64_t misplaced;    /* keys that belong in another data file */
    uint64_t skipped;      /* struct walk */
    uint64_t damage_end;   /* where the last gap ends that is damage or a hole; 0: there is none */
    uint64_t *strays;      /* offsets of large values that are newer than all else of their keys */
    size_t stray_count, stray_capacity;
};

/* Called for every gap and every misplaced record. */
typedef void (*survey_observer)(void *context, const struct walk_step *step);

/* Surveys the source, which stays open as long as the survey. KV_NO_MEMORY. observer may be
 * NULL. */
enum kv_status survey_run(struct survey *survey, const struct source *source,
                          const struct layout *layout, survey_observer observer, void *context);
void survey_free(struct survey *survey);

/* Takes a step of `walk`, but for berths, and when that is at its end a step over the strays, of
 * which *stray, 0 at first, is the number of the next. False: the end. */
bool survey_next(const struct survey *survey, struct walk *walk, size_t *stray,
                 struct walk_step *step);

/* Returns true if the record is the one that the key has: its newest, and a put. */
bool survey_is_live(const struct survey *survey, const struct walk_step *step);

#endif
