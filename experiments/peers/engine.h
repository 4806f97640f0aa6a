/*
 * engine: the embedded engines that mqkv's own is compared with, behind one table, so that all are
 * driven by the same loop (engine_load.c).
 */
#ifndef MQKV_EXPERIMENTS_PEERS_ENGINE_H
#define MQKV_EXPERIMENTS_PEERS_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

/* What a range has given: each entry is copied out, as every caller of a store would. */
struct engine_range {
    size_t entries;
    size_t bytes; /* of all keys and values */
    bool unordered;
    size_t last_bytes;
    char last[256]; /* the last key */
    char value[4096];
};

/* Adds an entry of a range. */
void engine_range_add(struct engine_range *range, struct kv_slice key, struct kv_slice value);

struct engine {
    const char *name;
    /* Opens a new database in the empty directory; never NULL: a failure ends the program. */
    void *(*open)(const char *dir, bool sync_every_write);
    void (*put)(void *database, struct kv_slice key, struct kv_slice value);
    /* Copies the value to buffer, as every caller of a store would; false: not found. */
    bool (*get)(void *database, struct kv_slice key, void *buffer, size_t capacity);
    void (*close)(void *database);
    /* Adds at most `limit` entries to *range, in the order of keys, from `from` on. NULL: it has no
     * order here. */
    void (*range)(void *database, struct kv_slice from, size_t limit, struct engine_range *range);
};

/* Ends with a NULL name. */
extern const struct engine engines[];

/* The engine of that name; NULL if there is none. */
const struct engine *engine_find(const char *name);

#endif
