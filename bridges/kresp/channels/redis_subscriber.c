#include "bridges/kresp/channels/redis_subscriber.h"

#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/channels/channel_tree.h"
#include "common/text/glob.h"
#include "common/assert/assert.h"

/* What a subscription takes besides its name, which counts twice: it and its channel, as malloc and
 * the trees have them. */
#define SUBSCRIPTION_BYTES 384u

/* What is logged: a change, or a message, whose bytes follow. */
struct logged_effect {
    struct redis_subscription *subscription; /* NULL: a message */
    bool wanted;
    size_t channel_size, message_size;
};

void redis_subscriber_init(struct redis_subscriber *subscriber, struct redis_channels *channels,
                           struct redis_channel_share *share, struct buffer_owner *owner)
{
    *subscriber =
        (struct redis_subscriber){.channels = channels,
                                  .share = share,
                                  .log.owner = owner,
                                  .inbox.messages = {.bytes.owner = owner, .protocol = 2}};
}

/* Subscriptions -------------------------------------------------------------------------------- */

/* share NULL: of a channel. */
static void **tree_of(struct redis_channels *channels, struct redis_channel_share *share)
{
    return share ? &share->tree : &channels->tree;
}

/* Returns the channel, one reference more; makes it if there is none. NULL: no memory. Under the
 * lock. */
static struct redis_channel *refer_to_channel(struct redis_subscriber *subscriber,
                                              enum redis_channel_kind kind, struct kv_slice name)
{
    struct redis_channel_share *share = kind == REDIS_PATTERN ? subscriber->share : NULL;
    void **tree = tree_of(subscriber->channels, share);
    struct redis_channel *channel = channel_tree_find(tree, name);
    if (!channel) {
        channel = channel_tree_make(tree, sizeof *channel, name);
        if (!channel)
            return NULL;
        channel->kind = kind;
        channel->share = share;
        channel->literal_bytes = share ? glob_literal_prefix(channel->name).size : 0;
    }
    channel->references++;
    return channel;
}

/* Under the lock. */
static void forget_channel(struct redis_channels *channels, struct redis_channel *channel)
{
    if (--channel->references > 0)
        return;
    channel_tree_remove(tree_of(channels, channel->share), channel);
    free(channel);
}

/* Under the lock. */
static enum redis_wish add_to_channels(struct redis_subscriber *subscriber,
                                       struct redis_subscription *subscription,
                                       enum redis_channel_kind kind, struct kv_slice name)
{
    if (kind == REDIS_PATTERN && subscriber->share->patterns == REDIS_PATTERNS_OF_USER)
        return REDIS_WISH_TOO_MANY;
    subscription->channel = refer_to_channel(subscriber, kind, name);
    if (!subscription->channel)
        return REDIS_WISH_NO_MEMORY;
    subscriber->share->patterns += kind == REDIS_PATTERN;
    return REDIS_WISH_TAKEN;
}

static void remove_from_channels(struct redis_subscriber *subscriber,
                                 struct redis_subscription *subscription)
{
    struct redis_channels *channels = subscriber->channels;
    pthread_mutex_lock(&channels->lock);
    subscriber->share->patterns -= subscription->channel->kind == REDIS_PATTERN;
    forget_channel(channels, subscription->channel);
    pthread_mutex_unlock(&channels->lock);
}

/* Adds a subscription that is neither settled nor wanted. */
static enum redis_wish add_subscription(struct redis_subscriber *subscriber,
                                        enum redis_channel_kind kind, struct kv_slice name,
                                        struct redis_subscription **added)
{
    size_t bytes = SUBSCRIPTION_BYTES + 2 * name.size;
    struct buffer_owner *owner = subscriber->log.owner;
    if (!buffer_owner_take(owner, bytes))
        return REDIS_WISH_NO_MEMORY;
    struct redis_subscription *subscription = calloc(1, sizeof *subscription);
    enum redis_wish wish = REDIS_WISH_NO_MEMORY;
    if (subscription) {
        pthread_mutex_lock(&subscriber->channels->lock);
        wish = add_to_channels(subscriber, subscription, kind, name);
        pthread_mutex_unlock(&subscriber->channels->lock);
    }
    if (wish == REDIS_WISH_TAKEN) {
        subscription->name = subscription->channel->name;
        if (!channel_tree_add(&subscriber->trees[kind], subscription)) {
            remove_from_channels(subscriber, subscription);
            wish = REDIS_WISH_NO_MEMORY;
        }
    }
    if (wish != REDIS_WISH_TAKEN) {
        free(subscription);
        buffer_owner_give_back(owner, bytes);
        return wish;
    }
    subscription->inbox = &subscriber->inbox;
    subscription->next = subscriber->first[kind];
    if (subscription->next)
        subscription->next->previous = subscription;
    subscriber->first[kind] = subscription;
    subscriber->is_used = true;
    *added = subscription;
    return REDIS_WISH_TAKEN;
}

/* Frees a subscription that is neither settled nor wanted nor logged. */
static void free_subscription(struct redis_subscriber *subscriber,
                              struct redis_subscription *subscription)
{
    enum redis_channel_kind kind = subscription->channel->kind;
    size_t bytes = SUBSCRIPTION_BYTES + 2 * subscription->name.size;
    channel_tree_remove(&subscriber->trees[kind], subscription);
    if (subscription->previous)
        subscription->previous->next = subscription->next;
    else
        subscriber->first[kind] = subscription->next;
    if (subscription->next)
        subscription->next->previous = subscription->previous;
    remove_from_channels(subscriber, subscription);
    buffer_owner_give_back(subscriber->log.owner, bytes);
    free(subscription);
}

static void want_subscription(struct redis_subscriber *subscriber,
                              struct redis_subscription *subscription, bool wanted)
{
    size_t *count = &subscriber->wanted[subscription->channel->kind];
    if (subscription->is_wanted == wanted)
        return;
    subscription->is_wanted = wanted;
    *count += wanted ? 1 : (size_t)-1;
}

struct redis_subscription *redis_subscriber_any(const struct redis_subscriber *subscriber,
                                                enum redis_channel_kind kind)
{
    struct redis_subscription *subscription = subscriber->first[kind];
    while (subscription && !subscription->is_wanted)
        subscription = subscription->next;
    return subscription;
}

/* The log -------------------------------------------------------------------------------------- */

enum redis_wish redis_subscriber_want(struct redis_subscriber *subscriber,
                                      enum redis_channel_kind kind, struct kv_slice name,
                                      bool wanted)
{
    struct redis_subscription *subscription = channel_tree_find(&subscriber->trees[kind], name);
    if (subscription ? subscription->is_wanted == wanted : !wanted)
        return REDIS_WISH_TAKEN;
    if (!byte_buffer_room(&subscriber->log, sizeof(struct logged_effect))) {
        subscriber->log.failed = false;
        return REDIS_WISH_NO_MEMORY;
    }
    if (!subscription) {
        enum redis_wish wish = add_subscription(subscriber, kind, name, &subscription);
        if (wish != REDIS_WISH_TAKEN)
            return wish;
    }
    const struct logged_effect effect = {.subscription = subscription, .wanted = wanted};
    byte_buffer_append(&subscriber->log, &effect, sizeof effect);
    subscription->logged++;
    want_subscription(subscriber, subscription, wanted);
    return REDIS_WISH_TAKEN;
}

bool redis_subscriber_log_message(struct redis_subscriber *subscriber, struct kv_slice channel,
                                  struct kv_slice message)
{
    const struct logged_effect effect = {.channel_size = channel.size,
                                         .message_size = message.size};
    if (!byte_buffer_room(&subscriber->log, sizeof effect + channel.size + message.size)) {
        subscriber->log.failed = false;
        return false;
    }
    byte_buffer_append(&subscriber->log, &effect, sizeof effect);
    byte_buffer_append(&subscriber->log, channel.data, channel.size);
    byte_buffer_append(&subscriber->log, message.data, message.size);
    return true;
}

uint64_t redis_subscriber_publish(struct redis_subscriber *subscriber, struct kv_slice channel,
                                  struct kv_slice message)
{
    const struct redis_mailbox *mailbox = subscriber->inbox.mailbox;
    const uint32_t sizes[2] = {(uint32_t)channel.size, (uint32_t)message.size};
    if (mailbox && mailbox->outgoing) {
        byte_buffer_append(mailbox->outgoing, sizes, sizeof sizes);
        byte_buffer_append(mailbox->outgoing, channel.data, channel.size);
        byte_buffer_append(mailbox->outgoing, message.data, message.size);
    }
    return redis_channels_publish(subscriber->channels, channel, message);
}

/* Ends what is logged; false: forgets it. */
static void end_log(struct redis_subscriber *subscriber, bool settles)
{
    struct byte_buffer *log = &subscriber->log;
    struct logged_effect effect;
    for (size_t at = log->start; at < log->end;) {
        memcpy(&effect, log->data + at, sizeof effect);
        at += sizeof effect;
        struct redis_subscription *subscription = effect.subscription;
        if (subscription && settles)
            redis_channels_settle(subscriber->channels, subscription, effect.wanted);
        if (subscription && --subscription->logged == 0) {
            want_subscription(subscriber, subscription, subscription->is_settled);
            if (!subscription->is_settled)
                free_subscription(subscriber, subscription);
        }
        if (!subscription && settles)
            redis_subscriber_publish(
                subscriber, kv_slice(log->data + at, effect.channel_size),
                kv_slice(log->data + at + effect.channel_size, effect.message_size));
        at += effect.channel_size + effect.message_size;
    }
    byte_buffer_free(log);
}

void redis_subscriber_settle(struct redis_subscriber *subscriber, int protocol)
{
    if (byte_buffer_size(&subscriber->log) == 0)
        return;
    pthread_mutex_lock(&subscriber->channels->lock);
    subscriber->inbox.messages.protocol = protocol;
    pthread_mutex_unlock(&subscriber->channels->lock);
    end_log(subscriber, true);
}

void redis_subscriber_rewind(struct redis_subscriber *subscriber)
{
    end_log(subscriber, false);
}

uint64_t redis_subscriber_receivers(struct redis_subscriber *subscriber, struct kv_slice channel)
{
    uint64_t receivers = redis_channels_receivers(subscriber->channels, channel);
    uint64_t steps = REDIS_PATTERN_STEPS_OF_USER;
    if (byte_buffer_size(&subscriber->log) == 0)
        return receivers;
    for (enum redis_channel_kind kind = REDIS_CHANNEL; kind < REDIS_CHANNEL_KINDS; kind++)
        for (const struct redis_subscription *own = subscriber->first[kind]; own; own = own->next)
            if (own->is_wanted != own->is_settled &&
                (kind == REDIS_CHANNEL
                     ? kv_slice_equal(own->name, channel)
                     : redis_channels_match(own->name, own->channel->literal_bytes, channel,
                                            &steps)))
                receivers += own->is_wanted ? 1 : UINT64_MAX;
    return receivers;
}

/* The inbox ------------------------------------------------------------------------------------ */

void redis_subscriber_take(struct redis_subscriber *subscriber, struct resp_reply *reply)
{
    if (!subscriber->is_used)
        return;
    pthread_mutex_lock(&subscriber->channels->lock);
    redis_inbox_take(&subscriber->inbox, reply);
    pthread_mutex_unlock(&subscriber->channels->lock);
}

void redis_subscriber_await(struct redis_subscriber *subscriber)
{
    subscriber->is_used = true;
    redis_channels_await(subscriber->channels, &subscriber->inbox);
}

bool redis_subscriber_is_overrun(struct redis_subscriber *subscriber)
{
    pthread_mutex_lock(&subscriber->channels->lock);
    bool is_overrun = subscriber->inbox.is_overrun;
    pthread_mutex_unlock(&subscriber->channels->lock);
    return is_overrun;
}

void redis_subscriber_note_unread(struct redis_subscriber *subscriber, size_t bytes)
{
    if (!subscriber->is_used)
        return;
    pthread_mutex_lock(&subscriber->channels->lock);
    subscriber->inbox.unread_bytes = bytes;
    pthread_mutex_unlock(&subscriber->channels->lock);
}

void redis_subscriber_free(struct redis_subscriber *subscriber)
{
    if (!subscriber->is_used)
        return;
    redis_subscriber_rewind(subscriber);
    for (enum redis_channel_kind kind = REDIS_CHANNEL; kind < REDIS_CHANNEL_KINDS; kind++)
        while (subscriber->first[kind]) {
            struct redis_subscription *subscription = subscriber->first[kind];
            redis_channels_settle(subscriber->channels, subscription, false);
            want_subscription(subscriber, subscription, false);
            free_subscription(subscriber, subscription);
        }
    pthread_mutex_lock(&subscriber->channels->lock);
    redis_channels_forget_waiting(subscriber->channels, &subscriber->inbox);
    redis_inbox_free(&subscriber->inbox);
    pthread_mutex_unlock(&subscriber->channels->lock);
    KV_ASSERT(redis_subscriber_count(subscriber) == 0);
}
