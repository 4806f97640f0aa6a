#include "serverk/lanes/lane_names.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "serverk/lanes/claim.h"

_Static_assert(LANE_NAMES <= 64, "sets of numbers are bits of a uint64_t");

/* Where the kernel's queues are seen as files, if somebody mounted them there. */
#define MQUEUE_MOUNT "/dev/mqueue"

enum owner { OWNER_NONE, OWNER_SELF, OWNER_OTHER };

/* Describes the owner, as far as it can be known, for people. */
struct owner_text {
    char text[32];
};

static struct owner_text describe_owner(bool known, uid_t uid)
{
    struct owner_text owner = {"another user"};
    if (known)
        snprintf(owner.text, sizeof owner.text, "uid %lu", (unsigned long)uid);
    return owner;
}

/* Finds whose queue has the name. *text is set for OWNER_OTHER. */
static enum kv_status find_owner(const char *name, enum owner *owner, struct owner_text *text,
                                 struct kv_error *error)
{
    mqd_t queue;
    enum kv_status status = wire_queue_open(name, true, &queue, NULL, error);
    *owner = OWNER_NONE;
    if (status == KV_NO_SERVER)
        return KV_OK;
    if (status == KV_DENIED) {
        char path[sizeof MQUEUE_MOUNT + WIRE_QUEUE_NAME_BYTES];
        struct stat facts;
        snprintf(path, sizeof path, MQUEUE_MOUNT "%s", name);
        bool known = stat(path, &facts) == 0;
        *text = describe_owner(known, known ? facts.st_uid : 0);
        *owner = OWNER_OTHER;
        return KV_OK;
    }
    if (status != KV_OK)
        return status;
    uid_t uid = wire_queue_uid(queue);
    mq_close(queue);
    *text = describe_owner(true, uid);
    *owner = uid == geteuid() ? OWNER_SELF : OWNER_OTHER;
    return KV_OK;
}

static uint64_t *foreign_of(struct lane_names *names, enum wire_queue_role role)
{
    return role == WIRE_LANE ? &names->foreign_lanes : &names->foreign_bulk_lanes;
}

static void note_foreign(struct lane_names *names, enum wire_queue_role role, unsigned number,
                         const char *name, const struct owner_text *owner)
{
    KV_ASSERT(number < LANE_NAMES);
    *foreign_of(names, role) |= UINT64_C(1) << number;
    log_warn("the message queue %s belongs to %s: it is left alone, and no lane has that name; "
             "`rm /dev/mqueue%s` removes it",
             name, owner->text, name);
}

static enum kv_status remove_stale_queue(struct lane_names *names, enum wire_queue_role role,
                                         unsigned number, unsigned *removed, struct kv_error *error)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    enum owner owner;
    struct owner_text text;
    wire_queue_name(name, names->base, role, 0, number);
    enum kv_status status = find_owner(name, &owner, &text, error);
    if (status != KV_OK || owner == OWNER_NONE)
        return status;
    if (owner == OWNER_OTHER) {
        if (role == WIRE_LANE && number == 0)
            return claim_refuse_foreign(name, error);
        note_foreign(names, role, number, name, &text);
        return KV_OK;
    }
    if (mq_unlink(name) != 0 && errno != ENOENT)
        return kv_error_set_errno(error, "cannot remove the stale message queue %s", name);
    ++*removed;
    return KV_OK;
}

enum kv_status lane_names_remove_stale(struct lane_names *names, unsigned *removed,
                                       struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (unsigned number = 0; number < LANE_NAMES && status == KV_OK; number++) {
        status = remove_stale_queue(names, WIRE_LANE, number, removed, error);
        if (status == KV_OK)
            status = remove_stale_queue(names, WIRE_BULK_LANE, number, removed, error);
    }
    return status;
}

enum kv_status lane_names_create(struct lane_names *names, enum wire_queue_role role,
                                 struct wire_geometry geometry, mode_t mode, unsigned *number,
                                 mqd_t *queue, struct kv_error *error)
{
    for (; *number < LANE_NAMES; ++*number) {
        char name[WIRE_QUEUE_NAME_BYTES];
        if (*foreign_of(names, role) >> *number & 1)
            continue;
        wire_queue_name(name, names->base, role, 0, *number);
        enum kv_status status = wire_queue_create(name, geometry, mode, true, queue, error);
        if (status != KV_EXISTS)
            return status;
        if (role == WIRE_LANE && *number == 0)
            return claim_refuse_foreign(name, error);
        /* Somebody took the name a moment ago: somebody else, since we have the claim. */
        enum owner owner;
        struct owner_text text = describe_owner(false, 0);
        find_owner(name, &owner, &text, NULL);
        note_foreign(names, role, *number, name, &text);
    }
    return kv_error_set(
        error, KV_EXISTS,
        "others have message queues of so many names %s.%s[0-%u] that too few are "
        "left for %slanes: remove those (`ls -l /dev/mqueue` tells whose they are), or choose "
        "another "
        "name with -m",
        names->base, role == WIRE_LANE ? "l" : "b", LANE_NAMES - 1,
        role == WIRE_LANE ? "" : "bulk ");
}

enum kv_status lane_names_check(const char *base, struct kv_error *error)
{
    enum owner owner;
    struct owner_text text;
    enum kv_status status = find_owner(base, &owner, &text, error);
    return status == KV_OK && owner == OWNER_OTHER ? claim_refuse_foreign(base, error) : status;
}
