#include "serverk/session/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "wire/message.h"
#include "wire/queue.h"

/* An id is the slot in its low bits and the generation above: SLOT_BITS + GENERATION_BITS = 32. */
#define SLOT_BITS       12u /* 4096: SESSION_MAX_SESSIONS */
#define GENERATION_BITS 20u
#define MAX_CAPACITY    (1u << SLOT_BITS)

/* A state is, from the top: generation, phase (32 bits together), holds (32 bits). A thread that
 * looks for a session adds a hold before it knows what the slot is, and takes it away again if it is
 * not the session it wants; so holds may flicker in any phase, and phases are changed by adding a
 * difference above the holds. The table itself has one hold of a LIVE session. */
enum phase { FREE = 0, LIVE = 1, CLOSING = 2, DISPOSING = 3 };
#define PHASE_BITS 2u
#define HOLDS_MASK 0xffffffffu

static uint64_t tag(uint32_t generation, enum phase phase)
{
    return (uint64_t)((generation << PHASE_BITS) | phase) << 32;
}

static enum phase phase_of(uint64_t state)
{
    return (enum phase)((state >> 32) & ((1u << PHASE_BITS) - 1));
}

static uint32_t generation_of(uint64_t state)
{
    return (uint32_t)(state >> (32 + PHASE_BITS));
}

/* Ends of processes that may be noticed before the BYEs that wait in the lanes; a few lanes full. */
#define DIED_REMEMBERED 64u

/* So long room is looked for in a lane that is full. */
#define LAST_WORD_MS 1000u

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

    uint64_t last_word; /* secret request_id of what session_client_died sends */
    session_mourner mourner;
    void *mourner_context;

    _Atomic uint64_t last_fault_ms; /* when one was last logged as a warning */
    _Atomic uint64_t opened;
    _Atomic uint64_t ended[SESSION_END_REASONS];
};

struct session_table *session_table_create(unsigned capacity, struct lanes *lanes, int watch_epoll,
                                           struct fragment_budget *budget)
{
    if (capacity > MAX_CAPACITY)
        capacity = MAX_CAPACITY;
    struct session_table *table = calloc(1, sizeof *table);
    struct session *slots =
        aligned_alloc(_Alignof(struct session), capacity * sizeof(struct session));
    if (!table || !slots) {
        free(table);
        free(slots);
        return NULL;
    }
    memset(slots, 0, capacity * sizeof *slots);
    table->slots = slots;
    table->capacity = capacity;
    table->lanes = lanes;
    table->watch_epoll = watch_epoll;
    table->last_word = random_secret();
    table->budget = budget;
    pthread_mutex_init(&table->lock, NULL);
    for (unsigned slot = capacity; slot-- > 0;) {
        atomic_init(&slots[slot].state, tag(1, FREE));
        table->free_slots[table->free_count++] = (uint16_t)slot;
    }
    return table;
}

unsigned session_table_capacity(const struct session_table *table)
{
    return table->capacity;
}

static bool end_for_shutdown(void *table, struct session *session)
{
    session_end(table, session, SESSION_SHUTDOWN);
    return true;
}

void session_table_free(struct session_table *table)
{
    if (!table)
        return;
    session_each(table, end_for_shutdown, table);
    pthread_mutex_destroy(&table->lock);
    free(table->slots);
    free(table);
}

static int take_free_slot(struct session_table *table)
{
    pthread_mutex_lock(&table->lock);
    int slot = table->free_count > 0 ? table->free_slots[--table->free_count] : -1;
    pthread_mutex_unlock(&table->lock);
    return slot;
}

static void return_slot(struct session_table *table, const struct session *session)
{
    pthread_mutex_lock(&table->lock);
    table->free_slots[table->free_count++] = (uint16_t)(session - table->slots);
    pthread_mutex_unlock(&table->lock);
}

/* Where it can not be examined, it is taken for no other one's. */
static void note_queue(struct session *session)
{
    struct stat facts;
    bool known = fstat((int)session->reply_queue, &facts) == 0;
    session->reply_device = known ? facts.st_dev : 0;
    session->reply_inode = known ? facts.st_ino : 0;
}

struct session *session_open(struct session_table *table, const struct session_start *start)
{
    int slot = take_free_slot(table);
    if (slot < 0) {
        errno = EAGAIN;
        return NULL;
    }
    struct session *session = &table->slots[slot];
    uint32_t generation = generation_of(atomic_load(&session->state));
    uint32_t id = (generation << SLOT_BITS) | (uint32_t)slot;
    struct epoll_event watch = {.events = EPOLLIN, .data = {.u64 = id}};
    if (epoll_ctl(table->watch_epoll, EPOLL_CTL_ADD, start->pidfd, &watch) != 0) {
        int error_number = errno;
        return_slot(table, session);
        errno = error_number;
        return NULL;
    }
    session->id = id;
    session->reply_bytes = start->reply_bytes;
    session->cookie = random_secret();
    session->nonce = start->nonce;
    session->reply_queue = start->reply_queue;
    session->pid = start->pid;
    session->uid = start->uid;
    session->threads = start->threads;
    struct lane_request request = {
        .uid = start->uid, .reply_depth = start->reply_depth, .knows_guests = start->knows_guests};
    session->assignment = lanes_assign(table->lanes, &request);
    atomic_store(&session->lane_closed, !session->assignment.opening);
    atomic_store(&session->segment, NULL);
    fragments_init(&session->fragments, start->uid);
    session->pidfd = start->pidfd;
    strcpy(session->reply_name, start->reply_name);
    note_queue(session);
    session->client_died = false;
    atomic_store(&session->lost, false);
    atomic_store(&session->last_word, SESSION_END_REASONS);
    atomic_store(&session->word_until_ms, 0);
    atomic_store(&session->counted, SESSION_END_REASONS);
    session->segment_count = 0;
    session->segment_name[0] = '\0';
    atomic_fetch_add(&table->opened, 1);
    /* Two holds: the table's and the caller's. */
    atomic_fetch_add(&session->state, tag(generation, LIVE) - tag(generation, FREE) + 2);
    return session;
}

struct session *session_acquire(struct session_table *table, uint32_t id, uint64_t cookie)
{
    uint32_t slot = id & (MAX_CAPACITY - 1);
    if (slot >= table->capacity)
        return NULL;
    struct session *session = &table->slots[slot];
    uint64_t state = atomic_fetch_add_explicit(&session->state, 1, memory_order_acquire);
    if ((state & ~(uint64_t)HOLDS_MASK) == tag(id >> SLOT_BITS, LIVE) && session->cookie == cookie)
        return session;
    session_release(table, session);
    return NULL;
}

void session_reopen_lane(struct session_table *table, struct session *session)
{
    if (!atomic_load(&session->lane_closed))
        lanes_reopen(table->lanes, &session->assignment);
}

void session_close_lane(struct session_table *table, struct session *session)
{
    if (!atomic_exchange(&session->lane_closed, true))
        lanes_arrived(table->lanes, &session->assignment);
}

void session_hold(struct session *session)
{
    atomic_fetch_add_explicit(&session->state, 1, memory_order_relaxed);
}

/* Removes what the dead client did not come to unlink. The names hold its pid, so they are nobody
 * else's; and a reply queue that is still linked is the one that the name means. */
static void unlink_leftovers(const struct session *session)
{
    if (!wire_queue_unlinked(session->reply_queue))
        mq_unlink(session->reply_name);
    if (session->segment_name[0])
        shm_unlink(session->segment_name);
}

void session_close_queue(mqd_t reply_queue)
{
    close((int)reply_queue);
}

/* Nobody holds the session, and nobody can find it. */
static void dispose(struct session_table *table, struct session *session)
{
    if (session->client_died) {
        unlink_leftovers(session);
        if (table->mourner)
            table->mourner(table->mourner_context, session->pid);
    }
    lanes_give_back(table->lanes, &session->assignment, atomic_load(&session->lane_closed));
    session_close_queue(session->reply_queue);
    close(session->pidfd);
    for (unsigned i = 0; i < session->segment_count; i++)
        wire_segment_close(session->segments[i]);
    fragments_clear(&session->fragments, table->budget);

    uint32_t generation = generation_of(atomic_load(&session->state));
    uint32_t next = (generation + 1) & ((1u << GENERATION_BITS) - 1);
    if (next == 0)
        next = 1; /* id 0 means: no session */
    atomic_fetch_add(&session->state, tag(next, FREE) - tag(generation, DISPOSING));
    return_slot(table, session);
}

void session_release(struct session_table *table, struct session *session)
{
    uint64_t before = atomic_fetch_sub_explicit(&session->state, 1, memory_order_acq_rel);
    if ((before & HOLDS_MASK) != 1 || phase_of(before) != CLOSING)
        return;
    /* If a hold flickers in between, its owner comes here too and does it. */
    uint64_t idle = before - 1;
    uint64_t disposing = tag(generation_of(before), DISPOSING);
    if (atomic_compare_exchange_strong(&session->state, &idle, disposing))
        dispose(table, session);
}

/* A client that faults again and again does not fill the log: a warning a second. */
static bool fault_is_news(struct session_table *table)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t last_ms = atomic_load(&table->last_fault_ms);
    return now_ms - last_ms >= 1000 &&
           atomic_compare_exchange_strong(&table->last_fault_ms, &last_ms, now_ms);
}

/* An ended session waits for nothing more from its client. Its pidfd would stay readable, and keep the
 * watcher awake, for as long as somebody holds the session; and a process that was forked meanwhile has a
 * copy of it, so that closing ours would not take it out of the set. The caller holds the session. */
static void unwatch(const struct session_table *table, const struct session *session)
{
    epoll_ctl(table->watch_epoll, EPOLL_CTL_DEL, session->pidfd, NULL);
}

/* Holds: lock. */
static void remember_died(struct session_table *table, const struct session *session)
{
    table->died[table->died_next++ % DIED_REMEMBERED] =
        (struct past_session){session->id, session->cookie};
}

void session_said_bye(struct session_table *table, uint32_t id, uint64_t cookie)
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
static bool close_door(struct session *session)
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

static bool is_leaving(const struct session *session)
{
    return atomic_load_explicit(&session->counted, memory_order_relaxed) != SESSION_END_REASONS;
}

bool session_leaves(struct session_table *table, struct session *session,
                    enum session_end_reason reason)
{
    unsigned counted = SESSION_END_REASONS;
    if (atomic_compare_exchange_strong(&session->counted, &counted, reason)) {
        unwatch(table, session);
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

/* The end of a process may be noticed before a worker takes its BYE: under the lock, so that the BYE finds
 * either the session or what is remembered of it. */
static bool close_door_of_dead(struct session_table *table, struct session *session)
{
    pthread_mutex_lock(&table->lock);
    bool closed = close_door(session);
    if (closed && session_leaves(table, session, SESSION_DIED))
        remember_died(table, session);
    pthread_mutex_unlock(&table->lock);
    return closed;
}

void session_end(struct session_table *table, struct session *session,
                 enum session_end_reason reason)
{
    if (reason == SESSION_DIED ? !close_door_of_dead(table, session) : !close_door(session))
        return;
    session->client_died = reason == SESSION_DIED; /* read by the last to let go */
    if (reason != SESSION_BYE && reason != SESSION_SHUTDOWN)
        atomic_store(&session->lost, true);
    session_leaves(table, session, reason);
    if (reason == SESSION_FAULT && fault_is_news(table))
        log_warn("session %u of process %ld ended: it has no room for its replies", session->id,
                 (long)session->pid);
    else if (reason == SESSION_SEGMENT && fault_is_news(table))
        log_warn(
            "session %u of process %ld, uid %lu, ended: it has shortened its shared-memory segment "
            "while the server used it",
            session->id, (long)session->pid, (unsigned long)session->uid);
    else
        log_debug("session %u of process %ld ended: %s", session->id, (long)session->pid,
                  session_end_reason_name(reason));
    session_release(table, session); /* the table's hold */
}

/* Whether the last word found room in the session's lane, where it comes behind all that the client sent. */
static bool send_last_word(struct session_table *table, const struct session *session)
{
    uint8_t message[WIRE_HEADER_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = WIRE_BYE,
                                 .session = session->id,
                                 .request_id = table->last_word,
                                 .secret = session->cookie};
    struct timespec at_once = {0}; /* the lane may be one whose receivers block */
    wire_put_header(&cursor, &header);
    return mq_timedsend(lanes_queue(table->lanes, session->assignment.queue), (const char *)message,
                        sizeof message, 0, &at_once) == 0;
}

bool session_last_word(const struct session_table *table, const struct session *session,
                       uint64_t request_id, enum session_end_reason *reason)
{
    if (request_id != table->last_word)
        return false;
    unsigned said = atomic_load(&session->last_word);
    *reason = said < SESSION_END_REASONS ? (enum session_end_reason)said : SESSION_BYE;
    return true;
}

void session_set_mourner(struct session_table *table, session_mourner mourner, void *context)
{
    table->mourner = mourner;
    table->mourner_context = context;
}

/* Holds the slot's session if it is live. */
static bool hold_if_live(struct session_table *table, struct session *session)
{
    if (phase_of(atomic_load_explicit(&session->state, memory_order_relaxed)) != LIVE)
        return false;
    uint64_t state = atomic_fetch_add_explicit(&session->state, 1, memory_order_acquire);
    if (phase_of(state) == LIVE)
        return true;
    session_release(table, session);
    return false;
}

/* Ends the session when what waits in its lane is executed. */
static void end_behind_the_rest(struct session_table *table, struct session *session,
                                enum session_end_reason reason)
{
    unsigned none = SESSION_END_REASONS;
    if (!atomic_compare_exchange_strong(&session->last_word, &none, reason) ||
        send_last_word(table, session))
        return;
    if (!table->mourner) {
        session_end(table, session, reason);
        return;
    }
    atomic_store(&session->word_until_ms, clock_monotonic_coarse_ms() + LAST_WORD_MS);
    table->mourner(table->mourner_context, 0);
}

struct due_words {
    struct session_table *table;
    uint64_t now_ms;
    bool some_left;
};

static bool send_due_word(void *context, struct session *session)
{
    struct due_words *due = context;
    uint64_t until_ms = atomic_load(&session->word_until_ms);
    if (until_ms == 0)
        return true;
    if (send_last_word(due->table, session))
        atomic_store(&session->word_until_ms, 0);
    else if (due->now_ms >= until_ms)
        session_end(due->table, session, (enum session_end_reason)atomic_load(&session->last_word));
    else
        due->some_left = true;
    return true;
}

bool session_send_due_words(struct session_table *table)
{
    struct due_words due = {.table = table, .now_ms = clock_monotonic_coarse_ms()};
    session_each(table, send_due_word, &due);
    return due.some_left;
}

void session_client_died(struct session_table *table, uint32_t id)
{
    struct session *session = &table->slots[id & (SESSION_MAX_SESSIONS - 1)];
    if (!hold_if_live(table, session))
        return;
    if (session->id == id && !is_leaving(session)) {
        unwatch(table, session);
        end_behind_the_rest(table, session, SESSION_DIED);
    }
    session_release(table, session);
}

void session_each(struct session_table *table,
                  bool (*visit)(void *context, struct session *session), void *context)
{
    bool go_on = true;
    for (unsigned slot = 0; slot < table->capacity && go_on; slot++) {
        struct session *session = &table->slots[slot];
        if (!hold_if_live(table, session))
            continue;
        if (!is_leaving(session))
            go_on = visit(context, session);
        session_release(table, session);
    }
}

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
        end_behind_the_rest(search->table, session, SESSION_ABANDONED);
    return true;
}

void session_end_abandoned(struct session_table *table, pid_t pid)
{
    struct abandoned_search search = {table, pid};
    session_each(table, end_if_abandoned, &search);
}

/* What a thread did with the client's segment before a reply happens before what another does with it
 * for the client's next request. The kernel's queues and the client order that, which the thread
 * sanitizer can not see: for it alone, the reply releases what session_acquire acquires. */
static void tell_thread_sanitizer(struct session *session)
{
#ifdef __SANITIZE_THREAD__
    atomic_fetch_add_explicit(&session->state, 0, memory_order_release);
#else
    (void)session;
#endif
}

bool session_send(struct session_table *table, struct session *session, const void *message,
                  size_t size)
{
    tell_thread_sanitizer(session);
    if (mq_send(session->reply_queue, message, size, 0) == 0)
        return true;
    session_end(table, session, SESSION_FAULT);
    return false;
}

/* Whether nobody but the table and the caller holds the session. Who holds it from now on sees what was
 * stored before. */
static bool is_held_by_caller_alone(struct session *session)
{
    uint64_t state = atomic_fetch_add(&session->state, 0);
    return phase_of(state) == LIVE && (state & HOLDS_MASK) == 2;
}

/* Closes all but the last segment. Holds: fragments.lock. */
static void close_replaced(struct session *session)
{
    unsigned last = session->segment_count - 1;
    for (unsigned i = 0; i < last; i++)
        wire_segment_close(session->segments[i]);
    session->segments[0] = session->segments[last];
    session->segment_count = 1;
}

bool session_add_segment(struct session *session, struct wire_segment *segment, const char *name)
{
    unsigned most =
        wire_segment_is_mapped(segment) ? SESSION_MAX_SEGMENTS : SESSION_MAX_UNMAPPED_SEGMENTS;
    pthread_mutex_lock(&session->fragments.lock);
    if (session->segment_count > 0 && is_held_by_caller_alone(session))
        close_replaced(session);
    bool taken = session->segment_count < most;
    if (taken) {
        session->segments[session->segment_count++] = segment;
        strcpy(session->segment_name, name);
        atomic_store(&session->segment, segment);
        if (is_held_by_caller_alone(session))
            close_replaced(session);
    }
    pthread_mutex_unlock(&session->fragments.lock);
    return taken;
}

void session_counts(const struct session_table *table, struct session_counts *counts)
{
    uint64_t ended = 0;
    for (unsigned reason = 0; reason < SESSION_END_REASONS; reason++)
        ended += counts->ended[reason] = atomic_load(&table->ended[reason]);
    counts->opened = atomic_load(&table->opened); /* last: each of those that ended is in it */
    counts->live = counts->opened - ended;
}

const char *session_end_reason_name(enum session_end_reason reason)
{
    static const char *const names[] = {[SESSION_BYE] = "bye",
                                        [SESSION_DIED] = "died",
                                        [SESSION_SEGMENT] = "segment",
                                        [SESSION_FAULT] = "fault",
                                        [SESSION_ABANDONED] = "abandoned",
                                        [SESSION_REPLACED] = "replaced",
                                        [SESSION_SHUTDOWN] = "shutdown"};
    return names[reason];
}
