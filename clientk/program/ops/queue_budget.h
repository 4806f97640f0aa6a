/*
 * queue_budget: how many bytes of message queues this user has, of those that RLIMIT_MSGQUEUE grants. The
 * kernel counts them for a uid over all its processes, and tells nobody; queues that were unlinked (as the
 * reply queues of all sessions are) are listed nowhere.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_QUEUE_BUDGET_H
#define MQKV_CLIENTK_PROGRAM_OPS_QUEUE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The bytes in use now, found by creating the smallest of queues (97 bytes, named as a reply queue of `base`
 * and removed at once) under one limit after the other; they may change meanwhile. The process has its limit
 * back afterwards; no other thread of it may create queues. UINT64_MAX: more than its limits let it see.
 * False: it cannot be found out, as there are too many queues (ENOSPC) or none may be made. */
bool queue_budget_used(const char *base, uint64_t *used_bytes);

/* The queues of a uid that /dev/mqueue lists. Of those whose attributes may be read, what they take. */
struct queue_listing {
    unsigned all, own; /* queues of anybody, and of the uid */
    uint64_t own_bytes;
    struct queue_holder { /* of own ones, by the name of their server; the first few */
        char name[72];
        unsigned queues;
        uint64_t bytes;
    } holders[8];
    unsigned holder_count;
};

/* False: it is not mounted. Opens the queues for a moment: whoever holds locks on queues loses those. */
bool queue_listing_read(struct queue_listing *listing, uid_t uid);

#endif
