/* farewell: a session is found until whoever may hold a message for it has moved on. */
#include <check.h>
#include <poll.h>

#include "serverk/session/farewell.h"
#include "tests/support/worker_fixture.h"
#include "tests/support/test_suite.h"

static struct worker_fixture fixture;
static struct session_table *table;
static struct farewells *farewells;
static struct farewell_pulse *pulses[3];
static struct fixture_client client;
static unsigned nudged;

static void set_up(void)
{
    fixture_open(&fixture, KVSTORE_SYNC_NONE, 4096);
    table = fixture.service.sessions;
    farewells = farewells_create(3, table);
    ck_assert_ptr_nonnull(farewells);
    for (unsigned i = 0; i < 3; i++)
        pulses[i] = farewells_pulse(farewells, i, 1u << i);
    fixture_connect(&fixture, &client, (struct wire_geometry){2, 256});
    nudged = 0;
}

static void tear_down(void)
{
    farewells_free(farewells);
    session_release(table, client.session);
    mq_close(client.replies);
    fixture_close(&fixture);
}

static bool is_found(void)
{
    struct session *found = session_acquire(table, client.session->id, client.session->cookie);
    if (found)
        session_release(table, found);
    return found != NULL;
}

static uint64_t count_of(enum session_end_reason reason)
{
    struct session_counts counts;
    session_counts(table, &counts);
    return counts.ended[reason];
}

START_TEST(ends_at_once_where_nobody_holds_a_message)
{
    farewell_enter(pulses[2]); /* of a queue that does not matter */
    farewells_end(farewells, client.session, 3, SESSION_BYE);
    ck_assert(!is_found());
    farewell_leave(pulses[2]);
}
END_TEST

START_TEST(waits_for_all_turns_that_are_in_the_way)
{
    farewell_enter(pulses[0]);
    farewell_enter(pulses[1]);
    farewells_end(farewells, client.session, 3, SESSION_BYE);
    ck_assert_uint_eq(count_of(SESSION_BYE), 1); /* it counts already */
    ck_assert(is_found());
    farewell_leave(pulses[1]);
    farewell_enter(pulses[1]); /* what it holds now came later */
    ck_assert(is_found());
    farewell_leave(pulses[0]);
    ck_assert(!is_found());
    ck_assert_uint_eq(count_of(SESSION_BYE), 1);
    farewell_leave(pulses[1]);
}
END_TEST

START_TEST(who_comes_later_waits_for_later_turns)
{
    struct fixture_client other;
    fixture_connect(&fixture, &other, (struct wire_geometry){2, 256});
    farewell_enter(pulses[0]);
    farewells_end(farewells, client.session, 3, SESSION_BYE);
    farewell_enter(pulses[1]);
    farewells_end(farewells, other.session, 3, SESSION_BYE);
    farewell_leave(pulses[0]);
    ck_assert(!is_found());
    struct session *found = session_acquire(table, other.session->id, other.session->cookie);
    ck_assert_ptr_nonnull(found);
    session_release(table, found);
    farewell_leave(pulses[1]);
    ck_assert_ptr_null(session_acquire(table, other.session->id, other.session->cookie));
    session_release(table, other.session);
    mq_close(other.replies);
}
END_TEST

/* Its process ended, another worker took the last word first. */
START_TEST(a_bye_counts_also_behind_the_last_word)
{
    farewell_enter(pulses[0]);
    farewells_end(farewells, client.session, 1, SESSION_DIED);
    ck_assert_uint_eq(count_of(SESSION_DIED), 1);
    farewells_end(farewells, client.session, 1, SESSION_BYE);
    ck_assert_uint_eq(count_of(SESSION_DIED), 0);
    ck_assert_uint_eq(count_of(SESSION_BYE), 1);
    farewell_leave(pulses[0]);
    ck_assert(!is_found());
}
END_TEST

static void nudge(void *context, unsigned receiver)
{
    (void)context;
    ck_assert_uint_eq(receiver, 0);
    nudged++;
    farewell_leave(pulses[0]);
}

START_TEST(a_sleeping_receiver_is_nudged)
{
    struct pollfd timer = {.fd = farewells_timer(farewells), .events = POLLIN};
    farewells_set_nudge(farewells, nudge, NULL);
    ck_assert_int_eq(poll(&timer, 1, 0), 0);
    farewell_enter(pulses[0]);
    farewells_end(farewells, client.session, 1, SESSION_BYE);
    ck_assert(is_found());
    ck_assert_int_eq(poll(&timer, 1, 10000), 1);
    farewells_tick(farewells, fixture.name);
    ck_assert_uint_eq(nudged, 1);
    ck_assert(!is_found());
}
END_TEST

TEST_SUITE(serverk_farewell)
{
    TCase *cases = tcase_create("farewell");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, ends_at_once_where_nobody_holds_a_message);
    tcase_add_test(cases, waits_for_all_turns_that_are_in_the_way);
    tcase_add_test(cases, who_comes_later_waits_for_later_turns);
    tcase_add_test(cases, a_bye_counts_also_behind_the_last_word);
    tcase_add_test(cases, a_sleeping_receiver_is_nudged);
    suite_add_tcase(suite, cases);
}
