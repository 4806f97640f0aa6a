/*
 * session_table: the inside of session.c and session_end.c: the slots of sessions and their states.
 * Only these two include it.
 */
#ifndef MQKV_SERVERK_SESSION_SESSION_TABLE_H
#define MQKV_SERVERK_SESSION_SESSION_TABLE_H

#include <pthread.h>

#include "serverk/session/session.h"

/* An id is the slot in its low bits and the generation above: SLOT_BITS + GENERATION_BITS = 32. */
#define SLOT_BITS       12u /* 4096: SESSION_MAX_SESSIONS */
#define GENERATION_BITS 20u
#define MAX_CAPACITY    (1u << SLOT_BITS)

/* A state is, from the top: generation, phase (32 bits together), holds (32 bits). A thread that
 * looks for a session adds a hold before it knows what the slot is, and takes it away again if it
 * is not the session it wants; so holds may flicker in any phase, and phases are changed by adding
 * a difference above the holds. The table itself has one hold of a LIVE session. */
enum phase { FREE = 0, LIVE = 1, CLOSING = 2, DISPOSING = 3 };
#define PHASE_BITS 2u
#define HOLDS_MASK 0xffffffffu

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

/* Ends of processes that may be noticed before the BYEs that wait in the lanes; a few lanes
 * full. */
#define DIED_REMEMBERED 64u

struct past_session {
    uint32_t id; /* 0: none */
    uint64_t cookie;
};

struct session_table {
    struct session *slots;
    unsigned capacity;
    struct lanes *lanes;
    int watch_epoll;
    struct fragment_budget *budget;

    pthread_mutex_t lock; /* free_slots, died */
    uint16_t free_slots[MAX_CAPACITY];
    unsigned free_count;
    struct past_session died[DIED_REMEMBERED]; /* a ring of the latest */
    unsigned died_next;

    uint64_t final_bye; /* secret request_id of what session_client_died sends */
    session_death_listener death_listener;
    void *death_context;

    _Atomic uint64_t last_fault_ms; /* when one was last logged as a warning */
    _Atomic uint64_t opened;
    _Atomic uint64_t ended[SESSION_END_REASONS];
};

/* Whether session_retire was called for it. */
static inline bool is_retired(const struct session *session)
{
    return atomic_load_explicit(&session->counted, memory_order_relaxed) != SESSION_END_REASONS;
}

/* Holds the slot's session. False: it is not live. */
bool session_hold_if_live(struct session_table *table, struct session *session);

#endif
