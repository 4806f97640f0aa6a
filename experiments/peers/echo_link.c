#include "experiments/peers/echo_link.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/memory/cursor.h"
#include "common/report/error.h"
#include "common/numbers/random.h"
#include "experiments/peers/echo.h"
#include "wire/reply_ring.h"
#include "wire/wait.h"

#define REPLY_TIMEOUT_MS 5000

struct echo_link {
    mqd_t lane, reply;      /* reply: -1 with a ring */
    struct wire_ring *ring; /* NULL: with a reply queue */
    struct wire_waiter waiter;
    struct wire_segment *segment;
    uint32_t segment_bytes;
    char base[ECHO_NAME_BYTES];
    uint32_t slot, client;
    size_t message_bytes;
    uint8_t *message, *answer;
};

/* Takes the first slot that nobody has: creating its queue says so. */
static mqd_t create_reply_queue(const char *base, uint32_t *slot, size_t message_bytes)
{
    struct mq_attr geometry = {.mq_maxmsg = 1, .mq_msgsize = (long)message_bytes};
    char name[ECHO_NAME_BYTES];
    for (*slot = 0; *slot < ECHO_MAX_CLIENTS; ++*slot) {
        echo_reply_name(name, base, *slot);
        mqd_t queue =
            mq_open(name, O_RDONLY | O_CREAT | O_EXCL | O_NONBLOCK | O_CLOEXEC, 0600, &geometry);
        if (queue != (mqd_t)-1 || errno != EEXIST)
            return queue;
    }
    errno = ENOSPC;
    return (mqd_t)-1;
}

/* The same with a ring. */
static struct wire_ring *create_ring(const char *base, uint32_t *slot, size_t message_bytes,
                                     struct kv_error *error)
{
    char name[ECHO_NAME_BYTES];
    for (*slot = 0; *slot < ECHO_MAX_CLIENTS; ++*slot) {
        struct wire_ring *ring;
        int descriptor;
        echo_reply_name(name, base, *slot);
        enum kv_status status =
            wire_ring_create(name, echo_ring_geometry(message_bytes), &descriptor, &ring, error);
        if (status == KV_OK) {
            close(descriptor);
            return ring;
        }
        if (status != KV_EXISTS)
            return NULL;
    }
    return NULL;
}

static mqd_t open_lane(const char *base, unsigned lane)
{
    char name[ECHO_NAME_BYTES];
    echo_lane_name(name, base, lane);
    return mq_open(name, O_WRONLY | O_CLOEXEC);
}

/* Lanes fill up in turn: ten clients each, as many as fit a lane. Past the last: the first
 * again. */
static mqd_t open_lane_of_slot(const char *base, uint32_t slot)
{
    unsigned lanes = 1;
    for (mqd_t probe; lanes < ECHO_MAX_LANES; lanes++, mq_close(probe))
        if ((probe = open_lane(base, lanes)) == (mqd_t)-1)
            break;
    return open_lane(base, slot / ECHO_LANE_DEPTH % lanes);
}

/* The sizes of the lanes are the server's choice, and those of all its queues. False: no server. */
static bool ask_message_bytes(struct echo_link *link)
{
    struct mq_attr geometry = {0};
    mqd_t first = open_lane(link->base, 0);
    if (first == (mqd_t)-1)
        return false;
    bool known = mq_getattr(first, &geometry) == 0;
    mq_close(first);
    link->message_bytes = (size_t)geometry.mq_msgsize;
    return known && (link->message = calloc(2, link->message_bytes)) != NULL;
}

static bool create_segment(struct echo_link *link, struct kv_error *error)
{
    char name[ECHO_NAME_BYTES];
    if (link->segment_bytes == 0)
        return true;
    echo_segment_name(name, link->base, link->slot);
    shm_unlink(name); /* of a client that died with this slot, whose queue was removed by hand */
    return wire_segment_create(name, link->segment_bytes, 0600, &link->segment, error) == KV_OK;
}

/* False: there is neither queue nor ring. */
static bool open_way_back(struct echo_link *link, bool shares_replies, struct kv_error *error)
{
    if (shares_replies)
        link->ring = create_ring(link->base, &link->slot, link->message_bytes, error);
    else
        link->reply = create_reply_queue(link->base, &link->slot, link->message_bytes);
    return link->ring || link->reply != (mqd_t)-1;
}

struct echo_link *echo_link_open(const char *base, uint32_t segment_bytes, bool shares_replies,
                                 struct kv_error *error)
{
    struct echo_link *link = calloc(1, sizeof *link);
    if (!link) {
        kv_error_set(error, KV_NO_MEMORY, "no memory for a client of the echo");
        return NULL;
    }
    *link = (struct echo_link){.reply = (mqd_t)-1,
                               .lane = (mqd_t)-1,
                               .segment_bytes = segment_bytes,
                               .client = (uint32_t)random_secret()};
    snprintf(link->base, sizeof link->base, "%s", base);
    wire_waiter_init(&link->waiter, (struct wire_spin){.mode = WIRE_SPIN_AUTO});
    wire_waiter_allow_short_slices(&link->waiter);
    if (ask_message_bytes(link) && open_way_back(link, shares_replies, error)) {
        link->answer = link->message + link->message_bytes;
        link->lane = open_lane_of_slot(link->base, link->slot);
    }
    if (link->lane == (mqd_t)-1)
        kv_error_set_errno(error, "no echo server at %s, or no queue left", base);
    else if (create_segment(link, error))
        return link;
    echo_link_close(link);
    return NULL;
}

void echo_link_close(struct echo_link *link)
{
    char name[ECHO_NAME_BYTES];
    if (link->segment) {
        echo_segment_name(name, link->base, link->slot);
        shm_unlink(name);
        wire_segment_close(link->segment);
    }
    if (link->reply != (mqd_t)-1) {
        echo_reply_name(name, link->base, link->slot);
        mq_unlink(name);
        mq_close(link->reply);
    }
    if (link->ring) {
        echo_reply_name(name, link->base, link->slot);
        shm_unlink(name);
        wire_ring_close(link->ring);
    }
    if (link->lane != (mqd_t)-1)
        mq_close(link->lane);
    free(link->message);
    free(link);
}

size_t echo_link_message_bytes(const struct echo_link *link)
{
    return link->message_bytes;
}

struct wire_segment *echo_link_segment(struct echo_link *link)
{
    return link->segment;
}

static ssize_t receive(void *context)
{
    struct echo_link *link = context;
    if (link->ring)
        return wire_ring_take(link->ring, link->answer);
    ssize_t got = mq_receive(link->reply, (char *)link->answer, link->message_bytes, NULL);
    return got < 0 && errno == EAGAIN ? 0 : got;
}

/* False: no answer came in time. */
static bool sleep_for_answer(struct echo_link *link)
{
    if (!link->ring)
        return poll(&(struct pollfd){.fd = link->reply, .events = POLLIN}, 1, REPLY_TIMEOUT_MS) !=
               0;
    uint64_t until_ms = clock_monotonic_coarse_ms() + REPLY_TIMEOUT_MS;
    wire_ring_sleep(link->ring, REPLY_TIMEOUT_MS);
    return clock_monotonic_coarse_ms() < until_ms;
}

enum kv_status echo_link_exchange(struct echo_link *link, const struct echo_sizes *sizes)
{
    ssize_t got;
    store_u32(link->message, link->slot);
    store_u32(link->message + 4, (uint32_t)sizes->reply_bytes);
    store_u32(link->message + 8, link->client);
    store_u32(link->message + 12, link->segment_bytes);
    store_u32(link->message + 16, sizes->taken_bytes);
    store_u32(link->message + 20, sizes->given_bytes);
    store_u32(link->message + 24, link->ring != NULL);
    if (mq_send(link->lane, (char *)link->message, sizes->request_bytes, 0) != 0)
        return KV_IO;
    while ((got = wire_wait(&link->waiter, receive, link)) == 0)
        if (!sleep_for_answer(link))
            return KV_TIMEOUT;
    return got < 0 ? KV_IO : KV_OK;
}
