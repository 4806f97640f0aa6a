#include "serverk/session/session_hold.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "serverk/session/session.h"

struct session_hold {
    pthread_mutex_t mutex;
    struct kvstore_hold *held; /* NULL: it has ended */
};

static atomic_uint holds_there; /* of all sessions */

static struct {
    pthread_mutex_t mutex;
    struct session_hold_counts counts;
} events = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Takes no other lock. */
static void report_hold_event(struct session_hold_event *event)
{
    pthread_mutex_lock(&events.mutex);
    event->count++;
    event->last_ms = clock_realtime_ms();
    pthread_mutex_unlock(&events.mutex);
}

void session_hold_counts(struct session_hold_counts *counts)
{
    pthread_mutex_lock(&events.mutex);
    *counts = events.counts;
    pthread_mutex_unlock(&events.mutex);
}

/* The session's, made when it is first wanted. NULL: out of memory. */
static struct session_hold *hold_of(struct session *session)
{
    struct session_hold *hold = atomic_load(&session->hold);
    if (hold)
        return hold;
    struct session_hold *created = calloc(1, sizeof *created);
    if (!created)
        return NULL;
    pthread_mutex_init(&created->mutex, NULL);
    if (atomic_compare_exchange_strong(&session->hold, &hold, created))
        return created;
    session_hold_free(created); /* another thread was faster */
    return hold;
}

/* how: what became of it. Holds: mutex. */
static void end_session_hold(struct session_hold *hold, struct session_hold_event *how)
{
    if (!hold->held)
        return;
    report_hold_event(how);
    kvstore_hold_end(hold->held);
    hold->held = NULL;
    unsigned before = atomic_fetch_sub(&holds_there, 1);
    KV_ASSERT(before > 0);
}

static enum kv_status describe_session_hold(const struct kvstore_hold *held, char **text,
                                            size_t *size)
{
    struct kvstore_hold_facts facts;
    FILE *stream = open_memstream(text, size);
    if (!stream)
        return KV_NO_MEMORY;
    kvstore_hold_facts(held, &facts);
    fprintf(stream, "store %016" PRIx64 " files %" PRIu32 "\n", facts.store_seed, facts.datafiles);
    for (uint32_t number = 0; number < facts.datafiles; number++) {
        struct kvstore_held_file file;
        kvstore_hold_file(held, number, &file);
        fprintf(stream, "%016" PRIx64 " %" PRIu64 "\n", file.generation, file.bytes);
    }
    fprintf(stream, "dir %s", facts.dir);
    if (fclose(stream) == 0)
        return KV_OK;
    free(*text);
    *text = NULL;
    return KV_NO_MEMORY;
}

/* Holds: mutex. */
static enum kv_status begin_session_hold(struct session_hold *hold, struct kvstore *store,
                                         char **text, size_t *size)
{
    KV_ASSERT(mutex_is_held(&hold->mutex));
    end_session_hold(hold, &events.counts.failed);
    KV_ASSERT(!hold->held);
    if (atomic_fetch_add(&holds_there, 1) >= SESSION_MAX_HOLDS) {
        atomic_fetch_sub(&holds_there, 1);
        report_hold_event(&events.counts.failed);
        return KV_OVERLOADED;
    }
    enum kv_status status = kvstore_hold_begin(store, &hold->held, NULL);
    if (status != KV_OK) {
        atomic_fetch_sub(&holds_there, 1);
        report_hold_event(&events.counts.failed);
        return status;
    }
    report_hold_event(&events.counts.begun);
    status = describe_session_hold(hold->held, text, size);
    if (status != KV_OK)
        end_session_hold(hold, &events.counts.failed);
    return status;
}

enum kv_status session_hold_begin(struct session *session, struct kvstore *store, char **text,
                                  size_t *size)
{
    struct session_hold *hold = hold_of(session);
    if (!hold)
        return KV_NO_MEMORY;
    pthread_mutex_lock(&hold->mutex);
    enum kv_status status = begin_session_hold(hold, store, text, size);
    pthread_mutex_unlock(&hold->mutex);
    return status;
}

enum kv_status session_hold_read(struct session *session, uint32_t file, uint64_t offset,
                                 void *buffer, size_t size, size_t *got)
{
    struct session_hold *hold = atomic_load(&session->hold);
    if (!hold)
        return KV_BUSY;
    pthread_mutex_lock(&hold->mutex);
    enum kv_status status =
        hold->held ? kvstore_hold_read(hold->held, file, offset, buffer, size, got) : KV_BUSY;
    pthread_mutex_unlock(&hold->mutex);
    return status;
}

enum kv_status session_hold_touch(struct session *session)
{
    struct session_hold *hold = atomic_load(&session->hold);
    if (!hold)
        return KV_BUSY;
    pthread_mutex_lock(&hold->mutex);
    bool lasts = hold->held && kvstore_hold_touch(hold->held);
    pthread_mutex_unlock(&hold->mutex);
    return lasts ? KV_OK : KV_BUSY;
}

enum kv_status session_hold_end(struct session *session)
{
    struct session_hold *hold = atomic_load(&session->hold);
    if (!hold)
        return KV_BUSY;
    pthread_mutex_lock(&hold->mutex);
    bool lasted = hold->held && kvstore_hold_touch(hold->held);
    end_session_hold(hold, lasted ? &events.counts.finished : &events.counts.failed);
    pthread_mutex_unlock(&hold->mutex);
    return lasted ? KV_OK : KV_BUSY;
}

void session_hold_free(struct session_hold *hold)
{
    if (!hold)
        return;
    end_session_hold(hold, &events.counts.failed);
    pthread_mutex_destroy(&hold->mutex);
    free(hold);
}
