/*
 * maintenance: the parts of a store that its background threads work with. All of them are made
 * before the thread that is given them, and freed after it.
 */
#ifndef MQKV_KVSTORE_MAINTENANCE_MAINTENANCE_H
#define MQKV_KVSTORE_MAINTENANCE_MAINTENANCE_H

#include "kvstore/core/context.h"

struct cache;
struct compaction_queue;
struct holds;
struct past_logs;
struct sync;

struct maintenance {
    const struct store_context *context;
    struct cache *cache; /* NULL: none */
    struct sync *sync;
    struct compaction_queue *compactions;
    struct holds *holds;
    struct past_logs *past; /* NULL: changes are not kept */
    /* The errand that compactor_ask asks for, and its argument. */
    void (*errand)(void *argument);
    void *errand_argument;
};

#endif
