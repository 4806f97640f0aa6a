/* The wait rule: who waits polls, yields, and sleeps on the queue when that does not pay. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "wire/queue.h"
#include "wire/wait.h"

#define NAME          "/explored-wait"
#define SENDERS       2u
#define MESSAGES_EACH 6u
#define MESSAGE_BYTES 8u
#define WAITERS       2u
#define LONG_MS       1000000

static struct {
    mqd_t queue;
    _Atomic unsigned taken[SENDERS * MESSAGES_EACH];
    _Atomic unsigned all_taken;
    bool is_beside_a_stranger; /* who lets a yield take long */
} waited;

static ssize_t attempt(void *number)
{
    char message[MESSAGE_BYTES];
    ssize_t size = mq_receive(waited.queue, message, sizeof message, NULL);
    if (size < 0 && errno == EAGAIN)
        return 0;
    EXPLORE_CHECK(size == 1, "a message of %zd bytes", size);
    *(unsigned *)number = (unsigned)message[0];
    return size;
}

/* Two wait at one queue, as workers do. */
static void wait_for_messages(void *argument)
{
    static const struct wire_spin spins[] = {
        {.mode = WIRE_SPIN_AUTO}, {.mode = WIRE_SPIN_OFF}, {WIRE_SPIN_FIXED, 5}};
    struct wire_waiter waiter;
    unsigned sleeps_in_vain = 0;
    (void)argument;
    wire_waiter_init(&waiter, spins[explore_random(4) % 3]);
    if (explore_random(2) == 0)
        wire_waiter_limit_yields(&waiter, 1 + explore_random(3));
    while (atomic_load(&waited.all_taken) < SENDERS * MESSAGES_EACH) {
        unsigned number = 0;
        if (wire_wait(&waiter, attempt, &number) > 0) {
            EXPLORE_CHECK(atomic_fetch_add(&waited.taken[number], 1) == 0,
                          "a message was taken twice");
            atomic_fetch_add(&waited.all_taken, 1);
            wire_waiter_served(&waiter, explore_clock_ns());
            continue;
        }
        struct pollfd event = {.fd = (int)waited.queue, .events = POLLIN};
        uint64_t began_ns = explore_clock_ns();
        poll(&event, 1, LONG_MS);
        bool was_long = explore_clock_ns() - began_ns >= LONG_MS * UINT64_C(1000000);
        EXPLORE_CHECK(!was_long || ++sleeps_in_vain < 4, "a message is lost");
    }
}

static void send_messages(void *argument)
{
    unsigned sender = (unsigned)(uintptr_t)argument;
    mqd_t queue; /* of its own: wire_send lets it block */
    if (wire_queue_open(NAME, true, &queue, NULL, NULL) != KV_OK)
        explore_fail("the queue cannot be opened");
    for (unsigned i = 0; i < MESSAGES_EACH; i++) {
        char message = (char)(sender * MESSAGES_EACH + i);
        explore_sleep_ms(explore_random(waited.is_beside_a_stranger ? 40 : 2));
        EXPLORE_CHECK(wire_send(queue, &message, 1, 0, 3600000) == 0, "it cannot be sent");
    }
    mq_close(queue);
}

/* A stranger takes the CPU for as long as a time slice. */
static void keep_the_cpu(void *unused)
{
    (void)unused;
    while (atomic_load(&waited.all_taken) < SENDERS * MESSAGES_EACH)
        explore_sleep_ms(4);
}

static void run(void)
{
    const struct wire_geometry geometry = {.depth = 4, .message_bytes = MESSAGE_BYTES};
    memset(&waited, 0, sizeof waited);
    explore_forget_statics();
    waited.is_beside_a_stranger = explore_random(2) == 0;
    if (wire_queue_create(NAME, geometry, 0600, true, &waited.queue, NULL) != KV_OK)
        explore_fail("no queue");
    for (unsigned i = 0; i < WAITERS; i++)
        explore_thread(0, wait_for_messages, NULL);
    for (unsigned i = 0; i < SENDERS; i++)
        explore_thread(0, send_messages, (void *)(uintptr_t)i);
    if (waited.is_beside_a_stranger)
        explore_thread(0, keep_the_cpu, NULL);
    explore_wait_for_threads();
    for (unsigned i = 0; i < SENDERS * MESSAGES_EACH; i++)
        EXPLORE_CHECK(atomic_load(&waited.taken[i]) == 1, "message %u was not taken", i);
    mq_unlink(NAME);
    mq_close(waited.queue);
}

EXPLORE_HARNESS(explore_wait) = {
    .name = "wait",
    .invariant = "who polls, yields or sleeps by the wait rule gets each message, once",
    .run = run,
    .most_still_ms = 100,
};
