#include "wire/entrance.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"
#include "wire/own_user.h"
#include "wire/queue.h"

/* Where queues can be seen as files, if somebody mounted their file system there. */
#define MQUEUE_MOUNT "/dev/mqueue"

/* Finds out who owns NAME, which this user may not open: as the mounted file system of the queues
 * says, if *open_queue is of the same file system. False: that cannot be seen. */
static bool entrance_find_owner(const char *base, const struct stat *open_queue, uid_t *owner)
{
    char path[sizeof MQUEUE_MOUNT + WIRE_QUEUE_NAME_BYTES];
    struct stat facts;
    snprintf(path, sizeof path, MQUEUE_MOUNT "%s", base);
    if (stat(path, &facts) != 0 || facts.st_dev != open_queue->st_dev)
        return false;
    *owner = facts.st_uid;
    return true;
}

/* Checks that `queue`, called `name`, is the server's: any user may create a queue of that name. */
static enum kv_status entrance_check_owner(const char *base, const char *name, mqd_t queue,
                                           const uid_t *server_uid, struct kv_error *error)
{
    struct stat facts;
    uid_t owner;
    if (fstat((int)queue, &facts) != 0)
        return kv_error_set_errno(error, "cannot examine the message queue %s", name);
    if (server_uid)
        owner = *server_uid;
    else if (facts.st_uid == 0 || wire_uid_is_own(facts.st_uid))
        return KV_OK; /* these could take NAME as well */
    else if (!entrance_find_owner(base, &facts, &owner))
        return kv_error_set(
            error, KV_DENIED,
            "uid %u may not send to the message queue %s. There is one for readers, %s, of uid %u; "
            "whether that is the server's user cannot be seen here (/dev/mqueue): name the user "
            "that the server runs as (server_uid, MQKV_SERVER_UID, clientk --server-uid)",
            (unsigned)geteuid(), base, name, (unsigned)facts.st_uid);
    if (facts.st_uid == owner)
        return KV_OK;
    return kv_error_set(error, KV_DENIED,
                        "the message queue %s, for readers, belongs to uid %u, and %s to uid %u: "
                        "they do not belong to one server, and nothing was sent",
                        name, (unsigned)facts.st_uid, base, (unsigned)owner);
}

enum kv_status wire_entrance_open(const char *base, const uid_t *server_uid, mqd_t *queue,
                                  struct wire_geometry *geometry, bool *reads_only,
                                  struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    *reads_only = false;
    enum kv_status status = wire_queue_open(base, true, queue, geometry, error);
    if (status != KV_DENIED)
        return status;
    wire_queue_name(name, base, WIRE_READ_LANE, 0, 0);
    if (wire_queue_open(name, true, queue, geometry, NULL) != KV_OK)
        return status;
    status = entrance_check_owner(base, name, *queue, server_uid, error);
    *reads_only = status == KV_OK;
    if (status != KV_OK)
        mq_close(*queue);
    return status;
}
