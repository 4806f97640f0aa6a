/*
 * redis_channels: who is subscribed to which channel and pattern, in all threads of kresp, and the
 * way of a message to them.
 *
 * A message is written into the inbox of each of its receivers (redis_inbox.h).
 *
 * Names are found in trees, so that nobody can choose names that are slow to find.
 *
 * Threads: any; the lock covers all of it.
 */
#ifndef MQKV_KRESP_CHANNELS_REDIS_CHANNELS_H
#define MQKV_KRESP_CHANNELS_REDIS_CHANNELS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/channels/redis_inbox.h"
#include "bridges/kresp/protocol/resp_reply.h"
#include "mqkv/slice.h"

/* Each message is compared with all patterns: a user has at most so many, and a comparison takes at
 * most so many steps (glob.h), or the pattern does not match. All patterns of a user together take
 * at most so many for one message, the newest first: those that are left then do not match. So many
 * suffice to compare the literal beginnings of all, and for some thousand bytes that match. */
#define REDIS_PATTERNS_OF_USER      4096u
#define REDIS_PATTERN_STEPS         4096u
#define REDIS_PATTERN_STEPS_OF_USER (20u * 1024)

enum redis_channel_kind { REDIS_CHANNEL, REDIS_PATTERN, REDIS_CHANNEL_KINDS };

struct redis_subscription;

/* A channel that is in somebody's subscriptions, or a pattern that is in those of one user. The
 * name is first: trees compare it. */
struct redis_channel {
    struct kv_slice name;
    struct redis_channel_share *share;     /* of a pattern: its user's; NULL: a channel */
    size_t literal_bytes;                  /* of a pattern: with which all that matches begins */
    struct redis_channel *previous, *next; /* of a pattern: in the list of its user's */
    struct redis_subscription *first;      /* those to whom messages go */
    size_t subscribers;                    /* their number; 0: nobody, it is wanted only */
    size_t references;                     /* of subscriptions */
    enum redis_channel_kind kind;
};

/* A client's subscription. The channels know of it if it is settled. */
struct redis_subscription {
    struct kv_slice name;          /* the channel's; first: trees compare it */
    struct redis_channel *channel; /* whose `references` counts it */
    struct redis_inbox *inbox;
    struct redis_subscription *previous, *next; /* in its client's list */
    bool is_settled;                            /* messages come */
    bool is_wanted;                             /* they will come once what is logged has settled */
    size_t logged;                              /* how often the log of its client names it */
    /* Of the channels, if it is settled: */
    struct redis_subscription *previous_of_channel, *next_of_channel;
};

/* The patterns of a user; start from {0}. */
struct redis_channel_share {
    size_t patterns;             /* of all subscriptions */
    void *tree;                  /* of struct redis_channel, by tsearch(3) */
    struct redis_channel *first; /* the list of those that have subscribers, the newest first */
    struct redis_channel_share *previous, *next; /* if it has any: in the list of such users */
};

/* Start from {0}. */
struct redis_channels {
    pthread_mutex_t lock;
    void *tree;                         /* of struct redis_channel, by tsearch(3): no patterns */
    struct redis_channel_share *shares; /* the list of users who have patterns */
    size_t counts[REDIS_CHANNEL_KINDS]; /* of those that have subscribers; patterns for each user */
    struct redis_inbox *waiting;        /* whose clients wait for redis_channels_wake */
};

/* Sends the message to all who are subscribed to the channel, or to a pattern that it matches.
 * Returns how many times it was sent. */
uint64_t redis_channels_publish(struct redis_channels *channels, struct kv_slice channel,
                                struct kv_slice message);

/* Returns how many times it would be sent. */
uint64_t redis_channels_receivers(struct redis_channels *channels, struct kv_slice channel);

/* Returns the number of subscribers of the channel, patterns left aside. */
size_t redis_channels_subscribers(struct redis_channels *channels, struct kv_slice channel);

/* Returns how many channels, or patterns, have subscribers. */
size_t redis_channels_count(struct redis_channels *channels, enum redis_channel_kind kind);

/* Returns true if somebody is subscribed to anything. */
bool redis_channels_are_used(struct redis_channels *channels);

/* Replies an array of the channels that have subscribers and match. False: the pattern takes more
 * steps than it may, and nothing is replied. */
bool redis_channels_list(struct redis_channels *channels, struct kv_slice pattern,
                         struct resp_reply *reply);

/* Returns true if the pattern, which begins with so many literal bytes, matches the channel in the
 * steps that it may take; these are taken off those that its user has left for the message. */
bool redis_channels_match(struct kv_slice pattern, size_t literal_bytes, struct kv_slice channel,
                          uint64_t *user_steps);

/* Calls `take` for each inbox of the mailbox, which is empty then; it must not use the channels. */
void redis_channels_empty_mailbox(struct redis_channels *channels, struct redis_mailbox *mailbox,
                                  void (*take)(struct redis_inbox *inbox));

/* The client waits until the next redis_channels_wake, which rings its inbox. Whoever waits for
 * something looks for it afterwards, so that it cannot come in between. */
void redis_channels_await(struct redis_channels *channels, struct redis_inbox *inbox);
void redis_channels_wake(struct redis_channels *channels);

/* The inbox's client has something new (redis_inbox_ring). */
void redis_channels_ring(struct redis_channels *channels, struct redis_inbox *inbox);

/* The inbox waits no more. Under the lock. */
void redis_channels_forget_waiting(struct redis_channels *channels, struct redis_inbox *inbox);

/* Begins, or ends, to send to the subscription. */
void redis_channels_settle(struct redis_channels *channels, struct redis_subscription *subscription,
                           bool settled);

#endif
