#include "serverk/session/session_table.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "serverk/session/audit.h"
#include "serverk/session/session_slots.h"
#include "wire/message.h"
#include "wire/queue.h"

/* How long the daemon tries to send the BYE of a dead client to a full lane. */
#define FINAL_BYE_MS 1000u

/* A client that faults again and again does not fill the log: a warning a second. */
static bool fault_is_news(struct session_table *table)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t last_ms = atomic_load(&table->last_fault_ms);
    return now_ms - last_ms >= 1000 &&
           atomic_compare_exchange_strong(&table->last_fault_ms, &last_ms, now_ms);
}

/* An ended session waits for nothing more from its client. Its pidfd would stay readable, and keep
 * the watcher awake, for as long as somebody holds the session; and a process that was forked
 * meanwhile has a copy of it, so that closing ours would not take it out of the set. The caller
 * holds the session. */
static void unwatch_process(const struct session_table *table, const struct session *session)
{
    if (session->pidfd >= 0)
        epoll_ctl(table->watch_epoll, EPOLL_CTL_DEL, session->pidfd, NULL);
}

void session_bye_after_end(struct session_table *table, uint32_t id, uint64_t cookie)
{
    pthread_mutex_lock(&table->lock);
    for (unsigned i = 0; i < DIED_REMEMBERED; i++) {
        struct past_session *died = &table->died[i];
        if (died->id != id || died->cookie != cookie)
            continue;
        *died = (struct past_session){0};
        atomic_fetch_sub(&table->ended[SESSION_DIED], 1);
        atomic_fetch_add(&table->ended[SESSION_BYE], 1);
    }
    pthread_mutex_unlock(&table->lock);
}

/* LIVE -> CLOSING. False: it was not. */
static bool begin_closing(struct session *session)
{
    uint64_t state = atomic_load(&session->state);
    do {
        if (phase_of(state) != LIVE)
            return false;
    } while (!atomic_compare_exchange_weak(&session->state, &state,
                                           state + tag(generation_of(state), CLOSING) -
                                               tag(generation_of(state), LIVE)));
    return true;
}

bool session_retire(struct session_table *table, struct session *session,
                    enum session_end_reason reason)
{
    unsigned counted = SESSION_END_REASONS;
    KV_ASSERT(reason < SESSION_END_REASONS);
    if (atomic_compare_exchange_strong(&session->counted, &counted, reason)) {
        unwatch_process(table, session);
        atomic_fetch_add(&table->ended[reason], 1);
        return true;
    }
    if (reason == SESSION_BYE && (counted == SESSION_DIED || counted == SESSION_ABANDONED) &&
        atomic_compare_exchange_strong(&session->counted, &counted, SESSION_BYE)) {
        atomic_fetch_sub(&table->ended[counted], 1);
        atomic_fetch_add(&table->ended[SESSION_BYE], 1);
    }
    return false;
}

/* Ends a session that begin_closing has begun to close. */
static void finish_ending(struct session_table *table, struct session *session,
                          enum session_end_reason reason)
{
    KV_ASSERT(phase_of(atomic_load(&session->state)) == CLOSING);
    session->client_died = reason == SESSION_DIED; /* read by the last to let go */
    if (reason != SESSION_BYE && reason != SESSION_SHUTDOWN)
        atomic_store(&session->lost, true);
    session_retire(table, session, reason);
    if (atomic_load(&session->audited))
        audit_ended(session->id, session->uid, session->pid, session_end_reason_name(reason));
    if (reason == SESSION_FAULT && fault_is_news(table))
        log_warn("session %u of process %ld ended: it has no room for its replies, or sent more "
                 "messages than it has credits for",
                 session->id, (long)session->pid);
    else if (reason == SESSION_SEGMENT && fault_is_news(table))
        log_warn(
            "session %u of process %ld, uid %lu, ended: it has shortened its shared-memory segment "
            "while the server used it",
            session->id, (long)session->pid, (unsigned long)session->uid);
    else
        log_debug("session %u of process %ld ended: %s", session->id, (long)session->pid,
                  session_end_reason_name(reason));
    session_release(table, session); /* the table's reference */
}

void session_end(struct session_table *table, struct session *session,
                 enum session_end_reason reason)
{
    /* The end of a process may be noticed before a worker takes its BYE: under the lock, so that
     * the BYE finds either the session or what is remembered of it. */
    if (reason == SESSION_DIED)
        pthread_mutex_lock(&table->lock);
    bool closed = begin_closing(session);
    if (reason == SESSION_DIED) {
        if (closed && session_retire(table, session, SESSION_DIED))
            table->died[table->died_next++ % DIED_REMEMBERED] =
                (struct past_session){session->id, session->cookie};
        pthread_mutex_unlock(&table->lock);
    }
    if (closed)
        finish_ending(table, session, reason);
}

bool session_table_admits(const struct session_table *table, uid_t uid)
{
    return uid == geteuid() || uid == 0 || lanes_let_others_in(table->lanes);
}

/* Sends the last word to the session's lane, where it comes behind all that the client sent.
 * Returns whether there was room for it. */
static bool send_final_bye(struct session_table *table, const struct session *session)
{
    uint8_t message[WIRE_HEADER_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = WIRE_BYE,
                                 .session = session->id,
                                 .request_id = table->final_bye,
                                 .secret = session->cookie};
    struct timespec at_once = {0}; /* the lane may be one whose receivers block */
    wire_put_header(&cursor, &header);
    return mq_timedsend(lanes_queue(table->lanes, session->assignment.queue), (const char *)message,
                        sizeof message, 0, &at_once) == 0;
}

bool session_final_bye(const struct session_table *table, const struct session *session,
                       uint64_t request_id, enum session_end_reason *reason)
{
    if (request_id != table->final_bye)
        return false;
    unsigned said = atomic_load(&session->final_bye);
    *reason = said < SESSION_END_REASONS ? (enum session_end_reason)said : SESSION_BYE;
    return true;
}

void session_set_death_listener(struct session_table *table, session_death_listener death_listener,
                                void *context)
{
    table->death_listener = death_listener;
    table->death_context = context;
}

/* Ends the session when what waits in its lane is executed. */
static void end_after_queued(struct session_table *table, struct session *session,
                             enum session_end_reason reason)
{
    unsigned none = SESSION_END_REASONS;
    if (!atomic_compare_exchange_strong(&session->final_bye, &none, reason) ||
        send_final_bye(table, session))
        return;
    if (!table->death_listener) {
        session_end(table, session, reason);
        return;
    }
    atomic_store(&session->final_bye_until_ms, clock_monotonic_coarse_ms() + FINAL_BYE_MS);
    table->death_listener(table->death_context, 0);
}

struct due_byes {
    struct session_table *table;
    uint64_t now_ms;
    bool some_left;
};

static bool send_due_bye(void *context, struct session *session)
{
    struct due_byes *due = context;
    uint64_t until_ms = atomic_load(&session->final_bye_until_ms);
    if (until_ms == 0)
        return true;
    if (send_final_bye(due->table, session))
        atomic_store(&session->final_bye_until_ms, 0);
    else if (due->now_ms >= until_ms)
        session_end(due->table, session, (enum session_end_reason)atomic_load(&session->final_bye));
    else
        due->some_left = true;
    return true;
}

bool session_send_due_byes(struct session_table *table)
{
    struct due_byes due = {.table = table, .now_ms = clock_monotonic_coarse_ms()};
    session_each(table, send_due_bye, &due);
    return due.some_left;
}

void session_client_died(struct session_table *table, uint32_t id)
{
    struct session *session = &table->slots[id & (SESSION_MAX_SESSIONS - 1)];
    if (!session_retain_if_live(table, session))
        return;
    if (session->id == id && !is_retired(session)) {
        unwatch_process(table, session);
        end_after_queued(table, session, SESSION_DIED);
    }
    session_release(table, session);
}

/* Processes that are not seen ------------------------------------------------------------------ */

/* How often their locks are looked at. */
#define UNSEEN_PERIOD_MS 500u

static void set_unseen_timer(const struct session_table *table, long nanoseconds)
{
    struct timespec every = {.tv_nsec = nanoseconds};
    struct itimerspec times = {every, every};
    timerfd_settime(table->unseen_timer, 0, &times, NULL);
}

/* One that runs is not begun anew: with sessions more often than its period it would never be
 * due. */
void session_start_unseen_timer(struct session_table *table)
{
    if (!atomic_exchange(&table->unseen_timer_runs, true))
        set_unseen_timer(table, UNSEEN_PERIOD_MS * 1000000L);
}

int session_unseen_timer(const struct session_table *table)
{
    return table->unseen_timer;
}

struct unseen_search {
    struct session_table *table;
    bool found;
};

static bool end_if_unlocked(void *context, struct session *session)
{
    struct unseen_search *search = context;
    if (session->pidfd >= 0)
        return true;
    search->found = true;
    if (wire_queue_owner(session->reply_queue) == 0)
        end_after_queued(search->table, session, SESSION_DIED);
    return true;
}

/* A session starts the timer once it can be found: this search finds one that found it running. */
void session_unseen_tick(struct session_table *table)
{
    uint64_t expirations;
    struct unseen_search search = {.table = table};
    if (read(table->unseen_timer, &expirations, sizeof expirations) < 0)
        return;
    set_unseen_timer(table, 0);
    atomic_store(&table->unseen_timer_runs, false);
    session_each(table, end_if_unlocked, &search);
    if (search.found)
        session_start_unseen_timer(table);
}

/* Sessions that nobody holds ------------------------------------------------------------------- */

struct abandoned_search {
    struct session_table *table;
    pid_t pid;
};

static bool end_if_abandoned(void *context, struct session *session)
{
    const struct abandoned_search *search = context;
    if ((search->pid != 0 && search->pid != session->pid) ||
        wire_queue_owner(session->reply_queue) != 0)
        return true;
    if (search->pid == 0)
        session_end(search->table, session, SESSION_ABANDONED);
    else
        end_after_queued(search->table, session, SESSION_ABANDONED);
    return true;
}

void session_end_abandoned(struct session_table *table, pid_t pid)
{
    struct abandoned_search search = {table, pid};
    session_each(table, end_if_abandoned, &search);
}
