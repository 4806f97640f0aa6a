/*
 * waitroom: where threads sleep until something they share has moved on. Sleepers say which of a
 * few groups they belong to, and whoever moves it on wakes a group at once, with one system call,
 * or none if nobody sleeps: a futex with a bit a group (futex(2), FUTEX_WAIT_BITSET). What they
 * wait for is theirs to look at again after each return; no lock is needed for waking up.
 *
 * Threads: any. One that is zeroed is ready.
 */
#ifndef MQKV_KVSTORE_WAITROOM_H
#define MQKV_KVSTORE_WAITROOM_H

#include <stdatomic.h>
#include <stdint.h>

#define WAITROOM_EVERY_GROUP UINT32_MAX

struct waitroom {
    _Atomic uint32_t changes;
    _Atomic uint32_t sleepers;
};

/* To be asked before looking whether there is something to wait for. */
static inline uint32_t waitroom_changes(struct waitroom *room)
{
    return atomic_load(&room->changes);
}

/* Sleeps until the group (one bit) is woken; not at all if there was a change, for any group, since
 * `changes` was asked for. May return for no reason. */
void waitroom_sleep(struct waitroom *room, uint32_t changes, uint32_t group);

/* Notes a change and wakes the groups (bits) that it may concern. */
void waitroom_change(struct waitroom *room, uint32_t groups);

#endif
