#include "serverk/session/session_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/memory/mapguard.h"
#include "common/numbers/random.h"
#include "serverk/session/session_hold.h"
#include "serverk/session/session_slots.h"
#include "wire/message.h"
#include "wire/queue.h"

_Static_assert(SESSION_MAX_SESSIONS == MAX_CAPACITY, "a slot's number fits an id");

struct session_table *session_table_create(unsigned capacity, struct lanes *lanes, int watch_epoll,
                                           struct fragment_budget *budget)
{
    if (capacity > MAX_CAPACITY)
        capacity = MAX_CAPACITY;
    struct session_table *table = calloc(1, sizeof *table);
    struct session *slots =
        aligned_alloc(_Alignof(struct session), capacity * sizeof(struct session));
    int unseen_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (!table || !slots || unseen_timer < 0) {
        if (unseen_timer >= 0)
            close(unseen_timer);
        free(table);
        free(slots);
        return NULL;
    }
    memset(slots, 0, capacity * sizeof *slots);
    table->slots = slots;
    table->capacity = capacity;
    table->lanes = lanes;
    table->watch_epoll = watch_epoll;
    table->unseen_timer = unseen_timer;
    table->final_bye = random_secret();
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
    KV_ASSERT(table->free_count == table->capacity); /* nobody holds a session */
    pthread_mutex_destroy(&table->lock);
    close(table->unseen_timer);
    free(table->slots);
    free(table);
}

/* -1: there is none (errno: as session_open says). */
static int take_free_slot(struct session_table *table)
{
    pthread_mutex_lock(&table->lock);
    bool closed = table->is_closed;
    int slot = table->free_count > 0 && !closed ? table->free_slots[--table->free_count] : -1;
    pthread_mutex_unlock(&table->lock);
    if (slot < 0)
        errno = closed ? ESHUTDOWN : EAGAIN;
    return slot;
}

static void return_slot(struct session_table *table, const struct session *session)
{
    pthread_mutex_lock(&table->lock);
    KV_ASSERT(table->free_count < table->capacity);
    table->free_slots[table->free_count++] = (uint16_t)(session - table->slots);
    pthread_mutex_unlock(&table->lock);
}

bool session_table_close(struct session_table *table)
{
    pthread_mutex_lock(&table->lock);
    table->is_closed |= table->free_count == table->capacity;
    bool closed = table->is_closed;
    pthread_mutex_unlock(&table->lock);
    return closed;
}

/* Notes which queue the session's is. Where it cannot be examined, it is taken for no other
 * session's. */
static void note_queue(struct session *session)
{
    struct stat facts;
    bool known = fstat((int)session->reply_queue, &facts) == 0;
    session->reply_device = known ? facts.st_dev : 0;
    session->reply_inode = known ? facts.st_ino : 0;
}

/* Sees to it that the end of the process, if it is seen, will be noticed. False: that cannot be. */
static bool watch_process(const struct session_table *table, int pidfd, uint32_t id)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = id}};
    return pidfd < 0 || epoll_ctl(table->watch_epoll, EPOLL_CTL_ADD, pidfd, &event) == 0;
}

struct session *session_open(struct session_table *table, const struct session_start *start)
{
    int slot = take_free_slot(table);
    if (slot < 0)
        return NULL;
    struct session *session = &table->slots[slot];
    uint64_t state = atomic_load(&session->state);
    uint32_t generation = generation_of(state);
    uint32_t id = (generation << SLOT_BITS) | (uint32_t)slot;
    KV_ASSERT(phase_of(state) == FREE);
    KV_ASSERT(generation != 0); /* id 0 means: no session */
    if (!watch_process(table, start->pidfd, id)) {
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
    session->ring = start->ring;
    session->pid = start->pid;
    session->named_pid = start->named_pid;
    session->uid = start->uid;
    session->access = start->access;
    session->threads = start->threads;
    struct lane_request request = {.uid = start->uid,
                                   .reply_depth = start->reply_depth,
                                   .knows_guests = start->knows_guests,
                                   .reads_only = start->reads_only};
    session->assignment = lanes_assign(table->lanes, &request);
    atomic_store(&session->lane_closed, !session->assignment.opening);
    atomic_store(&session->held_replies, 0);
    atomic_store(&session->segment, NULL);
    atomic_store(&session->hold, NULL);
    fragments_init(&session->fragments, start->uid);
    session->pidfd = start->pidfd;
    strcpy(session->reply_name, start->reply_name);
    note_queue(session);
    session->opened_ms = clock_monotonic_coarse_ms();
    session->client_died = false;
    atomic_store(&session->lost, false);
    atomic_store(&session->final_bye, SESSION_END_REASONS);
    atomic_store(&session->audited, true);
    atomic_store(&session->final_bye_until_ms, 0);
    atomic_store(&session->counted, SESSION_END_REASONS);
    session->segment_count = 0;
    session->segment_name[0] = '\0';
    atomic_fetch_add(&table->opened, 1);
    /* Two references: the table's and the caller's. */
    atomic_fetch_add(&session->state, tag(generation, LIVE) - tag(generation, FREE) + 2);
    if (session->pidfd < 0)
        session_start_unseen_timer(table);
    return session;
}

struct session *session_acquire(struct session_table *table, uint32_t id, uint64_t cookie)
{
    uint32_t slot = id & (MAX_CAPACITY - 1);
    if (slot >= table->capacity)
        return NULL;
    struct session *session = &table->slots[slot];
    uint64_t state = atomic_fetch_add_explicit(&session->state, 1, memory_order_acquire);
    if ((state & ~(uint64_t)REFERENCES_MASK) == tag(id >> SLOT_BITS, LIVE) &&
        session->cookie == cookie)
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

/* Returns whether names with its pid are nobody else's: not those of a client in another PID
 * namespace, where its pid may be that of another process here. */
static bool owns_names(const struct session *session)
{
    return session->pid == session->named_pid;
}

/* Tells the client that nothing more comes, behind all that was sent to it: by a message where
 * there is room for it, and by its ring. */
static void say_ended(const struct session *session)
{
    uint8_t message[WIRE_HEADER_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = WIRE_REFUSED,
                                 .status = KV_NO_SESSION,
                                 .session = session->id,
                                 .secret = session->nonce};
    wire_put_header(&cursor, &header);
    session_put(session, message, write_cursor_used(&cursor));
    if (session->ring)
        wire_ring_end(session->ring);
}

/* Nobody holds the session, and nobody can find it. */
static void dispose_of_session(struct session_table *table, struct session *session)
{
    KV_ASSERT(phase_of(atomic_load(&session->state)) == DISPOSING);
    KV_ASSERT(is_retired(session));
    KV_ASSERT(atomic_load(&session->held_replies) == 0); /* each has a reference */
    KV_ASSERT(atomic_load(&session->aside) == 0);        /* likewise */
    if (session->client_died) { /* what it did not come to unlink is removed */
        bool is_linked = !wire_queue_unlinked(session->reply_queue); /* the name means it, then */
        if (is_linked && session->ring)
            shm_unlink(session->reply_name);
        else if (is_linked)
            mq_unlink(session->reply_name);
        if (session->segment_name[0] && owns_names(session))
            shm_unlink(session->segment_name);
        if (table->death_listener && owns_names(session))
            table->death_listener(table->death_context, session->pid);
    }
    unsigned reason = atomic_load(&session->counted);
    if (reason == SESSION_FAULT || reason == SESSION_SEGMENT || reason == SESSION_KILLED)
        say_ended(session);
    lanes_give_back(table->lanes, &session->assignment, atomic_load(&session->lane_closed));
    if (session->ring) {
        uint64_t found = 0, absent = 0;
        wire_ring_add_reads(session->ring, &found, &absent);
        atomic_fetch_add(&table->reads_found, found);
        atomic_fetch_add(&table->reads_absent, absent);
    }
    wire_ring_close(session->ring);
    session_close_queue(session->reply_queue);
    if (session->pidfd >= 0)
        close(session->pidfd);
    for (unsigned i = 0; i < session->segment_count; i++)
        wire_segment_close(session->segments[i]);
    fragments_clear(&session->fragments, table->budget);
    session_hold_free(atomic_load(&session->hold));

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
    KV_ASSERT(references_of(before) > 0);
    KV_ASSERT(phase_of(before) != LIVE || references_of(before) > 1); /* the table's stays */
    if (references_of(before) != 1 || phase_of(before) != CLOSING)
        return;
    /* If a reference flickers in between, its owner comes here too and does it. */
    uint64_t idle = before - 1;
    uint64_t disposing = tag(generation_of(before), DISPOSING);
    if (atomic_compare_exchange_strong(&session->state, &idle, disposing))
        dispose_of_session(table, session);
}

bool session_retain_if_live(struct session_table *table, struct session *session)
{
    if (phase_of(atomic_load(&session->state)) != LIVE) /* not before earlier stores: the mode */
        return false;
    uint64_t state = atomic_fetch_add_explicit(&session->state, 1, memory_order_acquire);
    if (phase_of(state) == LIVE)
        return true;
    session_release(table, session);
    return false;
}

void session_each(struct session_table *table,
                  bool (*visit)(void *context, struct session *session), void *context)
{
    bool go_on = true;
    for (unsigned slot = 0; slot < table->capacity && go_on; slot++) {
        struct session *session = &table->slots[slot];
        if (!session_retain_if_live(table, session))
            continue;
        if (!is_retired(session))
            go_on = visit(context, session);
        session_release(table, session);
    }
}

bool session_segment_is_broken(const struct session *session)
{
    const struct wire_segment *segment =
        mapguard_count() != 0 ? atomic_load(&session->segment) : NULL;
    return segment && wire_segment_is_broken(segment);
}

/* What a thread did with the client's segment before a reply happens before what another does with
 * it for the client's next request. The kernel's queues and the client order that, which the thread
 * sanitizer cannot see: for it alone, the reply releases what session_acquire acquires. */
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
    bool sent = session_put(session, message, size);
    if (session->ring && mapguard_count() != 0 && wire_ring_is_broken(session->ring))
        session_end(table, session, SESSION_SEGMENT);
    else if (!sent)
        session_end(table, session, SESSION_FAULT);
    return sent;
}

void session_count_refusal(struct session_table *table, enum kv_status status)
{
    KV_ASSERT(status != KV_OK && status < KV_STATUS_COUNT);
    atomic_fetch_add(&table->refused[status], 1);
}

/* A session that ends meanwhile may be in neither sum: a counter does not go back. */
static uint64_t session_raise_told(_Atomic uint64_t *told, uint64_t sum)
{
    uint64_t before = atomic_load(told);
    while (before < sum && !atomic_compare_exchange_weak(told, &before, sum))
        ;
    return before < sum ? sum : before;
}

void session_reads(struct session_table *table, struct session_reads *reads)
{
    uint64_t found = atomic_load(&table->reads_found), absent = atomic_load(&table->reads_absent);
    for (unsigned slot = 0; slot < table->capacity; slot++) {
        struct session *session = &table->slots[slot];
        if (!session_retain_if_live(table, session))
            continue;
        if (session->ring)
            wire_ring_add_reads(session->ring, &found, &absent);
        session_release(table, session);
    }
    reads->found = session_raise_told(&table->told_found, found);
    reads->absent = session_raise_told(&table->told_absent, absent);
}

void session_counts(const struct session_table *table, struct session_counts *counts)
{
    for (unsigned status = 0; status < KV_STATUS_COUNT; status++)
        counts->refused[status] = atomic_load(&table->refused[status]);
    uint64_t ended = 0;
    for (unsigned reason = 0; reason < SESSION_END_REASONS; reason++)
        ended += counts->ended[reason] = atomic_load(&table->ended[reason]);
    counts->opened = atomic_load(&table->opened); /* last: each of those that ended is in it */
    KV_ASSERT(counts->opened >= ended);
    counts->live = counts->opened - ended;
}
