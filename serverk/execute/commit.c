#include "serverk/execute/commit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/session/deliver.h"
#include "wire/message.h"

/* One file that a held reply waits for. */
struct wait {
    struct wait *next; /* of the same file, in no order */
    struct held_reply *held;
    uint64_t position;
};

struct held_reply {
    struct held_reply *next; /* in a list of those to be sent */
    struct session *session;
    uint64_t since_ns;
    uint32_t files_left; /* guarded by commit->lock */
    bool failed;         /* likewise */
    bool extended;
    uint8_t *reply; /* in the same allocation, behind the waits */
    size_t reply_bytes;
    struct wait waits[];
};

struct commit {
    struct kvstore *store;
    struct session_table *sessions;
    struct fragment_budget *budget;

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t drained;
    struct wait **of_file;
    bool *sync_failed; /* by file: what is not on disk yet never will be */
    uint64_t waiting;  /* held, or being sent */
    struct worker_statistics statistics;
};

/* Waits ---------------------------------------------------------------------------------------- */

bool commit_waits_init(struct commit_waits *waits, uint32_t datafiles)
{
    waits->count = 0;
    waits->positions = calloc(datafiles + 1, sizeof *waits->positions);
    waits->files = calloc(datafiles + 1, sizeof *waits->files);
    if (waits->positions && waits->files)
        return true;
    commit_waits_free(waits);
    return false;
}

void commit_waits_free(struct commit_waits *waits)
{
    free(waits->positions);
    free(waits->files);
    *waits = (struct commit_waits){0};
}

void commit_waits_add(struct commit_waits *waits, struct kvstore_ticket ticket)
{
    if (ticket.position == 0)
        return;
    if (waits->positions[ticket.file] == 0)
        waits->files[waits->count++] = ticket.file;
    if (waits->positions[ticket.file] < ticket.position)
        waits->positions[ticket.file] = ticket.position;
}

void commit_waits_clear(struct commit_waits *waits)
{
    for (uint32_t i = 0; i < waits->count; i++)
        waits->positions[waits->files[i]] = 0;
    waits->count = 0;
}

/* Sending -------------------------------------------------------------------------------------- */

static size_t send_not_durable(struct commit *commit, struct session *session,
                               struct kv_slice reply, bool extended)
{
    struct read_cursor cursor = read_cursor(reply.data, reply.size);
    struct wire_header header = {0};
    wire_get_header(&cursor, &header);
    if (extended)
        fragments_cancel(&session->fragments, commit->budget);
    return deliver_failure(commit->sessions, session, header.request_id, KV_NOT_DURABLE,
                           "applied, but the sync that should have made it durable failed; the log "
                           "of the server says why");
}

/* Sends and frees those of the list; no lock is held. */
static void send_list(struct commit *commit, struct held_reply *list)
{
    while (list) {
        struct held_reply *held = list;
        list = held->next;
        struct kv_slice reply = kv_slice(held->reply, held->reply_bytes);
        KV_ASSERT(held->files_left == 0);
        unsigned of_session = /* before its client may send the next */
            atomic_fetch_sub(&held->session->held_replies, 1);
        KV_ASSERT(of_session > 0);
        size_t sent = held->failed ? send_not_durable(commit, held->session, reply, held->extended)
                                   : deliver_reply(commit->sessions, commit->budget, held->session,
                                                   reply, held->extended);
        session_release(commit->sessions, held->session);

        pthread_mutex_lock(&commit->lock);
        statistics_add(&commit->statistics.bytes_out, sent);
        histogram_record(&commit->statistics.stages[STAGE_COMMIT],
                         clock_monotonic_ns() - held->since_ns);
        KV_ASSERT(commit->waiting > 0);
        if (--commit->waiting == 0)
            pthread_cond_broadcast(&commit->drained);
        pthread_mutex_unlock(&commit->lock);
        free(held);
    }
}

/* The sync listener. */
static void file_synced(void *context, uint32_t file, uint64_t position, enum kv_status status)
{
    struct commit *commit = context;
    struct held_reply *ready = NULL;
    pthread_mutex_lock(&commit->lock);
    if (status != KV_OK)
        commit->sync_failed[file] = true;
    struct wait **link = &commit->of_file[file];
    while (*link) {
        struct wait *wait = *link;
        if (wait->position > position) {
            link = &wait->next;
            continue;
        }
        *link = wait->next;
        struct held_reply *held = wait->held;
        KV_ASSERT(held->files_left > 0);
        held->failed |= status != KV_OK;
        if (--held->files_left == 0) {
            held->next = ready;
            ready = held;
        }
    }
    pthread_mutex_unlock(&commit->lock);
    send_list(commit, ready);
}

struct commit *commit_create(struct kvstore *store, struct session_table *sessions,
                             struct fragment_budget *budget)
{
    struct commit *commit = aligned_alloc(_Alignof(struct commit), sizeof *commit);
    if (!commit)
        return NULL;
    memset(commit, 0, sizeof *commit);
    commit->store = store;
    commit->sessions = sessions;
    commit->budget = budget;
    commit->of_file = calloc(kvstore_datafiles(store), sizeof *commit->of_file);
    commit->sync_failed = calloc(kvstore_datafiles(store), sizeof *commit->sync_failed);
    pthread_mutex_init(&commit->lock, NULL);
    pthread_cond_init(&commit->drained, NULL);
    if (!commit->of_file || !commit->sync_failed) {
        commit_free(commit);
        return NULL;
    }
    kvstore_set_sync_listener(store, file_synced, commit);
    return commit;
}

void commit_free(struct commit *commit)
{
    if (!commit)
        return;
    KV_ASSERT(commit->waiting == 0); /* it was drained */
    pthread_cond_destroy(&commit->drained);
    pthread_mutex_destroy(&commit->lock);
    free(commit->of_file);
    free(commit->sync_failed);
    free(commit);
}

/* Holding -------------------------------------------------------------------------------------- */

static struct held_reply *make_held(struct session *session, struct kv_slice reply, bool extended,
                                    const struct commit_waits *waits)
{
    struct held_reply *held =
        malloc(sizeof *held + waits->count * sizeof held->waits[0] + reply.size);
    if (!held)
        return NULL;
    *held = (struct held_reply){.session = session,
                                .since_ns = clock_monotonic_ns(),
                                .extended = extended,
                                .reply = (uint8_t *)&held->waits[waits->count],
                                .reply_bytes = reply.size};
    memcpy(held->reply, reply.data, reply.size);
    return held;
}

static struct kvstore_ticket ticket_of(const struct commit_waits *waits, uint32_t i)
{
    return (struct kvstore_ticket){waits->files[i], waits->positions[waits->files[i]]};
}

/* Puts the reply on the lists of the files it waits for, but for those that are on disk by now: the
 * word of any later sync comes after the lock. Those whose sync has failed already count at once.
 * True: none is left to wait for. */
static bool enlist_held_reply(struct commit *commit, struct held_reply *held,
                              const struct commit_waits *waits)
{
    pthread_mutex_lock(&commit->lock);
    commit->waiting++;
    for (uint32_t i = 0; i < waits->count; i++) {
        uint32_t file = waits->files[i];
        if (kvstore_is_durable(commit->store, ticket_of(waits, i)))
            continue;
        if (commit->sync_failed[file]) {
            held->failed = true;
            continue;
        }
        held->waits[i] = (struct wait){
            .next = commit->of_file[file], .held = held, .position = waits->positions[file]};
        commit->of_file[file] = &held->waits[i];
        held->files_left++;
    }
    bool ready = held->files_left == 0;
    KV_ASSERT(held->files_left <= waits->count);
    pthread_mutex_unlock(&commit->lock);
    return ready;
}

void commit_hold(struct commit *commit, struct session *session, struct kv_slice reply,
                 bool extended, const struct commit_waits *waits)
{
    KV_ASSERT(waits->count > 0); /* else the worker sends the reply itself */
    /* However slow a sync is, a session's replies take no more memory than its credits allow. */
    if (atomic_fetch_add(&session->held_replies, 1) >= session->assignment.credits) {
        atomic_fetch_sub(&session->held_replies, 1);
        if (extended)
            fragments_cancel(&session->fragments, commit->budget);
        session_end(commit->sessions, session, SESSION_FAULT);
        return;
    }
    struct held_reply *held = make_held(session, reply, extended, waits);
    if (!held) { /* no memory: the worker waits itself */
        enum kv_status status = KV_OK;
        for (uint32_t i = 0; i < waits->count && status == KV_OK; i++)
            status = kvstore_wait_durable(commit->store, ticket_of(waits, i));
        atomic_fetch_sub(&session->held_replies, 1);
        if (status == KV_OK)
            deliver_reply(commit->sessions, commit->budget, session, reply, extended);
        else
            send_not_durable(commit, session, reply, extended);
        return;
    }
    session_retain(session);
    if (enlist_held_reply(commit, held, waits)) {
        send_list(commit, held);
        return;
    }
    for (uint32_t i = 0; i < waits->count; i++)
        if (!kvstore_is_durable(commit->store, ticket_of(waits, i)))
            kvstore_request_sync(commit->store, ticket_of(waits, i));
}

void commit_drain(struct commit *commit)
{
    pthread_mutex_lock(&commit->lock);
    while (commit->waiting > 0)
        pthread_cond_wait(&commit->drained, &commit->lock);
    pthread_mutex_unlock(&commit->lock);
}

uint64_t commit_waiting(struct commit *commit)
{
    pthread_mutex_lock(&commit->lock);
    uint64_t waiting = commit->waiting;
    pthread_mutex_unlock(&commit->lock);
    return waiting;
}

void commit_statistics(struct commit *commit, struct worker_statistics *sum)
{
    pthread_mutex_lock(&commit->lock);
    statistics_sum(sum, &commit->statistics, 1);
    pthread_mutex_unlock(&commit->lock);
}
