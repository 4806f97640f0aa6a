#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "wire/reply_ring.h"

#define WRITERS       3u
#define MESSAGES_EACH 4u
#define SLOTS         2u
#define MESSAGE_BYTES 96u
#define FOR_EVER_MS   1000000000u

/* The client takes two at most into flight, each writer answers one: so no put may be refused. */
static struct {
    struct wire_ring *server, *client;
    _Atomic unsigned credits; /* requests that wait for an answer */
    _Atomic unsigned answered;
    unsigned taken[WRITERS][MESSAGES_EACH];
    _Atomic bool put_refused;
} ring;

static void fill(uint8_t *message, unsigned writer, unsigned number)
{
    memset(message, (int)(writer * 16 + number), MESSAGE_BYTES);
    message[0] = (uint8_t)writer;
    message[1] = (uint8_t)number;
}

static void write_messages(void *argument)
{
    unsigned writer = (unsigned)(uintptr_t)argument;
    uint8_t message[MESSAGE_BYTES];
    for (unsigned number = 0; number < MESSAGES_EACH; number++) {
        /* A request comes. */
        unsigned waiting = atomic_load(&ring.credits);
        while (waiting == 0 ||
               !atomic_compare_exchange_strong(&ring.credits, &waiting, waiting - 1)) {
            sched_yield();
            waiting = atomic_load(&ring.credits);
        }
        fill(message, writer, number);
        if (!wire_ring_put(ring.server, message, sizeof message))
            explore_fail("a put was refused although the ring has a free slot");
    }
}

static void take_messages(void *argument)
{
    (void)argument;
    uint8_t message[MESSAGE_BYTES], expected[MESSAGE_BYTES];
    for (unsigned count = 0; count < WRITERS * MESSAGES_EACH;) {
        ssize_t bytes = wire_ring_take(ring.client, message);
        if (bytes == 0) {
            /* Nobody is stopped, so that a bell comes within the time of some messages. */
            uint64_t began_ns = explore_clock_ns();
            wire_ring_sleep(ring.client, FOR_EVER_MS);
            EXPLORE_CHECK(explore_clock_ns() - began_ns < FOR_EVER_MS * UINT64_C(1000000),
                          "the client sleeps although there is a message");
            continue;
        }
        EXPLORE_CHECK(bytes == MESSAGE_BYTES, "a message of %zd bytes", bytes);
        EXPLORE_CHECK(message[0] < WRITERS && message[1] < MESSAGES_EACH, "a message of nobody");
        fill(expected, message[0], message[1]);
        EXPLORE_CHECK(memcmp(message, expected, sizeof message) == 0, "a torn message");
        EXPLORE_CHECK(ring.taken[message[0]][message[1]]++ == 0, "a message was taken twice");
        count++;
        if (count + SLOTS <= WRITERS * MESSAGES_EACH)
            atomic_fetch_add(&ring.credits, 1);
    }
}

static void run(void)
{
    struct wire_geometry geometry = {.depth = SLOTS, .message_bytes = MESSAGE_BYTES};
    struct kv_error error;
    char name[64];
    int descriptor;
    memset(&ring, 0, sizeof ring);
    snprintf(name, sizeof name, "/mqkv-explore-ring-%ld", (long)getpid());
    if (wire_ring_create(name, geometry, &descriptor, &ring.client, &error) != KV_OK)
        explore_fail("%s", error.text);
    if (wire_ring_map(descriptor, geometry, &ring.server, &error) != KV_OK)
        explore_fail("%s", error.text);
    shm_unlink(name);
    close(descriptor);
    atomic_store(&ring.credits, SLOTS);
    for (unsigned i = 0; i < WRITERS; i++)
        explore_thread(1, write_messages, (void *)(uintptr_t)i);
    explore_thread(2, take_messages, NULL);
    explore_wait_for_threads();
    wire_ring_close(ring.server);
    wire_ring_close(ring.client);
}

EXPLORE_HARNESS(explore_reply_ring) = {
    .name = "reply-ring",
    .invariant =
        "no put is refused while a slot is free; each message arrives once, whole, and wakes",
    .run = run,
    .most_still_ms = 100, /* after a second with the lock others' puts are refused */
};
