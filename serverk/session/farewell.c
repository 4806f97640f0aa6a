#include "serverk/session/farewell.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "serverk/session/orphans.h"

#define TICK_MS 5u

/* Processes that died and are not cleaned up after yet. Of more at once it is only known that there
 * were: what they left is found where it can be listed, else at the next start. */
#define MOURNED 64u

/* A session that waits for its end; held. */
struct leaver {
    struct leaver *next;
    struct session *session;
    enum session_end_reason reason;
};

struct farewells {
    struct session_table *sessions;
    int timer;
    farewell_nudge nudge;
    void *nudge_context;

    _Atomic unsigned waiting; /* leavers; changed under the lock */
    pthread_mutex_t lock;     /* all that follows, but the pulses */
    bool armed;               /* the timer */
    bool words_due;           /* session_send_due_byes is to be called */
    struct leaver *leaving;   /* for whom `seen` was noted */
    struct leaver *next;      /* who came later */
    uint32_t next_queues;
    pid_t mourned[MOURNED];
    unsigned mourned_count;
    bool more_died;

    unsigned receivers; /* without the one that stands in for them, which has a pulse, too */
    uint64_t *seen;     /* by receiver: the odd beat that has to end; 0: none */
    struct farewell_pulse pulses[];
};

static void free_parts(struct farewells *farewells)
{
    if (farewells->timer >= 0)
        close(farewells->timer);
    pthread_mutex_destroy(&farewells->lock);
    free(farewells->seen);
    free(farewells);
}

struct farewells *farewells_create(unsigned receivers, struct session_table *sessions)
{
    unsigned pulses = receivers + 1;
    size_t size = sizeof(struct farewells) + pulses * sizeof(struct farewell_pulse);
    struct farewells *farewells = aligned_alloc(_Alignof(struct farewells), size);
    if (!farewells)
        return NULL;
    *farewells = (struct farewells){.sessions = sessions, .receivers = receivers};
    pthread_mutex_init(&farewells->lock, NULL);
    farewells->seen = calloc(pulses, sizeof *farewells->seen);
    farewells->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    for (unsigned i = 0; i < pulses; i++)
        farewells->pulses[i] =
            (struct farewell_pulse){.waiting = &farewells->waiting, .farewells = farewells};
    if (farewells->seen && farewells->timer >= 0)
        return farewells;
    free_parts(farewells);
    return NULL;
}

int farewells_timer(const struct farewells *farewells)
{
    return farewells->timer;
}

void farewells_set_nudge(struct farewells *farewells, farewell_nudge nudge, void *context)
{
    farewells->nudge = nudge;
    farewells->nudge_context = context;
}

uint64_t farewells_progress(const struct farewells *farewells)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < farewells->receivers; i++)
        sum += atomic_load_explicit(&farewells->pulses[i].beat, memory_order_relaxed);
    return sum;
}

struct farewell_pulse *farewells_pulse(struct farewells *farewells, unsigned receiver,
                                       uint32_t queues)
{
    KV_ASSERT(receiver <= farewells->receivers);
    farewells->pulses[receiver].queues = queues;
    return &farewells->pulses[receiver];
}

/* Holds: lock. */
static void arm(struct farewells *farewells)
{
    KV_ASSERT(mutex_is_held(&farewells->lock));
    if (farewells->armed)
        return;
    struct itimerspec soon = {.it_value = {.tv_nsec = TICK_MS * 1000000}};
    farewells->armed = timerfd_settime(farewells->timer, 0, &soon, NULL) == 0;
}

/* The odd beat that a receiver of these queues is in; 0: none. The kernel's lock of a queue orders
 * this: a receiver that took a message before ours had made its beat odd before that. */
static uint64_t beat_in_the_way(struct farewells *farewells, unsigned receiver, uint32_t queues)
{
    const struct farewell_pulse *pulse = &farewells->pulses[receiver];
    uint64_t now = atomic_load(&pulse->beat);
    return (pulse->queues & queues) != 0 && now & 1 ? now : 0;
}

static bool nobody_in_the_way(struct farewells *farewells, uint32_t queues)
{
    for (unsigned i = 0; i <= farewells->receivers; i++)
        if (beat_in_the_way(farewells, i, queues) != 0)
            return false;
    return true;
}

/* Holds: lock. */
static bool all_moved_on(const struct farewells *farewells)
{
    for (unsigned i = 0; i <= farewells->receivers; i++) {
        uint64_t seen = farewells->seen[i];
        KV_ASSERT(seen == 0 || seen % 2 == 1); /* an even beat is in nobody's way */
        if (seen != 0 && atomic_load(&farewells->pulses[i].beat) == seen)
            return false;
    }
    return true;
}

/* Those who came while others waited begin to wait. Holds: lock. */
static void begin_next_farewell(struct farewells *farewells)
{
    KV_ASSERT(mutex_is_held(&farewells->lock));
    farewells->leaving = farewells->next;
    farewells->next = NULL;
    for (unsigned i = 0; farewells->leaving && i <= farewells->receivers; i++)
        farewells->seen[i] = beat_in_the_way(farewells, i, farewells->next_queues);
    farewells->next_queues = 0;
}

/* Takes those whose wait is over. Holds: lock. */
static struct leaver *take_ready(struct farewells *farewells)
{
    if (!farewells->leaving || !all_moved_on(farewells))
        return NULL;
    struct leaver *ready = farewells->leaving;
    for (const struct leaver *leaver = ready; leaver; leaver = leaver->next) {
        unsigned before = atomic_fetch_sub(&farewells->waiting, 1);
        KV_ASSERT(before > 0);
    }
    begin_next_farewell(farewells);
    KV_ASSERT(farewells->leaving ||
              atomic_load_explicit(&farewells->waiting, memory_order_relaxed) == 0);
    return ready;
}

static void end_leavers(struct farewells *farewells, struct leaver *ready)
{
    while (ready) {
        struct leaver *leaver = ready;
        ready = leaver->next;
        session_end(farewells->sessions, leaver->session, leaver->reason);
        session_release(farewells->sessions, leaver->session);
        free(leaver);
    }
}

void farewells_go_on(struct farewells *farewells)
{
    struct leaver *ready;
    do {
        pthread_mutex_lock(&farewells->lock);
        ready = take_ready(farewells);
        pthread_mutex_unlock(&farewells->lock);
        end_leavers(farewells, ready);
    } while (ready);
}

void farewells_end(struct farewells *farewells, struct session *session, uint32_t queues,
                   enum session_end_reason reason)
{
    if (!session_retire(farewells->sessions, session, reason))
        return;
    struct leaver *leaver = NULL;
    if (!nobody_in_the_way(farewells, queues))
        leaver = malloc(sizeof *leaver);
    if (!leaver) {
        session_end(farewells->sessions, session, reason);
        return;
    }
    session_retain(session);
    pthread_mutex_lock(&farewells->lock);
    *leaver = (struct leaver){.next = farewells->next, .session = session, .reason = reason};
    farewells->next = leaver;
    farewells->next_queues |= queues;
    atomic_fetch_add(&farewells->waiting, 1);
    if (!farewells->leaving)
        begin_next_farewell(farewells);
    KV_ASSERT(farewells->leaving); /* the next ones are never without these */
    arm(farewells);
    pthread_mutex_unlock(&farewells->lock);
}

void farewells_process_died(void *context, pid_t pid)
{
    struct farewells *farewells = context;
    pthread_mutex_lock(&farewells->lock);
    bool known = pid == 0;
    farewells->words_due |= pid == 0;
    KV_ASSERT(farewells->mourned_count <= MOURNED);
    for (unsigned i = 0; i < farewells->mourned_count && !known; i++)
        known = farewells->mourned[i] == pid;
    if (!known && farewells->mourned_count == MOURNED)
        farewells->more_died = true;
    else if (!known)
        farewells->mourned[farewells->mourned_count++] = pid;
    arm(farewells);
    pthread_mutex_unlock(&farewells->lock);
}

static void clean_up(struct farewells *farewells, const char *queue_name)
{
    pid_t pids[MOURNED];
    pthread_mutex_lock(&farewells->lock);
    unsigned count = farewells->mourned_count;
    for (unsigned i = 0; i < count; i++)
        pids[i] = farewells->mourned[i];
    struct dead_processes dead = {pids, count, farewells->more_died};
    farewells->mourned_count = 0;
    farewells->more_died = false;
    pthread_mutex_unlock(&farewells->lock);
    if (count > 0)
        orphans_remove_of(queue_name, &dead);
}

static void nudge_all(struct farewells *farewells)
{
    for (unsigned i = 0; i < farewells->receivers && farewells->nudge; i++) {
        pthread_mutex_lock(&farewells->lock);
        uint64_t seen = farewells->leaving ? farewells->seen[i] : 0;
        pthread_mutex_unlock(&farewells->lock);
        if (seen != 0 && atomic_load(&farewells->pulses[i].beat) == seen)
            farewells->nudge(farewells->nudge_context, i);
    }
}

void farewells_tick(struct farewells *farewells, const char *queue_name)
{
    uint64_t expirations;
    bool rang = read(farewells->timer, &expirations, sizeof expirations) > 0;
    pthread_mutex_lock(&farewells->lock);
    farewells->armed &= !rang;
    bool words_due = farewells->words_due;
    farewells->words_due = false;
    pthread_mutex_unlock(&farewells->lock);
    words_due = words_due && session_send_due_byes(farewells->sessions);
    farewells_go_on(farewells);
    nudge_all(farewells);
    pthread_mutex_lock(&farewells->lock);
    farewells->words_due |= words_due;
    if (farewells->leaving || words_due)
        arm(farewells);
    pthread_mutex_unlock(&farewells->lock);
    clean_up(farewells, queue_name);
}

void farewells_free(struct farewells *farewells)
{
    if (!farewells)
        return;
    end_leavers(farewells, farewells->leaving);
    end_leavers(farewells, farewells->next);
    free_parts(farewells);
}
