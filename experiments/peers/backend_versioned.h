/*
 * backend_versioned: the backend of a server that gives each entry a version, and writes on
 * condition of it: PUT, GET, and ADD as the loop that a program makes of both. A peer's file gives
 * these three functions, connect and disconnect; backend_versioned.c has backend_execute.
 */
#ifndef MQKV_EXPERIMENTS_PEERS_BACKEND_VERSIONED_H
#define MQKV_EXPERIMENTS_PEERS_BACKEND_VERSIONED_H

#include "experiments/peers/backend.h"

/* Writes; expected: only if the entry has that version still (0: there is none), else *refused. */
enum kv_status versioned_put(void *connection, struct kv_slice key, struct kv_slice value,
                             const uint64_t *expected, bool *refused);

/* The entry and its version; 0: there is none. */
enum kv_status versioned_get(void *connection, struct kv_slice key, uint64_t *version,
                             struct clientk_value *value);

/* The number that a value is, as versioned_get gave it. */
int64_t versioned_number(const void *connection, const struct clientk_value *value);

#endif
