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

struct engine {
    const char *name;
    /* Opens a new database in the empty directory; never NULL: a failure ends the program. */
    void *(*open)(const char *dir, bool sync_every_write);
    void (*put)(void *database, struct kv_slice key, struct kv_slice value);
    /* Copies the value to buffer, as every caller of a store would; false: not found. */
    bool (*get)(void *database, struct kv_slice key, void *buffer, size_t capacity);
    void (*close)(void *database);
};

/* Ends with a NULL name. */
extern const struct engine engines[];

/* The engine of that name; NULL if there is none. */
const struct engine *engine_find(const char *name);

#endif
