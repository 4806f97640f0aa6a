#include "bridges/kresp/channels/redis_channels.h"

#include <search.h>

#include "bridges/kresp/channels/channel_tree.h"
#include "common/text/glob.h"

/* To look at a pattern takes the time of so many steps; so many literal bytes are compared in the
 * time of one. */
#define LOOK_STEPS      4u
#define LITERALS_A_STEP 16u

bool redis_channels_match(struct kv_slice pattern, size_t literal_bytes, struct kv_slice channel,
                          uint64_t *user_steps)
{
    uint64_t literal_steps = LOOK_STEPS + literal_bytes / LITERALS_A_STEP;
    *user_steps -= literal_steps < *user_steps ? literal_steps : *user_steps;
    if (*user_steps == 0 || !kv_slice_has_prefix(channel, kv_slice(pattern.data, literal_bytes)))
        return false;
    uint64_t most = *user_steps < REDIS_PATTERN_STEPS ? *user_steps : REDIS_PATTERN_STEPS;
    uint64_t steps = most;
    bool matches = glob_matches(pattern, channel, false, &steps);
    *user_steps -= most - steps;
    return matches;
}

static struct redis_channel *find_channel(const struct redis_channels *channels,
                                          struct kv_slice name)
{
    return channel_tree_find(&channels->tree, name);
}

/* To all who are subscribed to it, a channel or, if `pattern` is given, that pattern. */
static void deliver_to_all(const struct redis_channel *subscribed, const struct kv_slice *pattern,
                           struct kv_slice channel, struct kv_slice message)
{
    for (struct redis_subscription *to = subscribed->first; to; to = to->next_of_channel)
        redis_inbox_deliver(to->inbox, pattern, channel, message);
}

/* Returns how many receivers the message has; NULL: it is not sent, and would have. */
static uint64_t send_to_receivers(struct redis_channels *channels, struct kv_slice channel,
                                  const struct kv_slice *message)
{
    uint64_t receivers = 0;
    pthread_mutex_lock(&channels->lock);
    const struct redis_channel *found = find_channel(channels, channel);
    if (found)
        receivers += found->subscribers;
    if (found && message)
        deliver_to_all(found, NULL, channel, *message);
    for (const struct redis_channel_share *share = channels->shares; share; share = share->next) {
        uint64_t steps = REDIS_PATTERN_STEPS_OF_USER;
        const struct redis_channel *pattern = share->first;
        for (; pattern && steps > 0; pattern = pattern->next) {
            __builtin_prefetch(pattern->next);
            if (!redis_channels_match(pattern->name, pattern->literal_bytes, channel, &steps))
                continue;
            receivers += pattern->subscribers;
            if (message)
                deliver_to_all(pattern, &pattern->name, channel, *message);
        }
    }
    pthread_mutex_unlock(&channels->lock);
    return receivers;
}

uint64_t redis_channels_publish(struct redis_channels *channels, struct kv_slice channel,
                                struct kv_slice message)
{
    return send_to_receivers(channels, channel, &message);
}

uint64_t redis_channels_receivers(struct redis_channels *channels, struct kv_slice channel)
{
    return send_to_receivers(channels, channel, NULL);
}

size_t redis_channels_subscribers(struct redis_channels *channels, struct kv_slice channel)
{
    pthread_mutex_lock(&channels->lock);
    const struct redis_channel *found = find_channel(channels, channel);
    size_t count = found ? found->subscribers : 0;
    pthread_mutex_unlock(&channels->lock);
    return count;
}

size_t redis_channels_count(struct redis_channels *channels, enum redis_channel_kind kind)
{
    pthread_mutex_lock(&channels->lock);
    size_t count = channels->counts[kind];
    pthread_mutex_unlock(&channels->lock);
    return count;
}

bool redis_channels_are_used(struct redis_channels *channels)
{
    pthread_mutex_lock(&channels->lock);
    bool used = channels->counts[REDIS_CHANNEL] + channels->counts[REDIS_PATTERN] > 0;
    pthread_mutex_unlock(&channels->lock);
    return used;
}

/* What a list of channels collects. */
struct channel_listing {
    struct kv_slice pattern;
    uint64_t steps;
    struct resp_reply names;
    size_t count;
};

static void list_channel(const void *node, VISIT visit, void *context)
{
    const struct redis_channel *channel = *(struct redis_channel *const *)node;
    struct channel_listing *listing = context;
    if ((visit != postorder && visit != leaf) || channel->subscribers == 0 || listing->steps == 0 ||
        !glob_matches(listing->pattern, channel->name, false, &listing->steps))
        return;
    reply_bulk(&listing->names, channel->name);
    listing->count++;
}

bool redis_channels_list(struct redis_channels *channels, struct kv_slice pattern,
                         struct resp_reply *reply)
{
    struct channel_listing listing = {.pattern = pattern,
                                      .names = {{.owner = reply->bytes.owner}, reply->protocol}};
    pthread_mutex_lock(&channels->lock);
    /* About as many steps as names of usual length need. */
    listing.steps = glob_steps(channels->counts[REDIS_CHANNEL] * 64);
    twalk_r(channels->tree, list_channel, &listing);
    pthread_mutex_unlock(&channels->lock);
    struct byte_buffer *names = &listing.names.bytes;
    bool is_listed = listing.steps > 0;
    if (is_listed && !names->failed) {
        reply_array(reply, listing.count);
        byte_buffer_append(&reply->bytes, names->data + names->start, byte_buffer_size(names));
    }
    reply->bytes.failed |= names->failed;
    byte_buffer_free(names);
    return is_listed;
}

void redis_channels_empty_mailbox(struct redis_channels *channels, struct redis_mailbox *mailbox,
                                  void (*take)(struct redis_inbox *inbox))
{
    pthread_mutex_lock(&channels->lock);
    while (mailbox->first) {
        struct redis_inbox *inbox = mailbox->first;
        mailbox->first = inbox->next_in_mailbox;
        inbox->is_in_mailbox = false;
        take(inbox);
    }
    pthread_mutex_unlock(&channels->lock);
}

void redis_channels_await(struct redis_channels *channels, struct redis_inbox *inbox)
{
    pthread_mutex_lock(&channels->lock);
    if (!inbox->is_waiting) {
        inbox->is_waiting = true;
        inbox->next_waiting = channels->waiting;
        channels->waiting = inbox;
    }
    pthread_mutex_unlock(&channels->lock);
}

void redis_channels_wake(struct redis_channels *channels)
{
    pthread_mutex_lock(&channels->lock);
    while (channels->waiting) {
        struct redis_inbox *inbox = channels->waiting;
        channels->waiting = inbox->next_waiting;
        inbox->is_waiting = false;
        redis_inbox_ring(inbox);
    }
    pthread_mutex_unlock(&channels->lock);
}

void redis_channels_ring(struct redis_channels *channels, struct redis_inbox *inbox)
{
    pthread_mutex_lock(&channels->lock);
    redis_inbox_ring(inbox);
    pthread_mutex_unlock(&channels->lock);
}

void redis_channels_forget_waiting(struct redis_channels *channels, struct redis_inbox *inbox)
{
    struct redis_inbox **link = &channels->waiting;
    if (!inbox->is_waiting)
        return;
    while (*link != inbox)
        link = &(*link)->next_waiting;
    *link = inbox->next_waiting;
    inbox->is_waiting = false;
}

/* The user has patterns from now on, or no more. Under the lock. */
static void list_share(struct redis_channels *channels, struct redis_channel_share *share)
{
    share->previous = NULL;
    share->next = channels->shares;
    if (share->next)
        share->next->previous = share;
    channels->shares = share;
}

static void unlist_share(struct redis_channels *channels, struct redis_channel_share *share)
{
    if (share->previous)
        share->previous->next = share->next;
    else
        channels->shares = share->next;
    if (share->next)
        share->next->previous = share->previous;
}

/* From now on messages come. Under the lock. */
static void join_channel(struct redis_channels *channels, struct redis_subscription *subscription)
{
    struct redis_channel *channel = subscription->channel;
    subscription->previous_of_channel = NULL;
    subscription->next_of_channel = channel->first;
    if (channel->first)
        channel->first->previous_of_channel = subscription;
    channel->first = subscription;
    if (channel->subscribers++ > 0)
        return;
    channels->counts[channel->kind]++;
    struct redis_channel_share *share = channel->share;
    if (!share)
        return;
    if (!share->first)
        list_share(channels, share);
    channel->previous = NULL;
    channel->next = share->first;
    if (share->first)
        share->first->previous = channel;
    share->first = channel;
}

/* From now on no message comes. Under the lock. */
static void leave_channel(struct redis_channels *channels, struct redis_subscription *subscription)
{
    struct redis_channel *channel = subscription->channel;
    if (subscription->previous_of_channel)
        subscription->previous_of_channel->next_of_channel = subscription->next_of_channel;
    else
        channel->first = subscription->next_of_channel;
    if (subscription->next_of_channel)
        subscription->next_of_channel->previous_of_channel = subscription->previous_of_channel;
    if (--channel->subscribers > 0)
        return;
    channels->counts[channel->kind]--;
    struct redis_channel_share *share = channel->share;
    if (!share)
        return;
    if (channel->previous)
        channel->previous->next = channel->next;
    else
        share->first = channel->next;
    if (channel->next)
        channel->next->previous = channel->previous;
    if (!share->first)
        unlist_share(channels, share);
}

void redis_channels_settle(struct redis_channels *channels, struct redis_subscription *subscription,
                           bool settled)
{
    if (subscription->is_settled == settled)
        return;
    pthread_mutex_lock(&channels->lock);
    if (settled)
        join_channel(channels, subscription);
    else
        leave_channel(channels, subscription);
    pthread_mutex_unlock(&channels->lock);
    subscription->is_settled = settled;
}
