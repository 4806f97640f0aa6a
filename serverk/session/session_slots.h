/*
 * session_slots: the inside of session_table.c and session_end.c: the slots of sessions. Only these
 * two include it.
 */
#ifndef MQKV_SERVERK_SESSION_SESSION_SLOTS_H
#define MQKV_SERVERK_SESSION_SESSION_SLOTS_H

#include <pthread.h>

#include "serverk/session/session.h"
#include "serverk/session/session_state.h"

_Static_assert(MAX_CAPACITY - 1 <= UINT16_MAX, "a slot's number fits free_slots");

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
    int unseen_timer; /* runs while unseen sessions may live */
    _Atomic bool unseen_timer_runs;
    struct fragment_budget *budget;

    pthread_mutex_t lock; /* free_slots, is_closed, died */
    uint16_t free_slots[MAX_CAPACITY];
    unsigned free_count;
    bool is_closed;                            /* nobody gets a slot any more */
    struct past_session died[DIED_REMEMBERED]; /* a ring of the latest */
    unsigned died_next;

    uint64_t final_bye; /* secret request_id of what session_client_died sends */
    session_death_listener death_listener;
    void *death_context;

    _Atomic uint64_t last_fault_ms; /* when one was last logged as a warning */
    _Atomic uint64_t opened;
    _Atomic uint64_t refused[KV_STATUS_COUNT];
    _Atomic uint64_t ended[SESSION_END_REASONS];
    _Atomic uint64_t reads_found, reads_absent; /* in place, by clients of sessions that ended */
    _Atomic uint64_t told_found, told_absent;   /* the most that session_reads has said */
};

/* Returns whether session_retire was called for it. */
static inline bool is_retired(const struct session *session)
{
    return atomic_load_explicit(&session->counted, memory_order_relaxed) != SESSION_END_REASONS;
}

/* Makes the timer run, if it does not. */
void session_start_unseen_timer(struct session_table *table);

/* Adds a reference to the slot's session. False: it is not live. */
bool session_retain_if_live(struct session_table *table, struct session *session);

#endif
