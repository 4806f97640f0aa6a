/*
 * mapguard: mappings whose file may lose its bytes while they are mapped: a segment that its client
 * truncates, a data file that somebody shortens or whose disk fails. An access to bytes that are
 * gone raises SIGBUS, which ends the process. With the handler of this module installed, a page of
 * zeros takes the place of the page that is gone, the guard of the mapping counts the fault, and
 * the access continues: code that copied out of the mapping, or into it, asks afterwards whether
 * the mapping held.
 *
 *     uint32_t mark = mapguard_mark(guard);
 *     copy ...
 *     if (!mapguard_held(guard, mark)) ... the copy may have zeros in it, or be lost
 *
 * Before any fault in the process, mark and held cost one load of a word that nobody writes. A
 * library only adds its mappings; a program that does not install the handler runs as without this
 * module. A SIGBUS elsewhere, or one that was sent, ends the process, after a line on standard
 * error.
 *
 * Threads: any, also the handler; the code that makes and ends a mapping makes and ends its guard.
 * A fault in a thread that blocks SIGBUS ends the process: leave the signal unblocked.
 */
#ifndef MQKV_COMMON_MEMORY_MAPGUARD_H
#define MQKV_COMMON_MEMORY_MAPGUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One mapping. Plain data of this module. */
struct mapguard {
    _Atomic uintptr_t start;
    _Atomic size_t bytes;          /* 0: the place is free */
    _Atomic uint32_t faults;       /* since it was added */
    _Atomic uint64_t fault_offset; /* of the page of the first fault, in the mapping */
    atomic_bool taken;
    atomic_bool told; /* for the owner: the fault has been logged */
};

/* Faults of all guarded mappings since the start. */
extern _Atomic uint32_t mapguard_all_faults;

/* Installs the handler of SIGBUS. `program`, which must stay, is the name in the line about a fault
 * elsewhere. */
void mapguard_install(const char *program);

/* Adds a guard for the mapping of `bytes` at `start`. NULL: out of memory; NULL counts as a guard
 * without faults in all calls below. */
struct mapguard *mapguard_add(void *start, size_t bytes);

/* Removes the guard, before the mapping is unmapped. */
void mapguard_remove(struct mapguard *guard);

static inline uint32_t mapguard_count(void)
{
    return atomic_load_explicit(&mapguard_all_faults, memory_order_relaxed);
}

static inline uint32_t mapguard_faults(const struct mapguard *guard)
{
    /* Page of zeros and count become visible in that order or together (mapguard.c). */
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&mapguard_all_faults, memory_order_acquire) == 0 || !guard)
        return 0;
    return atomic_load_explicit(&guard->faults, memory_order_acquire);
}

static inline uint32_t mapguard_mark(const struct mapguard *guard)
{
    return mapguard_faults(guard);
}

/* Returns true if there was no fault since `mark`. */
static inline bool mapguard_held(const struct mapguard *guard, uint32_t mark)
{
    return mapguard_faults(guard) == mark;
}

/* Returns true if the mapping has lost bytes, for good. */
static inline bool mapguard_is_broken(const struct mapguard *guard)
{
    return mapguard_faults(guard) != 0;
}

#endif
