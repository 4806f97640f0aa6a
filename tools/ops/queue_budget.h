/*
 * queue_budget: how many of the bytes of message queues that RLIMIT_MSGQUEUE grants this user has
 * in use. The kernel counts them per uid over all its processes and does not report the count;
 * unlinked queues, such as the reply queues of all sessions, are listed nowhere.
 */
#ifndef MQKV_TOOLS_OPS_QUEUE_BUDGET_H
#define MQKV_TOOLS_OPS_QUEUE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Finds the bytes in use now: it creates the smallest possible queue (97 bytes, named as a reply
 * queue of `base` and removed at once) under one limit after another; the bytes may change
 * meanwhile. It restores the limit of the process at the end; no other thread of the process may
 * create queues meanwhile. UINT64_MAX: more than the limits can show. False: unknown, because there
 * are too many queues (ENOSPC) or none may be created. */
bool queue_budget_used(const char *base, uint64_t *used_bytes);

/* The queues of a uid that /dev/mqueue lists, and the bytes of those whose attributes can be
 * read. */
struct queue_listing {
    unsigned all, own; /* queues of all users, and of the uid */
    uint64_t own_bytes;
    struct queue_holder { /* own queues, grouped by their server; the first few servers */
        char name[72];
        unsigned queues;
        uint64_t bytes;
    } holders[8];
    unsigned holder_count;
};

/* Reads the list. False: /dev/mqueue is not mounted. Opens the queues for a moment: a process that
 * holds locks on them loses these locks. */
bool queue_listing_read(struct queue_listing *listing, uid_t uid);

#endif
