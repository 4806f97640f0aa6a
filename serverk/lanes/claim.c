#include "serverk/lanes/claim.h"

#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "wire/queue.h"

/* How often it is tried again when another daemon ends at the same moment. */
#define CLAIM_ATTEMPTS 10

static enum kv_status refuse_running(const char *name, pid_t owner, struct kv_error *error)
{
    if (owner > 0)
        return kv_error_set(
            error, KV_BUSY,
            "the queue name %s is served by process %ld: stop that daemon, or choose "
            "another name with -m",
            name, (long)owner);
    return kv_error_set(
        error, KV_BUSY,
        "the queue name %s is served by a process that is not visible here: stop that "
        "daemon, or choose another name with -m",
        name);
}

enum kv_status claim_refuse_foreign(const char *name, struct kv_error *error)
{
    return kv_error_set(
        error, KV_DENIED,
        "the message queue %s exists and belongs to another user: choose another name "
        "with -m, or have its owner stop the daemon, or remove it if there is none "
        "(rm /dev/mqueue%s)",
        name, name);
}

/* Opens a NAME.lock that is there. KV_NO_SERVER: there is none. */
static enum kv_status open_present_claim(const char *claim_name, mqd_t *claim,
                                         struct kv_error *error)
{
    enum kv_status status = wire_queue_open(claim_name, true, claim, NULL, error);
    if (status == KV_DENIED)
        return claim_refuse_foreign(claim_name, error);
    if (status == KV_OK && wire_queue_uid(*claim) != geteuid()) {
        mq_close(*claim);
        return claim_refuse_foreign(claim_name, error);
    }
    return status;
}

pid_t claim_owner(const char *base)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    mqd_t claim;
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    if (open_present_claim(name, &claim, NULL) != KV_OK)
        return 0;
    pid_t owner = wire_queue_owner(claim);
    mq_close(claim);
    return owner > 0 ? owner : 0;
}

enum kv_status claim_check(const char *base, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    mqd_t claim;
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    enum kv_status status = open_present_claim(name, &claim, error);
    if (status != KV_OK)
        return status == KV_NO_SERVER ? KV_OK : status;
    pid_t owner = wire_queue_owner(claim);
    mq_close(claim);
    return owner == 0 ? KV_OK : refuse_running(base, owner, error);
}

/* A daemon that ends unlinks NAME.lock while it still holds the lock: whoever opened it before then
 * gets the lock of a queue without a name, and must try again. */
enum kv_status claim_take(const char *base, mqd_t *claim, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    const struct wire_geometry smallest = {.depth = 1, .message_bytes = 1};
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    for (int attempt = 0; attempt < CLAIM_ATTEMPTS; attempt++) {
        enum kv_status status = wire_queue_create(name, smallest, 0600, true, claim, error);
        if (status == KV_EXISTS) /* left by a daemon that is dead, or of one that lives */
            status = open_present_claim(name, claim, error);
        if (status == KV_NO_SERVER)
            continue; /* unlinked between our create and our open */
        if (status != KV_OK) {
            *claim = (mqd_t)-1;
            return status;
        }
        pid_t owner = 0;
        KV_ASSERT(*claim != (mqd_t)-1);
        if (wire_lock_queue(*claim, &owner) != 0) {
            mq_close(*claim);
            *claim = (mqd_t)-1;
            return refuse_running(base, owner, error);
        }
        if (!wire_queue_unlinked(*claim))
            return KV_OK;
        mq_close(*claim);
        *claim = (mqd_t)-1;
    }
    return kv_error_set(error, KV_BUSY,
                        "another daemon starts and stops on %s all the time: choose another name "
                        "with -m",
                        base);
}

void claim_give_up(const char *base, mqd_t claim)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    if (claim == (mqd_t)-1)
        return;
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    mq_unlink(name); /* before the lock goes with the descriptor: see claim_take */
    mq_close(claim);
}
