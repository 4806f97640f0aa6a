/*
 * redis_inbox: the messages that one client is still to be sent, as the bytes that it will be sent.
 *
 * Whoever publishes writes them, in any thread, and waits for nobody; the client's thread is woken
 * by its mailbox, and moves them to what it sends. They count to the client's user. An inbox is
 * overrun if its client has REDIS_INBOX_BYTES unread, or its user has no memory left: nothing comes
 * any more, and its thread closes the connection.
 *
 * Threads: any; inboxes and mailboxes are under the lock of the channels (redis_channels.h).
 */
#ifndef MQKV_KRESP_CHANNELS_REDIS_INBOX_H
#define MQKV_KRESP_CHANNELS_REDIS_INBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "bridges/kresp/protocol/resp_reply.h"
#include "mqkv/slice.h"

/* As the limit of Redis that ends a subscriber at once (client-output-buffer-limit). */
#define REDIS_INBOX_BYTES ((size_t)32 * 1024 * 1024)

struct redis_inbox;

/* Those inboxes of a thread's clients that have something new; and what its clients publish. */
struct redis_mailbox {
    struct redis_inbox *first;
    struct byte_buffer *outgoing; /* the thread's own: messages for other kresp; NULL: none go */
    void (*wake)(void *context);  /* called from any thread when the first has come */
    void *context;
};

struct redis_inbox {
    struct resp_reply messages;
    size_t unread_bytes;           /* what was taken out, or replied, and is not sent yet */
    struct redis_mailbox *mailbox; /* of its thread, set once; NULL: nobody is woken */
    struct redis_inbox *next_in_mailbox;
    bool is_in_mailbox;
    struct redis_inbox *next_waiting; /* in the list of redis_channels_await */
    bool is_waiting;
    bool is_overrun;
};

/* Writes the message into the inbox. pattern NULL: its client is subscribed to the channel. */
void redis_inbox_deliver(struct redis_inbox *inbox, const struct kv_slice *pattern,
                         struct kv_slice channel, struct kv_slice message);

/* Puts the inbox into its mailbox, and wakes the thread: it has something new, or its client goes
 * on. */
void redis_inbox_ring(struct redis_inbox *inbox);

/* Moves what is there behind the replies; what comes later is in the protocol of `reply`. */
void redis_inbox_take(struct redis_inbox *inbox, struct resp_reply *reply);

/* Takes the inbox out of its mailbox, and forgets what it has. */
void redis_inbox_free(struct redis_inbox *inbox);

#endif
