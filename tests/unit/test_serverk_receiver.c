/* receiver: of queues that always have something none is passed over for long, nor one that was
 * quiet before. */
#include <check.h>
#include <mqueue.h>
#include <stdio.h>

#include "serverk/receive/receiver.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"

#define QUEUES  8u
#define ENOUGH  200u /* messages, after which a queue that gave none of them is quiet */
#define PATIENT 64u  /* messages of others that one of a quiet queue may wait for */

static struct served_lanes served;
static struct worker_statistics statistics;
static uint8_t buffer[64];
static atomic_bool stopping;
static struct receiver receiver;

static void open_queues(void)
{
    for (unsigned i = 0; i < QUEUES; i++) {
        char base[64], name[80];
        struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = sizeof buffer};
        test_queue_name(base, sizeof base);
        snprintf(name, sizeof name, "%s.r%u", base, i);
        served.queues[i] = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &attributes);
        ck_assert_int_ge((int)served.queues[i], 0);
        mq_unlink(name);
    }
    served.set = (1u << QUEUES) - 1;
    receiver = (struct receiver){.served = &served,
                                 .statistics = &statistics,
                                 .buffer = buffer,
                                 .buffer_bytes = sizeof buffer,
                                 .queues = (1u << QUEUES) - 1,
                                 .sleep_epoll = -1,
                                 .stopping = &stopping};
    wire_waiter_init(&receiver.waiter, (struct wire_spin){.mode = WIRE_SPIN_OFF});
}

static void close_queues(void)
{
    for (unsigned i = 0; i < QUEUES; i++)
        mq_close(served.queues[i]);
}

/* As many as go into it. */
static void fill(uint32_t set)
{
    for (unsigned i = 0; i < QUEUES; i++)
        while (set >> i & 1 && mq_send(served.queues[i], "m", 1, 0) == 0)
            ;
}

/* Receives while those of the set are full; the queue of the message. */
static unsigned take(uint32_t full)
{
    fill(full);
    ck_assert_int_eq(receiver_take(&receiver), 1);
    return receiver.current;
}

START_TEST(a_quiet_queue_has_its_turn_beside_any_number_of_full_ones)
{
    for (uint32_t full = 1; full < (1u << QUEUES) - 1; full++) {
        for (unsigned i = 0; i < ENOUGH; i++)
            take(full);
        unsigned quiet = (unsigned)__builtin_ctz(~full), waited = 0;
        ck_assert_int_eq(mq_send(served.queues[quiet], "q", 1, 0), 0);
        while (take(full) != quiet)
            ck_assert_msg(++waited < PATIENT, "queue %u waits beside %x", quiet, full);
    }
}
END_TEST

START_TEST(full_queues_take_turns)
{
    unsigned taken[QUEUES] = {0};
    for (unsigned i = 0; i < QUEUES * ENOUGH; i++)
        taken[take((1u << QUEUES) - 1)]++;
    for (unsigned i = 0; i < QUEUES; i++)
        ck_assert_uint_eq(taken[i], ENOUGH);
}
END_TEST

TEST_SUITE(serverk_receiver)
{
    TCase *turns = tcase_create("turns");
    tcase_add_checked_fixture(turns, open_queues, close_queues);
    tcase_add_test(turns, a_quiet_queue_has_its_turn_beside_any_number_of_full_ones);
    tcase_add_test(turns, full_queues_take_turns);
    suite_add_tcase(suite, turns);
}
