/*
 * late_engine: an engine whose operations are submitted, over a store of this process: a thread
 * executes those that wait, in any order, and each one by itself, as an engine behind a network
 * might. The first on the key "busy" is KV_OVERLOADED.
 */
#ifndef MQKV_TESTS_SUPPORT_LATE_ENGINE_H
#define MQKV_TESTS_SUPPORT_LATE_ENGINE_H

#include "engine/store_engine.h"

/* Ended by engine_close, which leaves the store open. Whatever fails ends the test. */
struct store_engine *late_engine_open(struct kvstore *store);

#endif
