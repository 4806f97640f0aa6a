#include "clientk/session/reply_path.h"

#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/time/clock.h"
#include "wire/own_user.h"
#include "wire/stale_names.h"

/* How many names to try: one is taken only if a process of the same pid ended in its handshake. */
#define NAME_ATTEMPTS     64u
/* How long to wait for bytes in queues: the server closes the queues of sessions a moment after
 * their BYE. */
#define LIMIT_PATIENCE_MS 50u
#define LIMIT_STEP_MS     5u

#define CAPABILITY_DAC_OVERRIDE 1u /* CAP_DAC_OVERRIDE of linux/capability.h */

/* Queues --------------------------------------------------------------------------------------- */

/* Creates the reply queue under a name that is not taken. */
static enum kv_status try_reply_queue(struct connection *connection,
                                      char name[WIRE_QUEUE_NAME_BYTES], struct kv_error *error)
{
    enum kv_status status = KV_EXISTS;
    for (unsigned i = 0; i < NAME_ATTEMPTS && status == KV_EXISTS; i++) {
        connection_new_name(connection, WIRE_REPLY_QUEUE, name);
        status =
            wire_queue_create_ladder(name, connection->reply_ladder, 0600, true,
                                     &connection->reply_queue, &connection->reply_geometry, error);
    }
    return status;
}

static enum kv_status create_reply_queue(struct connection *connection,
                                         char name[WIRE_QUEUE_NAME_BYTES], uint64_t deadline_ms,
                                         struct kv_error *error)
{
    enum kv_status status = try_reply_queue(connection, name, error);
    uint64_t patience_ms = clock_monotonic_coarse_ms() + LIMIT_PATIENCE_MS;
    while (status == KV_LIMIT &&
           clock_monotonic_coarse_ms() < (deadline_ms < patience_ms ? deadline_ms : patience_ms)) {
        if (!wire_stale_names_remove_again(connection->settings->queue))
            clock_sleep_ms(LIMIT_STEP_MS);
        status = try_reply_queue(connection, name, error);
    }
    if (status == KV_EXISTS)
        return kv_error_set(error, KV_LIMIT,
                            "%u names of reply queues up to %s are taken: remove what dead "
                            "processes left (ls -l /dev/mqueue)",
                            NAME_ATTEMPTS, name);
    return status;
}

/* What /proc/PID/status says of the server. */
struct server_facts {
    bool opens_everything;
    bool in_group;
};

/* Returns true if the numbers of the line have the group among them. */
static bool line_has_group(const char *numbers, gid_t group)
{
    char *end;
    for (unsigned long number; number = strtoul(numbers, &end, 10), end != numbers; numbers = end)
        if (number == group)
            return true;
    return false;
}

/* False: they cannot be read. */
static bool read_server_facts(pid_t server, gid_t group, struct server_facts *facts)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)server);
    FILE *status = fopen(path, "re");
    if (!status)
        return false;
    *facts = (struct server_facts){0};
    while (fgets(line, sizeof line, status)) {
        if (strncmp(line, "CapEff:", 7) == 0)
            facts->opens_everything = strtoull(line + 7, NULL, 16) >> CAPABILITY_DAC_OVERRIDE & 1;
        else if (strncmp(line, "Gid:", 4) == 0)
            facts->in_group |= line_has_group(line + 4, group);
        else if (strncmp(line, "Groups:", 7) == 0)
            facts->in_group |= line_has_group(line + 7, group);
    }
    fclose(status);
    return true;
}

/* The mode that the reply queue needs (reply_path.h): by the owner and group of the server's lane,
 * and by what /proc says of the server, a pid or 0: unknown. *group: with 0620. */
static mode_t reply_queue_mode(mqd_t lane, pid_t server, gid_t *group)
{
    struct stat queue;
    struct server_facts facts;
    if (fstat((int)lane, &queue) != 0)
        return 0622;
    if (wire_uid_is_own(queue.st_uid))
        return 0600;
    bool known = server > 0 && read_server_facts(server, queue.st_gid, &facts);
    if (queue.st_uid == 0 && (!known || facts.opens_everything))
        return 0600;
    *group = queue.st_gid;
    return known && facts.in_group && wire_gid_is_own(queue.st_gid) ? 0620 : 0622;
}

/* Lets the server send to the reply queue, which was created with mode 0600. */
static enum kv_status let_server_send(const struct connection *connection, struct kv_error *error)
{
    mqd_t queue = connection->reply_queue;
    gid_t group = (gid_t)-1;
    mode_t mode = reply_queue_mode(connection->lane, (pid_t)connection->welcome.server_pid, &group);
    if (mode == 0600)
        return KV_OK;
    bool group_given = mode == 0620 && fchown((int)queue, (uid_t)-1, group) == 0;
    if (fchmod((int)queue, group_given ? 0620 : 0622) == 0)
        return KV_OK;
    return kv_error_set_errno(error, "cannot let the server send to the reply queue");
}

/* Rings ---------------------------------------------------------------------------------------- */

const char *ring_hindrance_explain(enum ring_hindrance hindrance)
{
    static const char *const clauses[] = {
        [RING_POSSIBLE] = NULL,
        [RING_NOT_WANTED] = "this client asks for a reply queue (replies, MQKV_REPLIES)",
        [RING_OTHER_USER] = "the server belongs to another user",
        [RING_NOT_OFFERED] = "the server does not offer it (serverk --replies queue, or an older "
                             "version)",
        [RING_OTHER_MEMORY] = "the server sees another /dev/shm (a container or mount namespace of "
                              "its own)",
        [RING_NO_MEMORY] = "no shared memory could be created (df /dev/shm)",
        [RING_EVENT_LOOP] = "an event loop waits for a descriptor (clientk_pipeline_fd)"};
    KV_ASSERT(hindrance < sizeof clauses / sizeof clauses[0]);
    return clauses[hindrance];
}

static enum ring_hindrance find_ring_hindrance(const struct connection *connection)
{
    if (connection->epoll >= 0)
        return RING_EVENT_LOOP;
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

/* Creates a ring of the geometry that the best reply queue would have. */
static enum kv_status create_reply_ring(struct connection *connection,
                                        char name[WIRE_QUEUE_NAME_BYTES])
{
    enum kv_status status = KV_EXISTS;
    int object = -1;
    connection->reply_geometry = connection->reply_ladder[0];
    for (unsigned i = 0; i < NAME_ATTEMPTS && status == KV_EXISTS; i++) {
        connection_new_name(connection, WIRE_REPLY_RING, name);
        status =
            wire_ring_create(name, connection->reply_geometry, &object, &connection->ring, NULL);
    }
    if (status == KV_OK)
        connection->reply_queue = (mqd_t)object;
    return status;
}

/* Either --------------------------------------------------------------------------------------- */

static enum kv_status create_ring_or_queue(struct connection *connection,
                                           char name[WIRE_QUEUE_NAME_BYTES], uint64_t deadline_ms,
                                           struct kv_error *error)
{
    connection->hindrance = find_ring_hindrance(connection);
    if (connection->hindrance == RING_POSSIBLE && create_reply_ring(connection, name) == KV_OK)
        return KV_OK;
    if (connection->hindrance == RING_POSSIBLE)
        connection->hindrance = RING_NO_MEMORY;
    if (connection->settings->replies == WIRE_REPLIES_SHARED &&
        connection->hindrance != RING_EVENT_LOOP)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "the replies of %s cannot come through shared memory, as asked for "
                            "(replies, MQKV_REPLIES): %s",
                            connection->settings->queue,
                            ring_hindrance_explain(connection->hindrance));
    return create_reply_queue(connection, name, deadline_ms, error);
}

enum kv_status reply_path_make(struct connection *connection, char name[WIRE_QUEUE_NAME_BYTES],
                               uint64_t deadline_ms, struct kv_error *error)
{
    KV_ASSERT(!connection->ring && !connection->received && connection->reply_queue == (mqd_t)-1);
    enum kv_status status = create_ring_or_queue(connection, name, deadline_ms, error);
    if (status != KV_OK)
        return status;
    connection->received = wire_queue_buffer(connection->reply_geometry.message_bytes);
    if (!connection->received)
        status = kv_error_set(error, KV_NO_MEMORY, "no memory for a session");
    else if (wire_lock_queue(connection->reply_queue, NULL) != 0)
        status = kv_error_set_errno(error, "cannot lock the reply queue %s", name);
    else if (!connection->ring) /* a ring is for the server's own user */
        status = let_server_send(connection, error);
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
