/*
 * mirror_state: how far a copy is, kept in the file `mirror` beside the data files: the name that
 * the store has in the cluster, the bucket, and a position in the changes of each data file. What
 * mirror_state_save writes was in the cluster before, and is on disk when the call returns.
 *
 * Threads: none of its own.
 */
#ifndef MQKV_MIRROR_MIRROR_STATE_H
#define MQKV_MIRROR_MIRROR_STATE_H

#include <stdbool.h>

#include "mqkv/error.h"
#include "mqkv/kvstore.h"
#include "bridges/cluster/natskv/natskv_options.h"

#define MIRROR_STATE_FILE  "mirror"
#define MIRROR_NAME_DIGITS 32u

struct mirror_place {
    struct kvstore_position position;
    uint64_t version; /* the highest version of the file up to there */
};

/* Returns the highest version of the data file. Waits while another thread keeps the file's lock:
 * with an older version a copy would seem complete. */
uint64_t mirror_version_now(struct kvstore *store, uint32_t file);

struct mirror_state {
    char name[MIRROR_NAME_DIGITS + 1]; /* the store's name, made up when its first copy is begun */
    char bucket[NATSKV_MAX_BUCKET_NAME + 1];
    char copy
        [MIRROR_NAME_DIGITS +
         1]; /* made up for each copying of everything; the bucket has it, too (mirror_mark.h) */
    bool complete;    /* the whole store was copied once: the places are valid */
    uint64_t same_ms; /* clock_realtime_ms: the copy had all that was written before */
    uint32_t files;
    struct mirror_place *places; /* one for each data file */
    uint64_t *page; /* so many changes of each are perhaps in the copy, too: all of them are there
                       that are of transactions, or none; all 0: no such page was begun */
};

/* Reads the state of a store of `files` data files, or begins a new one if there is none, or only
 * one of another bucket. KV_CORRUPT: the file makes no sense; KV_NO_MEMORY, KV_IO. */
enum kv_status mirror_state_load(const char *dir, const char *bucket, uint32_t files,
                                 struct mirror_state *state, struct kv_error *error);

/* Begins to copy everything anew: the copy so far counts no more. */
void mirror_state_begin_copy(struct mirror_state *state);

/* The page that was begun is in the copy: state->places are behind it. */
void mirror_state_end_page(struct mirror_state *state);

/* Writes the state. Errors: those of writing a file. */
enum kv_status mirror_state_save(const char *dir, const struct mirror_state *state,
                                 struct kv_error *error);

void mirror_state_free(struct mirror_state *state);

#endif
