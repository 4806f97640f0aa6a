/*
 * local_engine: kvstore as an engine: a store in a directory of this host.
 */
#ifndef MQKV_ENGINE_LOCAL_ENGINE_H
#define MQKV_ENGINE_LOCAL_ENGINE_H

#include "engine/store_engine.h"

/* Opens the store of the directory `dir` with `options`, as kvstore_open, whose errors this has. */
enum kv_status local_engine_open(const char *dir, const struct kvstore_options *options,
                                 struct store_engine **engine, struct kv_error *error);

#endif
