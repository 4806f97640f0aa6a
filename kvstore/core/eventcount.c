#include "kvstore/core/eventcount.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void eventcount_wait(struct eventcount *room, uint32_t changes, uint32_t group)
{
    atomic_fetch_add(&room->sleepers, 1);
    syscall(SYS_futex, &room->changes, FUTEX_WAIT_BITSET_PRIVATE, changes, NULL, NULL, group);
    atomic_fetch_sub(&room->sleepers, 1);
}

void eventcount_notify(struct eventcount *room, uint32_t groups)
{
    /* In this order: who is counted after the look finds the word changed and does not sleep. */
    atomic_fetch_add(&room->changes, 1);
    if (atomic_load(&room->sleepers) > 0)
        syscall(SYS_futex, &room->changes, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, groups);
}
