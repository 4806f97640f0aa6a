/*
 * follower: a copy of a store of one data file that is made of its changes alone. Keys are "key N".
 */
#ifndef MQKV_TESTS_SUPPORT_FOLLOWER_H
#define MQKV_TESTS_SUPPORT_FOLLOWER_H

#include "mqkv/kvstore.h"

#define FOLLOWER_KEYS 32u

/* Of a new store whose changes are kept for an hour. */
extern const struct kvstore_options keeping_changes;

struct follower {
    struct kvstore_position position;
    uint64_t versions[FOLLOWER_KEYS]; /* 0: not there */
    uint64_t newest[FOLLOWER_KEYS];   /* of all changes of the key */
    unsigned room;                    /* changes that it still takes; 0: any number */
    unsigned count, deletes, expiries;
};

/* Copies what is there, to follow from now on. */
void follower_start(struct follower *follower, struct kvstore *opened);

/* A kvstore_change_visit: takes the change, if there is room. */
bool follower_take(void *follower, const struct kvstore_change *change);

/* Takes all changes that there are. KV_MISSED: some are not known any more. */
enum kv_status follower_catch_up(struct follower *follower, struct kvstore *opened);

/* Aborts unless it has what the store has. What has expired and is not yet swept may be in it. */
void follower_check(const struct follower *follower, struct kvstore *opened);

/* Both, of the test's store (one_file_store.h). */
void follower_must_catch_up(struct follower *follower);

#endif
