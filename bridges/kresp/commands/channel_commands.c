/* SUBSCRIBE, PUBLISH and their like. In a transaction what they do is logged, and done when it is
 * committed. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"

static struct redis_subscriber *subscriber_of(const struct redis_job *job)
{
    return &job->session->subscriber;
}

static enum redis_channel_kind channel_kind_of(const struct redis_job *job)
{
    return *job->command->name == 'p' ? REDIS_PATTERN : REDIS_CHANNEL;
}

/* Tells of the subscription by the command's name; name NULL: there is none. */
static void reply_subscription(struct redis_job *job, const struct kv_slice *name)
{
    struct resp_reply *reply = redis_job_reply(job);
    reply_push(reply, 3);
    reply_bulk_text(reply, job->command->name);
    if (name)
        reply_bulk(reply, *name);
    else
        reply_null(reply);
    reply_integer(reply, (int64_t)redis_subscriber_count(subscriber_of(job)));
}

/* After so many channels others of the thread have their turn before the rest. */
#define CHANNELS_AT_ONCE 1024u

/* Returns the argument to go on with. */
static size_t next_argument(const struct redis_job *job)
{
    return job->steps && job->steps->next > 0 ? job->steps->next : 1;
}

/* Goes on with this argument in the next batch; returns what the command's function returns. */
static bool go_on_with(struct redis_job *job, size_t next)
{
    struct redis_steps *steps = redis_job_steps(job);
    if (steps)
        steps->next = next;
    return !steps;
}

static void subscribe_to(struct redis_job *job, struct kv_slice name)
{
    struct redis_subscriber *subscriber = subscriber_of(job);
    switch (redis_subscriber_want(subscriber, channel_kind_of(job), name, true)) {
    case REDIS_WISH_TAKEN:
        if (!job->run)
            redis_subscriber_settle(subscriber, redis_job_reply(job)->protocol);
        reply_subscription(job, &name);
        break;
    case REDIS_WISH_TOO_MANY:
        reply_error(redis_job_reply(job), "ERR kresp: a user has at most %u patterns",
                    REDIS_PATTERNS_OF_USER);
        break;
    case REDIS_WISH_NO_MEMORY:
        reply_error(redis_job_reply(job),
                    "ERR kresp: no memory for more subscriptions is left (--buffers)");
        break;
    }
}

bool redis_job_awaits_link(struct redis_job *job)
{
    struct channel_link *link = job->session->service->link;
    if (channel_link_join(link))
        return false;
    redis_subscriber_await(subscriber_of(job));
    job->session->is_waiting = !channel_link_join(link);
    return job->session->is_waiting;
}

/* In a transaction EXEC has waited for the link. */
bool answer_subscribe(struct redis_job *job)
{
    size_t first = next_argument(job), i = first;
    if (!job->run && redis_job_awaits_link(job))
        return false;
    for (; i < job->count && i - first < CHANNELS_AT_ONCE; i++)
        subscribe_to(job, job->arguments[i]);
    return i == job->count || go_on_with(job, i);
}

/* Messages that have come go before the reply. */
static void unsubscribe_from(struct redis_job *job, struct kv_slice name)
{
    struct redis_subscriber *subscriber = subscriber_of(job);
    if (redis_subscriber_want(subscriber, channel_kind_of(job), name, false) != REDIS_WISH_TAKEN) {
        reply_error(redis_job_reply(job), "ERR kresp: out of memory");
        return;
    }
    if (!job->run) {
        redis_subscriber_settle(subscriber, redis_job_reply(job)->protocol);
        redis_subscriber_take(subscriber, redis_job_reply(job));
    }
    reply_subscription(job, &name);
}

/* Ends some subscription of the command's kind. */
static void unsubscribe_from_any(struct redis_job *job, struct kv_slice name)
{
    char *copy = batch_memory_allocate(job->memory, name.size);
    if (copy && name.size > 0)
        memcpy(copy, name.data, name.size);
    if (copy)
        unsubscribe_from(job, kv_slice(copy, name.size));
    else
        redis_job_fail(job, "ERR kresp: out of memory");
}

static bool unsubscribe_from_all(struct redis_job *job)
{
    const struct redis_subscriber *subscriber = subscriber_of(job);
    const struct redis_subscription *any = redis_subscriber_any(subscriber, channel_kind_of(job));
    if (!any && next_argument(job) == 1)
        reply_subscription(job, NULL);
    for (size_t i = 0; any && !job->error && i < CHANNELS_AT_ONCE; i++) {
        unsubscribe_from_any(job, any->name);
        any = redis_subscriber_any(subscriber, channel_kind_of(job));
    }
    return !any || job->error || go_on_with(job, 2);
}

bool answer_unsubscribe(struct redis_job *job)
{
    if (job->count == 1)
        return unsubscribe_from_all(job);
    size_t first = next_argument(job), i = first;
    for (; i < job->count && i - first < CHANNELS_AT_ONCE; i++)
        unsubscribe_from(job, job->arguments[i]);
    return i == job->count || go_on_with(job, i);
}

bool answer_publish(struct redis_job *job)
{
    struct redis_subscriber *subscriber = subscriber_of(job);
    struct kv_slice channel = job->arguments[1], message = job->arguments[2];
    if (job->session->service->link &&
        channel.size + message.size + CHANNEL_LINK_HEADER_BYTES >
            redis_store_max_value_bytes(job->session->service->store)) {
        redis_job_fail(job, "%s", REDIS_TOO_LARGE);
        return true;
    }
    if (job->run) {
        if (redis_subscriber_log_message(subscriber, channel, message))
            reply_integer(redis_job_reply(job),
                          (int64_t)redis_subscriber_receivers(subscriber, channel));
        else
            redis_job_fail(job, "ERR kresp: out of memory");
        return true;
    }
    uint64_t receivers = redis_subscriber_publish(subscriber, channel, message);
    redis_subscriber_take(subscriber, redis_job_reply(job)); /* what it has sent to itself */
    reply_integer(redis_job_reply(job), (int64_t)receivers);
    return true;
}

/* PUBSUB --------------------------------------------------------------------------------------- */

bool answer_pubsub_channels(struct redis_job *job)
{
    struct redis_channels *channels = &job->session->service->channels;
    struct kv_slice pattern = job->count == 3 ? job->arguments[2] : kv_slice_from_string("*");
    if (job->count > 3)
        redis_job_fail(job,
                       "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try "
                       "PUBSUB HELP.",
                       (int)job->arguments[1].size, (const char *)job->arguments[1].data);
    else if (!redis_channels_list(channels, pattern, redis_job_reply(job)))
        redis_job_fail(job, "ERR kresp: this pattern takes too long");
    return true;
}

bool answer_pubsub_numsub(struct redis_job *job)
{
    struct redis_channels *channels = &job->session->service->channels;
    reply_array(redis_job_reply(job), 2 * (job->count - 2));
    for (size_t i = 2; i < job->count; i++) {
        reply_bulk(redis_job_reply(job), job->arguments[i]);
        reply_integer(redis_job_reply(job),
                      (int64_t)redis_channels_subscribers(channels, job->arguments[i]));
    }
    return true;
}

bool answer_pubsub_numpat(struct redis_job *job)
{
    reply_integer(redis_job_reply(job),
                  (int64_t)redis_channels_count(&job->session->service->channels, REDIS_PATTERN));
    return true;
}
