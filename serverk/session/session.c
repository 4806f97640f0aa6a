#include "serverk/session/session.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "serverk/session/session_state.h"

void session_retain(struct session *session)
{
    uint64_t before = atomic_fetch_add_explicit(&session->state, 1, memory_order_relaxed);
    KV_ASSERT(references_of(before) > 0);
    KV_ASSERT(phase_of(before) == LIVE || phase_of(before) == CLOSING);
}

void session_close_queue(mqd_t reply_queue)
{
    close((int)reply_queue);
}

/* Returns whether nobody but the table and the caller holds the session. A thread that holds it
 * from now on sees what was stored before. */
static bool is_held_by_caller_alone(struct session *session)
{
    uint64_t state = atomic_fetch_add(&session->state, 0);
    return phase_of(state) == LIVE && references_of(state) == 2;
}

/* Closes all but the last segment. Holds: fragments.lock. */
static void close_replaced(struct session *session)
{
    KV_ASSERT(mutex_is_held(&session->fragments.lock));
    KV_ASSERT(session->segment_count > 0);
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
    KV_ASSERT(session->segment_count <= SESSION_MAX_SEGMENTS);
    KV_ASSERT(!taken || session->segments[session->segment_count - 1] == segment);
    pthread_mutex_unlock(&session->fragments.lock);
    return taken;
}

const char *session_end_reason_name(enum session_end_reason reason)
{
    static const char *const names[] = {[SESSION_BYE] = "bye",
                                        [SESSION_DIED] = "died",
                                        [SESSION_SEGMENT] = "segment",
                                        [SESSION_FAULT] = "fault",
                                        [SESSION_ABANDONED] = "abandoned",
                                        [SESSION_REPLACED] = "replaced",
                                        [SESSION_SHUTDOWN] = "shutdown",
                                        [SESSION_KILLED] = "killed"};
    return names[reason];
}
