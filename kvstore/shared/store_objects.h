/*
 * store_objects: the shared-memory objects of one store (shared_store.h), by whatever name: the one
 * in use, and those that processes which were killed have left.
 */
#ifndef MQKV_KVSTORE_SHARED_STORE_OBJECTS_H
#define MQKV_KVSTORE_SHARED_STORE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kvstore/shared/shared_store.h"

/* Calls visit, until it returns true, for each number (shared_store_numbered_name) of an object of
 * the store that belongs to the uid, 0 first. Returns whether visit did. */
bool store_objects_find(dev_t device, ino_t inode, uid_t owner,
                        bool (*visit)(void *context, uint64_t number), void *context);

#endif
