/*
 * session_state: the word that a session's life is in, and the id that is made with it. For the
 * files that implement session.h and session_table.h alone.
 */
#ifndef MQKV_SERVERK_SESSION_SESSION_STATE_H
#define MQKV_SERVERK_SESSION_SESSION_STATE_H

#include <stdint.h>

/* An id is the slot in its low bits and the generation above: SLOT_BITS + GENERATION_BITS = 32. */
#define SLOT_BITS       12u /* 4096: SESSION_MAX_SESSIONS */
#define GENERATION_BITS 20u
#define MAX_CAPACITY    (1u << SLOT_BITS)

/* A state is, from the top: generation, phase (32 bits together), references (32 bits). A thread
 * that looks for a session adds a reference before it knows what the slot is, and takes it away
 * again if that is not the session it wants; so references may flicker in any phase, and phases are
 * changed by adding a difference above the references. The table itself has one reference to a LIVE
 * session. */
enum phase { FREE = 0, LIVE = 1, CLOSING = 2, DISPOSING = 3 };
#define PHASE_BITS      2u
#define REFERENCES_MASK 0xffffffffu

_Static_assert(SLOT_BITS + GENERATION_BITS == 32, "they fill an id");
_Static_assert(PHASE_BITS + GENERATION_BITS <= 32, "they fit above the references");
_Static_assert(DISPOSING < 1u << PHASE_BITS, "a phase fits its bits");

static inline uint64_t tag(uint32_t generation, enum phase phase)
{
    return (uint64_t)((generation << PHASE_BITS) | phase) << 32;
}

static inline enum phase phase_of(uint64_t state)
{
    return (enum phase)((state >> 32) & ((1u << PHASE_BITS) - 1));
}

static inline uint32_t generation_of(uint64_t state)
{
    return (uint32_t)(state >> (32 + PHASE_BITS));
}

/* Threads that hold the slot, or look whether it is what they want; with the table's reference to a
 * LIVE session. */
static inline uint32_t references_of(uint64_t state)
{
    return (uint32_t)(state & REFERENCES_MASK);
}

#endif
