/*
 * store_leftovers: shared memory that held the index of a store (kvstore/shared/shared_store.h)
 * which is no more. A daemon that stops takes its own away, one that was killed leaves it to the
 * next daemon of the store; if the store's directory is gone, nobody will come.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_STORE_LEFTOVERS_H
#define MQKV_CLIENTK_PROGRAM_OPS_STORE_LEFTOVERS_H

#include <stdint.h>

struct store_leftovers {
    unsigned objects;
    uint64_t bytes;
};

/* Removes those of this user whose daemon has ended and whose directory is gone: no file system has
 * it under its name any more. */
struct store_leftovers store_leftovers_remove(void);

#endif
