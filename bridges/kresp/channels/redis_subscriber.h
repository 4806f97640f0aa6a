/*
 * redis_subscriber: the channels and patterns that one client has subscribed to, and its inbox.
 *
 * What SUBSCRIBE and PUBLISH do in a transaction must not happen before it is committed, and their
 * replies count as if it had: a change is `wanted` first, and logged in order with the messages
 * that are published; redis_subscriber_settle does it all, redis_subscriber_rewind forgets it.
 *
 * Threads: a subscriber belongs to the thread of its client; what says so is under the lock of the
 * channels.
 */
#ifndef MQKV_KRESP_CHANNELS_REDIS_SUBSCRIBER_H
#define MQKV_KRESP_CHANNELS_REDIS_SUBSCRIBER_H

#include "bridges/kresp/channels/redis_channels.h"

struct redis_subscriber {
    struct redis_channels *channels;
    struct redis_channel_share *share; /* of its user */
    void *trees[REDIS_CHANNEL_KINDS];  /* of struct redis_subscription, by tsearch(3) */
    struct redis_subscription *first[REDIS_CHANNEL_KINDS];
    size_t wanted[REDIS_CHANNEL_KINDS]; /* the number of those that are wanted */
    struct byte_buffer log;             /* what is to be settled */
    bool is_used;                       /* it has been subscribed, if only for a while, or waited */
    struct redis_inbox inbox;           /* under the lock of the channels */
};

/* Makes a client a subscriber of nothing. `channels`, `share` and `owner`, to whom its memory is
 * counted, outlive it. */
void redis_subscriber_init(struct redis_subscriber *subscriber, struct redis_channels *channels,
                           struct redis_channel_share *share, struct buffer_owner *owner);

/* Ends all subscriptions, and forgets the inbox. */
void redis_subscriber_free(struct redis_subscriber *subscriber);

enum redis_wish { REDIS_WISH_TAKEN, REDIS_WISH_TOO_MANY, REDIS_WISH_NO_MEMORY };

/* Wants the subscription, or wants it no more; logs what is to be done for it. */
enum redis_wish redis_subscriber_want(struct redis_subscriber *subscriber,
                                      enum redis_channel_kind kind, struct kv_slice name,
                                      bool wanted);

/* Logs a message to be published; false: no memory. */
bool redis_subscriber_log_message(struct redis_subscriber *subscriber, struct kv_slice channel,
                                  struct kv_slice message);

/* Publishes the message now. Returns how many times it was sent in this kresp. */
uint64_t redis_subscriber_publish(struct redis_subscriber *subscriber, struct kv_slice channel,
                                  struct kv_slice message);

/* Returns how many receivers the message would have, if all was settled that is logged. */
uint64_t redis_subscriber_receivers(struct redis_subscriber *subscriber, struct kv_slice channel);

/* Does what is logged, in order, or forgets it. protocol: of the messages from now on. */
void redis_subscriber_settle(struct redis_subscriber *subscriber, int protocol);
void redis_subscriber_rewind(struct redis_subscriber *subscriber);

/* Returns some subscription of the kind that is wanted; NULL: there is none. */
struct redis_subscription *redis_subscriber_any(const struct redis_subscriber *subscriber,
                                                enum redis_channel_kind kind);

/* Returns how many channels and patterns the client is subscribed to, as it is told. */
static inline size_t redis_subscriber_count(const struct redis_subscriber *subscriber)
{
    return subscriber->wanted[REDIS_CHANNEL] + subscriber->wanted[REDIS_PATTERN];
}

/* Moves what is in the inbox behind the replies; from now on it is written in the protocol of
 * `reply`. */
void redis_subscriber_take(struct redis_subscriber *subscriber, struct resp_reply *reply);

/* The client waits for redis_channels_wake (redis_channels_await). */
void redis_subscriber_await(struct redis_subscriber *subscriber);

/* Returns true if the inbox is overrun, so that the connection has to end. */
bool redis_subscriber_is_overrun(struct redis_subscriber *subscriber);

/* Says how much of the replies is not sent yet. */
void redis_subscriber_note_unread(struct redis_subscriber *subscriber, size_t bytes);

#endif
