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
#include "kvstore/kvcheck/offset_list.h"
#include "kvstore/kvcheck/placed_values.h"
#include "kvstore/kvcheck/walk.h"

/* A gap, or a record whose key belongs in another data file (WALK_RECORD). */
struct survey_fault {
    enum walk_kind kind;
    uint64_t offset;
    uint64_t size_bytes;
    bool all_zero; /* of a gap: it has only zeros */
};

struct survey {
    const struct source *source;
    struct hash_key hash_key;       /* of this survey alone */
    struct index *newest;           /* of each key the newest record, be it a deletion */
    struct arena *arena;            /* its memory */
    struct shared_generation words; /* its numbers */
    uint64_t now_ms;                /* clock_realtime_ms: when it began */
    uint64_t records;
    uint64_t keys;          /* whose newest record is a put */
    uint64_t expiring_keys; /* of those, with an expiry */
    uint64_t expired_keys;  /* of those, passed by now_ms */
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
    uint64_t damage_limit; /* damage_end is not behind it */
    uint64_t last_at;      /* the last record that is not superseded; 0: there is none */
    uint64_t overwritten;  /* keys whose content is (running_store_overwrites), among `keys` */
    bool is_read_again;    /* superseded pointers that none follows are known */
    struct survey_fault *faults;
    size_t fault_count, fault_capacity;
    struct offset_list strays;   /* large values that are newer than all else of their keys */
    struct placed_values placed; /* among the newest */
    struct offset_list lost;     /* superseded pointers that none follows: they are gaps */
    struct offset_list bare;     /* those whose content is being overwritten: nothing is wrong */
};

/* Surveys the source, which stays open as long as the survey. KV_NO_MEMORY. */
enum kv_status survey_run(struct survey *survey, const struct source *source,
                          const struct layout *layout);
void survey_free(struct survey *survey);

/* A way through all that a survey has found. */
struct survey_walk {
    const struct survey *survey;
    struct walk walk;
    size_t stray; /* the next one */
};

void survey_walk_start(struct survey_walk *walk, const struct survey *survey);

/* Takes a step over the log, but for extents, and when that is at its end over the strays. False:
 * the end. */
bool survey_walk_next(struct survey_walk *walk, struct walk_step *step);

/* Returns true if the record is the one that the key has: its newest, and a put. */
bool survey_is_live(const struct survey *survey, const struct walk_step *step);

#endif
