/*
 * store_variants: what the library under test has beside the defaults of a store: all of it with
 * the lab, nothing without (make LAB=no).
 */
#ifndef MQKV_TESTS_SUPPORT_STORE_VARIANTS_H
#define MQKV_TESTS_SUPPORT_STORE_VARIANTS_H

#include "mqkv/kvstore.h"

/* How many locking strategies there are, from KVSTORE_FILE_RWLOCK on. */
static inline int locking_count(void)
{
    int count = 0;
    while (kvstore_locking_name((enum kvstore_locking)count))
        count++;
    return count;
}

/* How many preferences of reader-writer locks there are, from KVSTORE_PREFER_WRITER on. */
static inline int preference_count(void)
{
    int count = 0;
    while (kvstore_rwlock_name((enum kvstore_rwlock)count))
        count++;
    return count;
}

/* KVSTORE_OPTIMISTIC where there is that, else the default. */
static inline enum kvstore_locking optimistic_if_there(void)
{
    return kvstore_locking_name(KVSTORE_OPTIMISTIC) ? KVSTORE_OPTIMISTIC : KVSTORE_FILE_RWLOCK;
}

#endif
