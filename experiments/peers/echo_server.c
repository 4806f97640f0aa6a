/*
 * echo_server: the server of the ceiling (echo.h): one thread, several lanes, the wait rule of
 * mqkv.
 *
 *     echo_server NAME LANES MESSAGE_BYTES
 *
 * Ends on SIGTERM or SIGINT and removes its lanes.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/memory/cursor.h"
#include "common/text/parse.h"
#include "experiments/peers/echo.h"
#include "wire/reply_ring.h"
#include "wire/value_segment.h"
#include "wire/wait.h"

#define MAX_SEGMENT_BYTES ((uint32_t)64 << 20)

/* What the server has of a client. */
struct echo_client {
    mqd_t reply;            /* -1: not yet opened, or it has a ring */
    struct wire_ring *ring; /* NULL: not yet mapped, or it has a queue */
    uint32_t number;
    struct wire_segment *segment; /* NULL: it has none */
};

struct echo_server {
    const char *name;
    unsigned lanes;
    size_t message_bytes;
    mqd_t lane[ECHO_MAX_LANES];
    unsigned turn;
    struct echo_client clients[ECHO_MAX_CLIENTS];
    uint8_t *message;
    uint8_t *value; /* where values out of segments go, and those into them come from */
    uint32_t value_bytes;
};

static volatile sig_atomic_t stopping;

static void stop(int signal_number)
{
    (void)signal_number;
    stopping = 1;
}

static ssize_t receive(void *context)
{
    struct echo_server *server = context;
    for (unsigned i = 0; i < server->lanes; i++) {
        server->turn = (server->turn + 1) % server->lanes;
        ssize_t got = mq_receive(server->lane[server->turn], (char *)server->message,
                                 server->message_bytes, NULL);
        if (got >= 0 || errno != EAGAIN)
            return got;
    }
    return 0;
}

static struct wire_ring *map_ring(const char *name, size_t message_bytes)
{
    struct kv_error error = {0};
    struct wire_ring *ring = NULL;
    int descriptor;
    if (wire_ring_open(name, &descriptor, &error) == KV_OK) {
        wire_ring_map(descriptor, echo_ring_geometry(message_bytes), &ring, &error);
        close(descriptor);
    }
    if (!ring)
        warnx("%s", error.text);
    return ring;
}

static void meet_client(struct echo_server *server, uint32_t slot, uint32_t number,
                        uint32_t segment_bytes, bool shares_replies)
{
    struct echo_client *client = &server->clients[slot];
    char name[ECHO_NAME_BYTES];
    if (client->reply != (mqd_t)-1)
        mq_close(client->reply);
    wire_ring_close(client->ring);
    wire_segment_close(client->segment);
    echo_reply_name(name, server->name, slot);
    *client = (struct echo_client){.reply = (mqd_t)-1, .number = number};
    if (shares_replies)
        client->ring = map_ring(name, server->message_bytes);
    else
        client->reply = mq_open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (segment_bytes == 0 || segment_bytes > MAX_SEGMENT_BYTES)
        return;
    struct kv_error error = {0};
    echo_segment_name(name, server->name, slot);
    if (wire_segment_open(name, segment_bytes, geteuid(), true, &client->segment, &error) != KV_OK)
        warnx("%s", error.text);
}

/* Copies what a store would have to: the value of a PUT out of the segment, that of a GET into
 * it. */
static bool copy_values(struct echo_server *server, const struct echo_client *client,
                        uint32_t taken_bytes, uint32_t given_bytes)
{
    uint32_t needed = taken_bytes > given_bytes ? taken_bytes : given_bytes;
    if (needed == 0)
        return true;
    if (!client->segment || needed > wire_segment_bytes(client->segment))
        return false;
    if (needed > server->value_bytes) {
        free(server->value);
        server->value = calloc(1, needed);
        server->value_bytes = server->value ? needed : 0;
    }
    return server->value && wire_segment_read(client->segment, 0, server->value, taken_bytes) &&
           wire_segment_write(client->segment, 0, server->value, given_bytes);
}

/* A message that makes no sense gets no answer. */
static void answer(struct echo_server *server, size_t size)
{
    const uint8_t *message = server->message;
    if (size < ECHO_HEADER_BYTES)
        return;
    uint32_t slot = load_u32(message), reply_bytes = load_u32(message + 4);
    uint32_t number = load_u32(message + 8);
    if (slot >= ECHO_MAX_CLIENTS || reply_bytes > server->message_bytes)
        return;
    const struct echo_client *client = &server->clients[slot];
    bool met = client->reply != (mqd_t)-1 || client->ring;
    if (!met || client->number != number)
        meet_client(server, slot, number, load_u32(message + 12), load_u32(message + 24));
    if (!copy_values(server, client, load_u32(message + 16), load_u32(message + 20)))
        return;
    if (client->ring)
        wire_ring_put(client->ring, message, reply_bytes);
    else
        mq_send(client->reply, (const char *)message, reply_bytes, 0);
}

static void serve(struct echo_server *server)
{
    struct wire_waiter waiter;
    struct pollfd wanted[ECHO_MAX_LANES];
    wire_waiter_init(&waiter, (struct wire_spin){.mode = WIRE_SPIN_AUTO});
    for (unsigned i = 0; i < server->lanes; i++)
        wanted[i] = (struct pollfd){.fd = server->lane[i], .events = POLLIN};
    while (!stopping) {
        ssize_t got = wire_wait(&waiter, receive, server);
        if (got > 0) {
            answer(server, (size_t)got);
            wire_waiter_served(&waiter, clock_monotonic_ns());
        } else if (got == 0) {
            poll(wanted, server->lanes, -1);
        } else if (errno != EINTR) {
            err(4, "receive");
        }
    }
}

int main(int argc, char **argv)
{
    static struct echo_server server;
    uint64_t lanes, message_bytes;
    char name[ECHO_NAME_BYTES];

    if (argc != 4 || !parse_u64(argv[2], 1, ECHO_MAX_LANES, &lanes) ||
        !parse_u64(argv[3], ECHO_HEADER_BYTES, 1 << 20, &message_bytes))
        errx(2, "usage: echo_server NAME LANES MESSAGE_BYTES");
    server.name = argv[1];
    server.message_bytes = message_bytes;
    server.message = calloc(1, message_bytes);
    for (unsigned i = 0; i < ECHO_MAX_CLIENTS; i++)
        server.clients[i].reply = (mqd_t)-1;
    for (; server.lanes < lanes; server.lanes++) {
        struct mq_attr geometry = {.mq_maxmsg = ECHO_LANE_DEPTH, .mq_msgsize = (long)message_bytes};
        echo_lane_name(name, server.name, server.lanes);
        server.lane[server.lanes] =
            mq_open(name, O_RDONLY | O_CREAT | O_EXCL | O_NONBLOCK | O_CLOEXEC, 0600, &geometry);
        if (server.lane[server.lanes] == (mqd_t)-1)
            err(4, "%s", name);
    }
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    serve(&server);
    for (unsigned i = 0; i < server.lanes; i++) {
        echo_lane_name(name, server.name, i);
        mq_unlink(name);
    }
    return 0;
}
