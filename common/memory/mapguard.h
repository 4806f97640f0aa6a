/*
 * mapguard: mappings whose file may lose its bytes while they are mapped: a segment that its client
 * truncates, a data file that somebody shortens or whose disk fails. Touching what is gone raises
 * SIGBUS, which ends the process. With the handler of this module installed, a page of zeros takes
 * the place of the one that is gone, the guard of the mapping counts the fault, and the access goes
 * on: whoever copied out of the mapping, or into it, asks afterwards whether the mapping held.
 *
 *     uint32_t mark = mapguard_mark(guard);
 *     copy ...
 *     if (!mapguard_held(guard, mark)) ... the copy may have zeros in it, or be lost
 *
 * Before any fault in the process mark and held cost one load of a word that nobody writes. A
 * library only adds its mappings; the program installs the handler, or does not: then everything is
 * as without. A SIGBUS elsewhere, or one that was sent, ends the process, after a line on standard
 * error.
 *
 * Threads: any, also the handler; guards are made and ended by whoever makes and ends the mapping.
 * Threads that block SIGBUS are ended with the process by a fault: leave it open.
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
    atomic_bool told; /* for the owner: somebody has said so in the log */
};

/* Faults of all guarded mappings since the start. */
extern _Atomic uint32_t mapguard_all_faults;

/* Installs the handler of SIGBUS, for the program's name in the line about a fault elsewhere (it
 * must stay). */
void mapguard_install(const char *program);

/* The guard of a mapping; NULL: out of memory. NULL is a guard without faults for all calls
 * below. */
struct mapguard *mapguard_add(void *start, size_t bytes);

/* Before the mapping is unmapped. */
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

/* No fault since the mark. */
static inline bool mapguard_held(const struct mapguard *guard, uint32_t mark)
{
    return mapguard_faults(guard) == mark;
}

/* The mapping has lost bytes: for good. */
static inline bool mapguard_is_broken(const struct mapguard *guard)
{
    return mapguard_faults(guard) != 0;
}

#endif
