#include "clientk/session/reply_path.h"

#include <mqueue.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clientk/base/own_names.h"
#include "clientk/session/connection.h"
#include "clientk/session/server_access.h"
#include "common/report/error.h"
#include "common/time/clock.h"
#include "wire/own_user.h"
#include "wire/stale_names.h"

/* Names to try; one is taken only if a process of the same pid ended during its handshake. */
#define NAME_ATTEMPTS     64u
/* The server gives the queues of sessions back a moment after their BYE, and what is refused for
 * want of bytes in queues may be had then. */
#define LIMIT_PATIENCE_MS 50u
#define LIMIT_STEP_MS     5u

/* Queues --------------------------------------------------------------------------------------- */

/* Creates the queue under a name that is not taken. */
static enum kv_status try_queue(struct connection *connection, char name[WIRE_QUEUE_NAME_BYTES],
                                struct kv_error *error)
{
    enum kv_status status = KV_EXISTS;
    for (unsigned i = 0; i < NAME_ATTEMPTS && status == KV_EXISTS; i++) {
        name_of_own(name, connection->settings->queue, WIRE_REPLY_QUEUE);
        status =
            wire_queue_create_ladder(name, connection->reply_ladder, 0600, true,
                                     &connection->reply_queue, &connection->reply_geometry, error);
    }
    return status;
}

static enum kv_status create_queue(struct connection *connection, char name[WIRE_QUEUE_NAME_BYTES],
                                   uint64_t deadline_ms, struct kv_error *error)
{
    enum kv_status status = try_queue(connection, name, error);
    uint64_t patience_ms = clock_monotonic_coarse_ms() + LIMIT_PATIENCE_MS;
    while (status == KV_LIMIT &&
           clock_monotonic_coarse_ms() < (deadline_ms < patience_ms ? deadline_ms : patience_ms)) {
        if (!wire_stale_names_remove_again(connection->settings->queue))
            clock_sleep_ms(LIMIT_STEP_MS);
        status = try_queue(connection, name, error);
    }
    if (status == KV_EXISTS)
        return kv_error_set(error, KV_LIMIT,
                            "%u names of reply queues up to %s are taken: remove what dead "
                            "processes left (ls -l /dev/mqueue)",
                            NAME_ATTEMPTS, name);
    return status;
}

/* Rings ---------------------------------------------------------------------------------------- */

static enum ring_hindrance find_hindrance(const struct connection *connection)
{
    if (connection->epoll >= 0)
        return RING_WATCHED;
    if (connection->settings->replies == WIRE_REPLIES_QUEUE)
        return RING_NOT_WANTED;
    if (!wire_uid_is_own(connection->server_uid))
        return RING_OTHER_USER;
    switch (wire_ring_look_for_offer(connection->settings->queue, connection->server_uid)) {
    case WIRE_RING_NOT_OFFERED:
        return RING_NOT_OFFERED;
    case WIRE_RING_OTHER_MEMORY:
        return RING_OTHER_MEMORY;
    case WIRE_RING_OFFERED:
        break;
    }
    return RING_POSSIBLE;
}

/* Creates a ring of as many messages of the same size as the best reply queue would have. */
static enum kv_status create_ring(struct connection *connection, char name[WIRE_QUEUE_NAME_BYTES])
{
    enum kv_status status = KV_EXISTS;
    int object = -1;
    connection->reply_geometry = connection->reply_ladder[0];
    for (unsigned i = 0; i < NAME_ATTEMPTS && status == KV_EXISTS; i++) {
        name_of_own(name, connection->settings->queue, WIRE_REPLY_RING);
        status =
            wire_ring_create(name, connection->reply_geometry, &object, &connection->ring, NULL);
    }
    if (status == KV_OK)
        connection->reply_queue = (mqd_t)object;
    return status;
}

/* Either --------------------------------------------------------------------------------------- */

static enum kv_status create(struct connection *connection, char name[WIRE_QUEUE_NAME_BYTES],
                             uint64_t deadline_ms, struct kv_error *error)
{
    connection->hindrance = find_hindrance(connection);
    if (connection->hindrance == RING_POSSIBLE && create_ring(connection, name) == KV_OK)
        return KV_OK;
    if (connection->hindrance == RING_POSSIBLE)
        connection->hindrance = RING_NO_MEMORY;
    if (connection->settings->replies == WIRE_REPLIES_SHARED &&
        connection->hindrance != RING_WATCHED)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "the replies of %s cannot come through shared memory, as asked for "
                            "(replies, MQKV_REPLIES): %s",
                            connection->settings->queue,
                            ring_hindrance_explain(connection->hindrance));
    return create_queue(connection, name, deadline_ms, error);
}

/* The server must be able to write, and no other process to read. A ring is for the server's own
 * user. */
static enum kv_status let_server_in(const struct connection *connection, struct kv_error *error)
{
    if (connection->ring)
        return KV_OK;
    pid_t server = (pid_t)connection->welcome.server_pid;
    return server_access_grant(connection->reply_queue,
                               server_access_needed(connection->lane, server), error);
}

enum kv_status reply_path_make(struct connection *connection, char name[WIRE_QUEUE_NAME_BYTES],
                               uint64_t deadline_ms, struct kv_error *error)
{
    enum kv_status status = create(connection, name, deadline_ms, error);
    if (status != KV_OK)
        return status;
    connection->received = wire_queue_buffer(connection->reply_geometry.message_bytes);
    if (!connection->received)
        status = kv_error_set(error, KV_NO_MEMORY, "no memory for a session");
    else if (wire_lock_queue(connection->reply_queue, NULL) != 0)
        status = kv_error_set_errno(error, "cannot lock the reply queue %s", name);
    else
        status = let_server_in(connection, error);
    if (status != KV_OK)
        reply_path_unlink(connection, name);
    return status;
}

void reply_path_unlink(const struct connection *connection, const char *name)
{
    if (connection->ring)
        shm_unlink(name);
    else
        mq_unlink(name);
}
