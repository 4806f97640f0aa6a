/*
 * eventcount: where threads sleep until something they share has moved on. Sleepers say which of a
 * few groups they belong to, and whoever moves it on wakes a group at once, with one system call,
 * or none if nobody sleeps: a futex with a bit per group (futex(2), FUTEX_WAIT_BITSET). What they
 * wait for is theirs to look at again after each return; no lock is needed for waking up.
 *
 * Threads: any. One that is zeroed is ready.
 */
#ifndef MQKV_KVSTORE_CORE_EVENTCOUNT_H
#define MQKV_KVSTORE_CORE_EVENTCOUNT_H

#include <stdatomic.h>
#include <stdint.h>

#define EVENTCOUNT_EVERY_GROUP UINT32_MAX

struct eventcount {
    _Atomic uint32_t changes;
    _Atomic uint32_t sleepers;
};

/* To be asked before looking whether there is something to wait for. */
static inline uint32_t eventcount_prepare(struct eventcount *room)
{
    return atomic_load(&room->changes);
}

/* Sleeps until the group (one bit) is woken; not at all if there was a change, for any group, since
 * `changes` was asked for. May return for no reason. */
void eventcount_wait(struct eventcount *room, uint32_t changes, uint32_t group);

/* Notes a change and wakes the groups (bits) that it may concern. */
void eventcount_notify(struct eventcount *room, uint32_t groups);

#endif
