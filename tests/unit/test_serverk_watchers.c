/* watchers: a request that waits is executed again after each change that it may not have seen. And
 * how users share the places of those, and of requests that wait for a cluster. */
#include <check.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "mqkv/kvstore.h"
#include "serverk/execute/submission_pool.h"
#include "serverk/execute/watchers.h"
#include "tests/support/worker_fixture.h"
#include "tests/support/test_suite.h"
#include "wire/change.h"

#define PATIENCE_MS 20000u

static struct worker_fixture fixture;
static struct fixture_client client;
static struct watchers *watchers;
static atomic_uint executed;
static atomic_bool held;

/* Answers it, so that it waits no more; after a while if the test wants that. */
static enum kv_status execute(struct execution_context *context, struct session *session,
                              const struct wire_header *request, struct read_cursor *operations,
                              struct reply *reply, const char **sentence)
{
    (void)context, (void)session, (void)request, (void)operations, (void)reply;
    *sentence = "as the test wants it";
    atomic_fetch_add(&executed, 1);
    while (atomic_load(&held))
        clock_sleep_ms(1);
    return KV_MISSED;
}

static void set_up(void)
{
    fixture_open(&fixture, KVSTORE_SYNC_NONE, 4096);
    fixture_connect(&fixture, &client, (struct wire_geometry){2, 256});
    watchers = watchers_create(fixture.service.store, fixture.service.sessions, &fixture.budget,
                               &fixture.live, execute, NULL);
    ck_assert_ptr_nonnull(watchers);
    atomic_store(&executed, 0);
    atomic_store(&held, false);
}

static void tear_down(void)
{
    atomic_store(&held, false);
    watchers_stop(watchers);
    kvstore_set_change_listener(fixture.service.store, NULL, NULL);
    watchers_free(watchers);
    if (client.session)
        fixture_disconnect(&fixture, &client);
    fixture_close(&fixture);
}

static enum kv_status try_to_take(uint64_t told_before)
{
    static const uint8_t positions[WIRE_POSITION_BYTES];
    struct wire_header header = fixture_header(&client, WIRE_REQUEST, 1);
    struct wire_operation operation = fixture_operation(WIRE_OP_WATCH, "", "");
    operation.limit = WIRE_WATCH_MAX_MS;
    return watchers_take(watchers, client.session, &header, &operation,
                         kv_slice(positions, sizeof positions), told_before);
}

static void take(uint64_t told_before)
{
    ck_assert_int_eq(try_to_take(told_before), KV_OK);
}

static void put(void)
{
    ck_assert_int_eq(
        kvstore_put(fixture.service.store, kv_slice("k", 1), kv_slice("v", 1), NULL, NULL), KV_OK);
}

static void await_all(void)
{
    for (uint32_t file = 0; file < kvstore_datafiles(fixture.service.store); file++)
        kvstore_await_change(fixture.service.store, file);
}

static void must_be_executed(void)
{
    uint64_t until_ms = clock_monotonic_coarse_ms() + PATIENCE_MS;
    while (atomic_load(&executed) == 0 && clock_monotonic_coarse_ms() < until_ms)
        clock_sleep_ms(1);
    ck_assert_uint_eq(atomic_load(&executed), 1);
}

START_TEST(a_change_wakes_who_waits)
{
    uint64_t told_before = watchers_told(watchers);
    await_all();
    take(told_before);
    clock_sleep_ms(20); /* longer than it takes to execute what should not be */
    ck_assert_uint_eq(atomic_load(&executed), 0);
    ck_assert_uint_eq(watchers_waiting(watchers), 1);
    put();
    must_be_executed();
}
END_TEST

/* The thread is told, and finds nobody yet. */
START_TEST(a_change_just_before_the_wait_begins_is_not_lost)
{
    uint64_t told_before = watchers_told(watchers);
    await_all();
    take(told_before); /* has the thread start */
    put();
    must_be_executed();
    atomic_store(&executed, 0);
    told_before = watchers_told(watchers);
    await_all();
    put();
    clock_sleep_ms(20);
    take(told_before);
    must_be_executed();
}
END_TEST

/* Has another user take places until there are none for it. */
static unsigned take_all_as(uid_t uid)
{
    unsigned count = 0;
    enum kv_status status = KV_OK;
    client.session->uid = uid;
    for (; count <= WATCHERS_MAX && status == KV_OK; count++)
        status = try_to_take(watchers_told(watchers));
    ck_assert_int_eq(status, KV_OVERLOADED);
    return count - 1;
}

START_TEST(each_user_has_its_share_of_the_places)
{
    uid_t owner = client.session->uid;
    ck_assert_uint_eq(owner, geteuid());
    await_all();
    ck_assert_uint_eq(take_all_as(owner + 1), WATCHERS_MAX / 4);
    atomic_store(&held, true);
    put();
    must_be_executed();
    ck_assert_uint_eq(take_all_as(owner + 1), 0); /* those that are dealt with count */
    ck_assert_uint_eq(take_all_as(owner + 2), WATCHERS_MAX / 4);
    ck_assert_uint_eq(take_all_as(owner + 3), WATCHERS_MAX / 4);
    ck_assert_uint_eq(take_all_as(owner + 4), 0);
    ck_assert_uint_eq(take_all_as(owner), WATCHERS_MAX / 4);
    client.session->uid = owner;
    fixture_disconnect(&fixture, &client); /* nobody to answer */
    client.session = NULL;
    atomic_store(&held, false);
    uint64_t until_ms = clock_monotonic_coarse_ms() + PATIENCE_MS;
    while (watchers_waiting(watchers) > 0 && clock_monotonic_coarse_ms() < until_ms)
        clock_sleep_ms(1);
    ck_assert_uint_eq(watchers_waiting(watchers), 0);
}
END_TEST

static unsigned admit_all_as(struct submissions *submissions, uid_t uid, size_t bytes)
{
    unsigned count = 0;
    while (count <= SUBMISSIONS_MAX && submissions_admit(submissions, uid, bytes))
        count++;
    return count;
}

START_TEST(requests_for_a_cluster_leave_places_to_others)
{
    uid_t owner = geteuid(), other = owner + 1;
    struct submissions *all = submissions_create(fixture.service.engine, fixture.service.sessions,
                                                 &fixture.budget, NULL, NULL);
    ck_assert_ptr_nonnull(all);
    unsigned others = 0;
    for (uid_t uid = other; uid < other + 3; uid++)
        others += admit_all_as(all, uid, 10);
    ck_assert_uint_eq(others, SUBMISSIONS_MAX / 4 * 3);
    ck_assert_uint_eq(admit_all_as(all, other + 3, 10), 0);
    ck_assert_uint_eq(admit_all_as(all, owner, 10), SUBMISSIONS_MAX / 4);
    ck_assert_uint_eq(submissions_under_way(all), SUBMISSIONS_MAX);
    for (unsigned i = 0; i < SUBMISSIONS_MAX / 4; i++) {
        submissions_dismiss(all, owner, 10);
        for (uid_t uid = other; uid < other + 3; uid++)
            submissions_dismiss(all, uid, 10);
    }
    ck_assert_uint_eq(submissions_under_way(all), 0);

    /* Bytes: the first request may have any number, and what it finds counts too. */
    ck_assert_uint_eq(admit_all_as(all, other, SUBMISSIONS_MAX_BYTES / 4), 1);
    ck_assert(!submissions_add_bytes(all, other, 1));
    ck_assert_uint_eq(admit_all_as(all, owner, SUBMISSIONS_MAX_BYTES / 4), 3);
    submissions_dismiss(all, other, SUBMISSIONS_MAX_BYTES / 4);
    for (int i = 0; i < 3; i++)
        submissions_dismiss(all, owner, SUBMISSIONS_MAX_BYTES / 4);
    submissions_drain(all);
    submissions_free(all);
}
END_TEST

TEST_SUITE(serverk_watchers)
{
    TCase *cases = tcase_create("watchers");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, a_change_wakes_who_waits);
    tcase_add_test(cases, a_change_just_before_the_wait_begins_is_not_lost);
    tcase_add_test(cases, each_user_has_its_share_of_the_places);
    tcase_add_test(cases, requests_for_a_cluster_leave_places_to_others);
    suite_add_tcase(suite, cases);
}
