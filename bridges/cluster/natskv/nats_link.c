#include "bridges/cluster/natskv/nats_link.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_connect.h"
#include "bridges/cluster/natskv/nats_entry.h"

/* Calls under way at once; a power of two. */
#ifndef LINK_SLOTS
#define LINK_SLOTS 8192u
#endif

/* How often the timer looks at calls without an answer. */
#define TICK_MS 20u

/* The pause after "no responders", and while there is no connection. */
#define NOBODY_MS 100u

/* The timer sleeps when there was no call for this long. */
#define SLEEPY_MS 1000u

/* The time between attempts to replace a closed connection, even if the new one is closed at
 * once. */
#define MEND_MS 2000u

#define SUBJECT_BYTES 64u

struct link_slot {
    struct link_call *call; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
    bool busy;        /* in its callback, or being sent */
    natsMsg *message; /* NULL: not made yet */
    uint64_t next_ms; /* when it is sent again; UINT64_MAX: never */
    unsigned sent;    /* number of times it was sent */
    unsigned open;    /* how many of these are unanswered */
    bool refused;     /* it is too large, and no server has any copy of it: the timer ends it */
};

struct nats_link {
    struct natskv_options options;
    char inbox[SUBJECT_BYTES]; /* "_INBOX.x" */
    char instance[17];

    pthread_t timer, mender;
    bool timer_runs, mender_runs;

    pthread_mutex_t lock; /* covers everything below */
    pthread_cond_t wake;  /* wakes the timer */
    pthread_cond_t mend;  /* wakes the mender */
    natsConnection *connection;
    natsSubscription *answers;
    bool closed;       /* the library has given up the connection */
    unsigned retained; /* number of callers of nats_link_retain */
    struct link_slot *slots;
    uint32_t first_free; /* LINK_SLOTS: there is none */
    uint32_t touched;    /* slots from there on were never used */
    struct link_counts counts;
    uint64_t last_ms;  /* when a call was under way last */
    bool timer_sleeps; /* it must be woken for the next call */
    bool ending;
};

/* Slots ---------------------------------------------------------------------------------------- */

static void release_slot(struct nats_link *link, struct link_slot *slot)
{
    slot->call = NULL;
    slot->busy = false;
    slot->message = NULL;
    slot->generation++;
    slot->next_free = link->first_free;
    link->first_free = (uint32_t)(slot - link->slots);
    link->counts.in_flight--;
}

/* Returns the slot of a reply subject if its call is still under way, else NULL. */
static struct link_slot *slot_of_subject(struct nats_link *link, const char *subject)
{
    const char *token = strrchr(subject, '.');
    uint64_t number = token ? strtoull(token + 1, NULL, 16) : 0;
    struct link_slot *slot = &link->slots[number % LINK_SLOTS];
    bool is_it = slot->call && !slot->busy && slot->generation == (uint32_t)(number / LINK_SLOTS);
    return is_it ? slot : NULL;
}

/* Ends the call of the slot, or reports one answer to it if it may have many. Takes over the
 * lock. */
static void answer_locked(struct nats_link *link, struct link_slot *slot, enum link_outcome outcome,
                          natsMsg *message)
{
    struct link_call *call = slot->call;
    bool many = call->many, repeats = slot->open > 0;
    natsMsg *sent = slot->message;
    link->counts.silent += outcome == LINK_SILENT || outcome == LINK_NOT_SENT;
    if (many)
        slot->busy = true;
    else
        release_slot(link, slot);
    pthread_mutex_unlock(&link->lock);
    if (!many)
        natsMsg_Destroy(sent);
    bool goes_on = call->answer(call, outcome, message, repeats);
    if (!many)
        return;
    pthread_mutex_lock(&link->lock);
    slot->busy = false;
    bool over = !goes_on || outcome != LINK_ANSWERED;
    if (over)
        release_slot(link, slot);
    pthread_mutex_unlock(&link->lock);
    if (over)
        natsMsg_Destroy(sent);
}

/* Sending -------------------------------------------------------------------------------------- */

static bool is_connected(struct nats_link *link)
{
    return natsConnection_Status(link->connection) == NATS_CONN_STATUS_CONNECTED;
}

static bool make_message(struct nats_link *link, struct link_slot *slot)
{
    char reply[SUBJECT_BYTES + 20];
    uint64_t token = (uint64_t)slot->generation * LINK_SLOTS + (uint64_t)(slot - link->slots);
    snprintf(reply, sizeof reply, "%s.%" PRIx64, link->inbox, token);
    return slot->message || slot->call->make(slot->call, reply, &slot->message);
}

/* Publishes what goes before the message, and the message. */
static natsStatus publish_all(struct nats_link *link, struct link_slot *slot)
{
    struct link_call *call = slot->call;
    natsStatus status = NATS_OK;
    for (uint32_t i = 0; i < call->leading && status == NATS_OK; i++) {
        natsMsg *message = NULL;
        if (!call->make_leading(call, i, &message))
            return NATS_NO_MEMORY;
        status = natsConnection_PublishMsg(link->connection, message);
        natsMsg_Destroy(message);
    }
    return status == NATS_OK ? natsConnection_PublishMsg(link->connection, slot->message) : status;
}

/* Sends what the slot has, if there is a connection. Holds: the lock, for which answers wait. */
static void send_locked(struct nats_link *link, struct link_slot *slot)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (slot->call->leading > 0) {
        natsMsg_Destroy(slot->message);
        slot->message = NULL;
    }
    if (!is_connected(link) || !make_message(link, slot)) {
        slot->next_ms = now_ms + TICK_MS;
        return;
    }
    link->counts.repeats += slot->sent > 0;
    slot->sent++;
    slot->open++;
    natsStatus status = publish_all(link, slot);
    now_ms = clock_monotonic_coarse_ms(); /* many and large messages take their time */
    slot->next_ms = slot->call->again_ms > 0 ? now_ms + slot->call->again_ms : UINT64_MAX;
    if (status == NATS_OK)
        return;
    slot->open--;
    slot->refused = status == NATS_MAX_PAYLOAD && slot->open == 0;
    slot->next_ms = now_ms + TICK_MS;
}

bool nats_link_send(struct nats_link *link, struct link_call *call)
{
    pthread_mutex_lock(&link->lock);
    if (link->first_free == LINK_SLOTS) {
        pthread_mutex_unlock(&link->lock);
        return false;
    }
    struct link_slot *slot = &link->slots[link->first_free];
    link->first_free = slot->next_free;
    if (link->touched <= (uint32_t)(slot - link->slots))
        link->touched = (uint32_t)(slot - link->slots) + 1;
    *slot = (struct link_slot){.call = call, .generation = slot->generation};
    link->counts.in_flight++;
    link->counts.calls++;
    if (call->begin_ms > clock_monotonic_coarse_ms())
        slot->next_ms = call->begin_ms;
    else
        send_locked(link, slot);
    if (link->timer_sleeps)
        pthread_cond_signal(&link->wake);
    pthread_mutex_unlock(&link->lock);
    return true;
}

/* Answers -------------------------------------------------------------------------------------- */

/* Takes an answer: a natsMsgHandler. "No responders" is none: the request is sent again soon. */
static void take_link_answer(natsConnection *connection, natsSubscription *subscription,
                             natsMsg *message, void *context)
{
    (void)connection;
    (void)subscription;
    struct nats_link *link = context;
    pthread_mutex_lock(&link->lock);
    struct link_slot *slot = slot_of_subject(link, natsMsg_GetSubject(message));
    if (slot && natsMsg_GetDataLength(message) == 0 && nats_entry_status(message) == 503) {
        link->counts.nobody++;
        slot->open -= slot->open > 0;
        slot->next_ms = clock_monotonic_coarse_ms() + NOBODY_MS;
        slot = NULL;
    }
    if (slot) {
        slot->open -= slot->open > 0;
        answer_locked(link, slot, LINK_ANSWERED, message);
    } else {
        pthread_mutex_unlock(&link->lock);
    }
    natsMsg_Destroy(message);
}

/* Looks at one slot. True: the lock was released meanwhile. */
static bool look_at_slot(struct nats_link *link, struct link_slot *slot, uint64_t now_ms)
{
    if (!slot->call || slot->busy)
        return false;
    if (slot->refused) {
        answer_locked(link, slot, LINK_REFUSED, NULL);
        return true;
    }
    if (now_ms >= slot->call->deadline_ms) {
        answer_locked(link, slot, slot->open > 0 ? LINK_SILENT : LINK_NOT_SENT, NULL);
        return true;
    }
    if (now_ms >= slot->next_ms)
        send_locked(link, slot);
    return false;
}

/* Waits until the timer must look. It goes on looking for a while after the last call, so that few
 * calls have to wake it. */
static void wait_for_tick(struct nats_link *link)
{
    struct timespec until = clock_time_after_ms(CLOCK_MONOTONIC, TICK_MS);
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (link->counts.in_flight > 0)
        link->last_ms = now_ms;
    link->timer_sleeps = now_ms - link->last_ms > SLEEPY_MS;
    if (link->timer_sleeps)
        pthread_cond_wait(&link->wake, &link->lock);
    else
        pthread_cond_timedwait(&link->wake, &link->lock, &until);
    link->timer_sleeps = false;
}

static void *run_timer(void *argument)
{
    struct nats_link *link = argument;
    pthread_mutex_lock(&link->lock);
    while (!link->ending) {
        uint64_t now_ms = clock_monotonic_coarse_ms();
        for (uint32_t i = 0; i < link->touched && link->counts.in_flight > 0; i++)
            if (look_at_slot(link, &link->slots[i], now_ms))
                pthread_mutex_lock(&link->lock);
        if (!link->ending) /* it may have come while a call was answered */
            wait_for_tick(link);
    }
    pthread_mutex_unlock(&link->lock);
    return NULL;
}

/* Connection ----------------------------------------------------------------------------------- */

static void log_where(natsConnection *connection, const char *what)
{
    char url[256] = "", shown[NATS_SHOWN_BYTES];
    natsConnection_GetConnectedUrl(connection, url, sizeof url);
    log_info("nats: %s%s%s", what, url[0] ? " to " : "", nats_urls_shown(url, shown));
}

static void lost(natsConnection *connection, void *context)
{
    (void)connection;
    struct nats_link *link = context;
    pthread_mutex_lock(&link->lock);
    bool ending = link->ending;
    pthread_mutex_unlock(&link->lock);
    if (!ending)
        log_warn("nats: the connection is lost; trying all servers again");
}

/* Has the timer send again everything that was sent to the lost server. */
static void send_all_locked(struct nats_link *link)
{
    for (uint32_t i = 0; i < LINK_SLOTS; i++)
        if (link->slots[i].call && !link->slots[i].busy && link->slots[i].call->again_ms > 0)
            link->slots[i].next_ms = 0;
}

static void found_again(natsConnection *connection, void *context)
{
    struct nats_link *link = context;
    pthread_mutex_lock(&link->lock);
    link->counts.reconnects++;
    send_all_locked(link);
    pthread_mutex_unlock(&link->lock);
    log_where(connection, "connected again");
}

/* Called by the library, which keeps the connection, and the text of its error, until this
 * returns. */
static void closed(natsConnection *connection, void *context)
{
    struct nats_link *link = context;
    const char *reason = NULL;
    pthread_mutex_lock(&link->lock);
    bool matters = connection == link->connection && !link->ending;
    link->closed |= matters;
    pthread_cond_broadcast(&link->mend);
    pthread_mutex_unlock(&link->lock);
    if (!matters)
        return;
    natsConnection_GetLastError(connection, &reason);
    log_error("nats: the connection is closed (%s); trying to connect anew",
              reason && *reason ? reason : "no reason given");
}

static enum kv_status name_inbox(struct nats_link *link, struct kv_error *error)
{
    natsInbox *inbox = NULL;
    if (natsInbox_Create(&inbox) != NATS_OK)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    snprintf(link->inbox, sizeof link->inbox, "%s", inbox);
    natsInbox_Destroy(inbox);
    return KV_OK;
}

static enum kv_status subscribe(struct nats_link *link, natsConnection *connection,
                                natsSubscription **answers, struct kv_error *error)
{
    char subject[SUBJECT_BYTES + 2];
    snprintf(subject, sizeof subject, "%s.*", link->inbox);
    natsStatus status =
        natsConnection_Subscribe(answers, connection, subject, take_link_answer, link);
    if (status == NATS_OK)
        status = natsSubscription_SetPendingLimits(*answers, -1, -1);
    return status == NATS_OK
               ? KV_OK
               : kv_error_set(error, KV_IO, "nats: subscribing: %s", natsStatus_GetText(status));
}

/* Makes a connection, and puts it in the place of the old one; calls under way continue, since
 * their answers come to the same inbox. No lock retained. */
static enum kv_status connect_link(struct nats_link *link, struct kv_error *error)
{
    const struct nats_events events = {
        .lost = lost, .found_again = found_again, .closed = closed, .context = link};
    natsConnection *connection = NULL;
    natsSubscription *answers = NULL;
    enum kv_status status = nats_connect(&link->options, &events, &connection, error);
    if (status == KV_OK)
        status = subscribe(link, connection, &answers, error);
    if (status == KV_OK) {
        log_where(connection, "connected");
        pthread_mutex_lock(&link->lock);
        while (link->retained > 0 && !link->ending)
            pthread_cond_wait(&link->mend, &link->lock);
        natsConnection *old = link->connection;
        natsSubscription *old_answers = link->answers;
        link->connection = connection;
        link->answers = answers;
        link->closed =
            natsConnection_IsClosed(connection); /* it may have been closed before it was ours */
        send_all_locked(link);
        pthread_mutex_unlock(&link->lock);
        connection = old;
        answers = old_answers;
    }
    natsSubscription_Destroy(answers);
    natsConnection_Destroy(connection);
    return status;
}

/* Replaces the connection when it is closed. This is a thread of its own, since connecting takes
 * its time, and calls have deadlines meanwhile. */
static void *run_mender(void *argument)
{
    struct nats_link *link = argument;
    struct kv_error error;
    bool told = false;
    pthread_mutex_lock(&link->lock);
    while (!link->ending) {
        if (!link->closed) {
            pthread_cond_wait(&link->mend, &link->lock);
            continue;
        }
        pthread_mutex_unlock(&link->lock);
        enum kv_status status = connect_link(link, &error);
        if (status != KV_OK && !told)
            log_error("%s; trying again every %u seconds", error.text, MEND_MS / 1000);
        told = status != KV_OK;
        pthread_mutex_lock(&link->lock);
        link->counts.reconnects += status == KV_OK;
        struct timespec until = clock_time_after_ms(CLOCK_MONOTONIC, MEND_MS);
        while (!link->ending && pthread_cond_timedwait(&link->mend, &link->lock, &until) == 0)
            ;
    }
    pthread_mutex_unlock(&link->lock);
    return NULL;
}

static enum kv_status create_link(struct nats_link **result)
{
    struct nats_link *link = calloc(1, sizeof *link);
    if (!link)
        return KV_NO_MEMORY;
    link->slots = calloc(LINK_SLOTS, sizeof *link->slots);
    if (!link->slots) {
        free(link);
        return KV_NO_MEMORY;
    }
    for (uint32_t i = 0; i < LINK_SLOTS; i++)
        link->slots[i].next_free = i + 1;
    snprintf(link->instance, sizeof link->instance, "%016" PRIx64, random_secret());
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->wake, &attributes);
    pthread_cond_init(&link->mend, &attributes);
    pthread_condattr_destroy(&attributes);
    *result = link;
    return KV_OK;
}

/* Starts the threads, and connects. */
static enum kv_status start(struct nats_link *link, struct kv_error *error)
{
    int problem = pthread_create(&link->timer, NULL, run_timer, link);
    link->timer_runs = problem == 0;
    if (problem == 0) {
        problem = pthread_create(&link->mender, NULL, run_mender, link);
        link->mender_runs = problem == 0;
    }
    return problem == 0 ? KV_OK
                        : kv_error_set_no_thread(error, problem, "cannot start a thread for NATS");
}

enum kv_status nats_link_open(const struct natskv_options *options, struct nats_link **result,
                              struct kv_error *error)
{
    struct nats_link *link = NULL;
    sigset_t before;
    if (create_link(&link) != KV_OK)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    link->options = *options;
    /* The library's threads take no signals but those of faults, as our own do. */
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum kv_status status = name_inbox(link, error);
    if (status == KV_OK)
        status = connect_link(link, error);
    if (status == KV_OK)
        status = start(link, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != KV_OK) {
        nats_link_close(link);
        return status;
    }
    *result = link;
    return KV_OK;
}

void nats_link_close(struct nats_link *link)
{
    if (!link)
        return;
    pthread_mutex_lock(&link->lock);
    link->ending = true;
    pthread_cond_signal(&link->wake);
    pthread_cond_broadcast(&link->mend);
    pthread_mutex_unlock(&link->lock);
    if (link->timer_runs)
        pthread_join(link->timer, NULL);
    if (link->mender_runs)
        pthread_join(link->mender, NULL);
    natsConnection_Close(link->connection);
    natsSubscription_Destroy(link->answers);
    natsConnection_Destroy(link->connection);
    nats_CloseAndWait(2000); /* after this no thread of the library runs any more */
    for (uint32_t i = 0; i < LINK_SLOTS; i++)
        natsMsg_Destroy(link->slots[i].message);
    pthread_cond_destroy(&link->wake);
    pthread_cond_destroy(&link->mend);
    pthread_mutex_destroy(&link->lock);
    free(link->slots);
    free(link);
}

natsConnection *nats_link_retain(struct nats_link *link)
{
    pthread_mutex_lock(&link->lock);
    natsConnection *connection = link->connection;
    link->retained++;
    pthread_mutex_unlock(&link->lock);
    return connection;
}

void nats_link_release(struct nats_link *link)
{
    pthread_mutex_lock(&link->lock);
    link->retained--;
    pthread_cond_broadcast(&link->mend);
    pthread_mutex_unlock(&link->lock);
}

uint64_t nats_link_max_payload(struct nats_link *link)
{
    pthread_mutex_lock(&link->lock);
    int64_t bytes = natsConnection_GetMaxPayload(link->connection);
    pthread_mutex_unlock(&link->lock);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

const char *nats_link_instance(const struct nats_link *link)
{
    return link->instance;
}

void nats_link_counts(struct nats_link *link, struct link_counts *counts)
{
    pthread_mutex_lock(&link->lock);
    *counts = link->counts;
    counts->connected = is_connected(link);
    pthread_mutex_unlock(&link->lock);
}
