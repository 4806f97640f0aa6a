/*
 * fragments: messages of one session that are larger than its queues take: requests that arrive in
 * PARTs, and replies that go out in REPLY_PARTs, each fetched with MORE. A session has at most one
 * request being assembled and FRAGMENTS_MAX_STORED replies waiting; all sessions together take no
 * more memory for them than the budget they share, and those of one user, unless it is the
 * daemon's, no more than a part of it. A request takes as much as has come of it. When the budget
 * is short, what has not got on for FRAGMENTS_PATIENCE_MS is given up.
 */
#ifndef MQKV_SERVERK_SESSION_FRAGMENTS_H
#define MQKV_SERVERK_SESSION_FRAGMENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/status.h"
#include "wire/message.h"

/* A whole request or reply may be this much larger than the largest value: room for the longest key
 * and every other field. */
#define FRAGMENTS_EXTRA_BYTES (128u << 10)

#define FRAGMENTS_MAX_STORED 2u

#define FRAGMENTS_PATIENCE_MS 5000u

/* Users whose numbers leave the same rest share their part. */
#define FRAGMENTS_USERS 1024u

/* Start from {0}, with the first group set. */
struct fragment_budget {
    uint64_t max_bytes;
    uint64_t user_max_bytes;  /* for all sessions of one user; 0: as max_bytes */
    uid_t owner;              /* the user whom that does not concern */
    size_t message_max_bytes; /* of one request or reply as a whole */

    _Atomic uint64_t used_bytes;
    _Atomic uint64_t user_bytes[FRAGMENTS_USERS];
    pthread_mutex_t lock;    /* below; taken within fragments.lock */
    struct fragments *first; /* those that have taken of it */
};

/* A whole message, on the heap. */
struct fragmented_message {
    uint8_t *data; /* NULL: none */
    size_t size;
    size_t done;    /* received, or sent */
    size_t charged; /* to the budget: what memory it has */
    uid_t uid;      /* whose part that is of */
    uint64_t request_id;
};

/* The fragments of one session. */
struct fragments {
    pthread_mutex_t lock;
    uid_t uid; /* constant */
    struct fragmented_message assembly;
    struct fragmented_message stored[FRAGMENTS_MAX_STORED];
    unsigned reserved;      /* replies that may still be stored, beside those that are */
    uint64_t progress_ms;   /* when something of it was last received or fetched */
    uint64_t given_up_part; /* the request whose parts were given up; 0: none */
    uint64_t given_up_reply;
    bool listed; /* in budget->first */
    struct fragments *previous, *next;
};

/* Prepares the fragments of a session whose client is of the user `uid`. */
void fragments_init(struct fragments *fragments, uid_t uid);

/* Frees what is under way. */
void fragments_clear(struct fragments *fragments, struct fragment_budget *budget);

/* Takes the next part of a request. KV_OK: taken, and if it was the last, *whole is the message
 * (free with fragmented_message_free); else whole->data is NULL. KV_VALUE_TOO_BIG, KV_OVERLOADED
 * (budget, or the earlier parts were given up for it), KV_NO_MEMORY; KV_BAD_REQUEST: not the part
 * that comes next (the assembly is given up). A part with offset 0 starts anew. */
enum kv_status fragments_take_part(struct fragments *fragments, struct fragment_budget *budget,
                                   uint64_t request_id, const struct wire_part *part,
                                   struct fragmented_message *whole);

/* Sets aside the right to store one reply, before operations are executed whose results may not fit
 * a message. False: too many wait already. */
bool fragments_reserve(struct fragments *fragments, struct fragment_budget *budget);
void fragments_cancel(struct fragments *fragments, struct fragment_budget *budget);

/* Stores a copy of the reply under a reservation, which is used up. False: out of memory. */
bool fragments_store(struct fragments *fragments, struct fragment_budget *budget,
                     uint64_t request_id, const void *data, size_t size);

/* Returns whether the stored reply to request_id was given up for want of memory, not being
 * fetched. */
bool fragments_reply_given_up(struct fragments *fragments, uint64_t request_id);

/* Writes the fragment from `offset` on of the stored reply to header->request_id, as much as the
 * cursor has room for, as a REPLY_PART under that header; frees the reply after its last fragment.
 * False: no such reply is stored, or this is not the fragment that comes next. */
bool fragments_next_fragment(struct fragments *fragments, struct fragment_budget *budget,
                             const struct wire_header *header, uint32_t offset,
                             struct write_cursor *cursor);

void fragmented_message_free(struct fragmented_message *message, struct fragment_budget *budget);

#endif
