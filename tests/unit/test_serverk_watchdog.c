/* watchdog: workers that hang are told from those that wait for a reload. */
#include <check.h>
#include <mqueue.h>
#include <stdbool.h>

#include "serverk/daemon/watchdog.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/queue.h"

static char name[WIRE_QUEUE_NAME_BYTES];
static struct lanes *lanes;
static struct farewells *farewells;
static struct farewell_pulse *pulse; /* of the only worker */
static struct watchdog watchdog;

static void set_up(void)
{
    struct kv_error error = {0};
    test_queue_name(name, sizeof name);
    const struct lanes_options options = {
        .name = name, .mode = LANES_SHARED, .workers = 1, .queue_mode = 0600, .group = (gid_t)-1};
    ck_assert_int_eq(lanes_open(&options, &lanes, &error), KV_OK);
    farewells = farewells_create(1, NULL);
    ck_assert_ptr_nonnull(farewells);
    pulse = farewells_pulse(farewells, 0, 1);
    watchdog = (struct watchdog){0};
}

static void tear_down(void)
{
    farewells_free(farewells);
    lanes_unlink(lanes);
    lanes_close(lanes);
}

static void leave_message(void)
{
    mqd_t queue = mq_open(name, O_WRONLY);
    ck_assert_int_ne(queue, (mqd_t)-1);
    ck_assert_int_eq(mq_send(queue, "x", 1, 0), 0);
    mq_close(queue);
}

static bool look(bool reload_works)
{
    return watchdog_look(&watchdog, lanes, NULL, farewells, reload_works);
}

START_TEST(workers_without_messages_do_not_hang)
{
    for (int i = 0; i < 5; i++)
        ck_assert(look(false));
}
END_TEST

START_TEST(a_message_that_nobody_looks_at_is_a_hang)
{
    leave_message();
    ck_assert(look(false));
    ck_assert(!look(false));
    farewell_enter(pulse);
    ck_assert(look(false));
}
END_TEST

START_TEST(who_waits_for_a_reload_does_not_hang)
{
    leave_message();
    ck_assert(look(false));
    for (int i = 0; i < 5; i++)
        ck_assert(look(true));
    ck_assert(look(false)); /* it was over just before this look */
    ck_assert(!look(false));
}
END_TEST

START_TEST(a_reload_ends_no_hang)
{
    leave_message();
    look(false);
    ck_assert(!look(false));
    ck_assert(!look(true));
    farewell_enter(pulse);
    ck_assert(look(true));
}
END_TEST

TEST_SUITE(serverk_watchdog)
{
    TCase *cases = tcase_create("watchdog");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, workers_without_messages_do_not_hang);
    tcase_add_test(cases, a_message_that_nobody_looks_at_is_a_hang);
    tcase_add_test(cases, who_waits_for_a_reload_does_not_hang);
    tcase_add_test(cases, a_reload_ends_no_hang);
    suite_add_tcase(suite, cases);
}
