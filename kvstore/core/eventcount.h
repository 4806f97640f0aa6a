/*
 * eventcount: where threads sleep until something they share has changed. A sleeper says which of a
 * few groups it belongs to; the thread that makes the change wakes a group at once, with one system
 * call, or none if nobody sleeps: a futex with a bit per group (futex(2), FUTEX_WAIT_BITSET). A
 * sleeper looks at what it waits for again after each return; no lock is needed for waking up.
 *
 * Threads: any. A zeroed eventcount is ready.
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

/* The `changes` of eventcount_wait. The caller asks for them before it looks whether there is
 * something to wait for. */
static inline uint32_t eventcount_prepare(struct eventcount *room)
{
    return atomic_load(&room->changes);
}

/* Sleeps until `group` (one bit) is woken; does not sleep if there was a change, for any group,
 * since eventcount_prepare returned `changes`. May return for no reason. */
void eventcount_wait(struct eventcount *room, uint32_t changes, uint32_t group);

/* Notes a change and wakes those of `groups` (bits), whom the change may concern. */
void eventcount_notify(struct eventcount *room, uint32_t groups);

#endif
