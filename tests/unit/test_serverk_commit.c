/* commit: replies wait for the sync of their writes, and tell if it failed. */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvstore/log/fileio.h"
#include "serverk/session/deliver.h"
#include "tests/support/fault.h"
#include "tests/support/store_calls.h"
#include "tests/support/worker_fixture.h"
#include "tests/support/test_suite.h"

static struct worker_fixture fixture;
static struct fixture_client client;

static void set_up(void)
{
    fixture_open(&fixture, KVSTORE_SYNC_ALWAYS, 65536);
    fixture_connect(&fixture, &client, (struct wire_geometry){4, 1024});
}

static void tear_down(void)
{
    fixture_disconnect(&fixture, &client);
    fixture_close(&fixture);
}

static const struct wire_operation put = {
    .opcode = WIRE_OP_PUT, .key = {"key", 3}, .value = {"value", 5}};

static uint32_t put_file(void)
{
    return kvstore_file_of(fixture.service.store, put.key);
}

/* Of the file that the key is in. */
static uint64_t unsynced_bytes(void)
{
    struct kvstore_file_statistics file;
    kvstore_file_statistics(fixture.service.store, put_file(), &file);
    return file.appended_bytes - file.synced_bytes;
}

START_TEST(the_reply_comes_after_the_sync)
{
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(fixture_call(&fixture, &client, put).status, KV_OK);
        ck_assert_uint_eq(unsynced_bytes(), 0);
    }
    struct worker_statistics *sum = statistics_create(1);
    commit_drain(fixture.service.commit);
    commit_statistics(fixture.service.commit, sum);
    ck_assert_uint_eq(sum->stages[STAGE_COMMIT].total_count, 20);
    ck_assert_uint_gt(sum->bytes_out, 20 * WIRE_HEADER_BYTES);
    free(sum);
}
END_TEST

static atomic_uint syncs_begun, syncs_allowed;

static bool sync_may_end(void *context)
{
    (void)context;
    return atomic_load(&syncs_begun) <= atomic_load(&syncs_allowed);
}

static bool has_begun(void *syncs)
{
    return atomic_load(&syncs_begun) >= *(unsigned *)syncs;
}

static int sync_when_allowed(int fd)
{
    atomic_fetch_add(&syncs_begun, 1);
    return wait_until(sync_may_end, NULL) ? fileio_system.sync_data(fd) : -1;
}

/* The second write comes while the sync of the first is under way, whose end is told before the
 * next begins. */
START_TEST(the_reply_comes_not_with_a_sync_that_began_before_its_write)
{
    static struct fileio table; /* the store's threads may use it until it is closed */
    struct wire_header first = fixture_header(&client, WIRE_REQUEST, 1), reply;
    struct wire_header second = fixture_header(&client, WIRE_REQUEST, 1);
    struct read_cursor cursor;
    unsigned syncs = 1;
    table = fileio_system;
    table.sync_data = sync_when_allowed;
    fileio = &table;
    fixture_request(&fixture, &first, &put);
    ck_assert(wait_until(has_begun, &syncs));
    fixture_request(&fixture, &second, &put);
    atomic_store(&syncs_allowed, 1);
    syncs = 2;
    ck_assert(wait_until(has_begun, &syncs));
    ck_assert(fixture_reply(&client, 5000, &reply, &cursor));
    ck_assert_uint_eq(reply.request_id, first.request_id);
    ck_assert(!fixture_reply(&client, 0, &reply, &cursor));
    atomic_store(&syncs_allowed, UINT_MAX);
    ck_assert(fixture_reply(&client, 5000, &reply, &cursor));
    ck_assert_uint_eq(reply.request_id, second.request_id);
    fileio = &fileio_system;
}
END_TEST

START_TEST(reads_do_not_wait)
{
    struct wire_operation get = {.opcode = WIRE_OP_GET, .key = put.key};
    fixture_call(&fixture, &client, put);
    struct wire_header request = fixture_header(&client, WIRE_REQUEST, 1), reply;
    struct read_cursor cursor;
    fixture_request(&fixture, &request, &get);
    ck_assert(fixture_reply(&client, 0, &reply, &cursor));
}
END_TEST

START_TEST(a_batch_over_several_files_waits_for_all)
{
    char keys[40][8];
    struct wire_operation batch[40];
    for (int i = 0; i < 40; i++) {
        batch[i] = put;
        batch[i].key = kv_slice(keys[i], (size_t)snprintf(keys[i], sizeof keys[i], "key%d", i));
    }
    struct wire_header request = fixture_header(&client, WIRE_REQUEST, 40), reply;
    struct read_cursor cursor;
    fixture_request(&fixture, &request, batch);
    ck_assert(fixture_reply(&client, 5000, &reply, &cursor));
    ck_assert_uint_eq(reply.count, 40);
    for (uint32_t i = 0; i < kvstore_datafiles(fixture.service.store); i++) {
        struct kvstore_file_statistics file;
        kvstore_file_statistics(fixture.service.store, i, &file);
        ck_assert_uint_gt(file.appended_bytes, 0);
        ck_assert_uint_eq(file.appended_bytes, file.synced_bytes);
    }
}
END_TEST

/* A request that fails because its file's sync does. */
static void let_a_sync_fail(void)
{
    const struct fault_plan plan = {.call = FAULT_SYNC_DATA, .nth = 1, .error = EIO};
    struct wire_header request = fixture_header(&client, WIRE_REQUEST, 1), reply;
    struct read_cursor cursor;
    fault_install(&plan);
    fixture_request(&fixture, &request, &put);
    ck_assert(fixture_reply(&client, 5000, &reply, &cursor));
    ck_assert_int_eq(reply.status, KV_NOT_DURABLE);
    ck_assert_uint_eq(reply.count, 0);
    ck_assert_uint_gt(read_cursor_left(&cursor), 0);
    fault_clear();
}

START_TEST(a_failed_sync_is_told)
{
    fixture_call(&fixture, &client, put);
    let_a_sync_fail();
    ck_assert_int_eq(fixture_call(&fixture, &client, put).status, KV_READ_ONLY);
    struct wire_operation get = {.opcode = WIRE_OP_GET, .key = put.key};
    ck_assert_int_eq(fixture_call(&fixture, &client, get).status, KV_OK);
}
END_TEST

/* A worker that was slow to hand its reply over: what it waits for is on disk, and a sync of later
 * writes has failed. */
START_TEST(what_was_on_disk_before_a_sync_failed_is_durable)
{
    struct kvstore_file_statistics file;
    fixture_call(&fixture, &client, put);
    kvstore_file_statistics(fixture.service.store, put_file(), &file);
    let_a_sync_fail();

    struct commit_waits waits;
    ck_assert(commit_waits_init(&waits, kvstore_datafiles(fixture.service.store)));
    commit_waits_add(&waits, (struct kvstore_ticket){put_file(), file.synced_bytes});
    uint8_t message[WIRE_HEADER_BYTES];
    struct write_cursor made = write_cursor(message, sizeof message);
    struct wire_header answer = deliver_header(client.session, 77, KV_OK);
    wire_put_header(&made, &answer);
    commit_hold(fixture.service.commit, client.session, kv_slice(message, sizeof message), false,
                &waits);
    struct wire_header reply;
    struct read_cursor cursor;
    ck_assert(fixture_reply(&client, 5000, &reply, &cursor));
    ck_assert_uint_eq(reply.request_id, 77);
    ck_assert_int_eq(reply.status, KV_OK);
    commit_waits_free(&waits);
}
END_TEST

START_TEST(many_in_flight_are_released_together)
{
    struct wire_header reply;
    struct read_cursor cursor;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 4; i++) {
            struct wire_header request = fixture_header(&client, WIRE_REQUEST, 1);
            fixture_request(&fixture, &request, &put);
        }
        for (int i = 0; i < 4; i++) {
            ck_assert(fixture_reply(&client, 5000, &reply, &cursor));
            ck_assert_int_eq(reply.status, KV_OK);
        }
    }
    commit_drain(fixture.service.commit); /* a reply counts until its sender has come back */
    ck_assert_uint_eq(commit_waiting(fixture.service.commit), 0);
}
END_TEST

START_TEST(a_session_that_ends_is_held_until_its_reply_is_gone)
{
    struct fixture_client leaving;
    fixture_connect(&fixture, &leaving, (struct wire_geometry){3, 256});
    for (int i = 0; i < 3; i++) {
        struct wire_header request = fixture_header(&leaving, WIRE_REQUEST, 1);
        fixture_request(&fixture, &request, &put);
    }
    fixture_disconnect(&fixture, &leaving);
    commit_drain(fixture.service.commit);
    ck_assert_int_eq(fixture_call(&fixture, &client, put).status, KV_OK);
}
END_TEST

/* However many messages it sends while a sync takes long: no more replies are kept for it. */
START_TEST(a_session_has_no_more_replies_held_than_credits)
{
    static struct fileio table; /* as above */
    struct session_counts counts;
    struct wire_header reply;
    struct read_cursor cursor;
    table = fileio_system;
    table.sync_data = sync_when_allowed;
    atomic_store(&syncs_begun, 0);
    atomic_store(&syncs_allowed, 0);
    fileio = &table;
    for (uint64_t i = 1; i <= 6; i++) {
        struct wire_header request = fixture_header(&client, WIRE_REQUEST, 1);
        fixture_request(&fixture, &request, &put);
        session_counts(fixture.service.sessions, &counts);
        ck_assert_uint_eq(counts.ended[SESSION_FAULT], i > 4);
        ck_assert_uint_eq(commit_waiting(fixture.service.commit), i < 4 ? i : 4);
    }
    atomic_store(&syncs_allowed, UINT_MAX);
    for (int i = 0; i < 4; i++)
        ck_assert(fixture_reply(&client, 5000, &reply, &cursor));
    commit_drain(fixture.service.commit);
    fileio = &fileio_system;
}
END_TEST

/* Nor is what a large reply had reserved lost to all others. */
START_TEST(a_reply_that_is_not_kept_gives_back_its_memory)
{
    struct fragments *fragments = &client.session->fragments;
    struct commit_waits waits;
    uint8_t message[WIRE_HEADER_BYTES] = {0};
    ck_assert(commit_waits_init(&waits, kvstore_datafiles(fixture.service.store)));
    commit_waits_add(&waits, (struct kvstore_ticket){put_file(), 1});
    ck_assert(fragments_reserve(fragments, fixture.service.budget));
    atomic_store(&client.session->held_replies, client.session->assignment.credits);
    commit_hold(fixture.service.commit, client.session, kv_slice(message, sizeof message), true,
                &waits);
    atomic_store(&client.session->held_replies, 0);
    ck_assert_uint_eq(fragments->reserved, 0);
    commit_waits_free(&waits);
}
END_TEST

START_TEST(sync_waits_for_all_files)
{
    struct wire_operation sync = {.opcode = WIRE_OP_SYNC};
    ck_assert_int_eq(kvstore_put(fixture.service.store, put.key, put.value, NULL, NULL), KV_OK);
    ck_assert_int_eq(fixture_call(&fixture, &client, sync).status, KV_OK);
    ck_assert_uint_eq(unsynced_bytes(), 0);
}
END_TEST

TEST_SUITE(serverk_commit)
{
    TCase *cases = tcase_create("commit");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, the_reply_comes_after_the_sync);
    tcase_add_test(cases, the_reply_comes_not_with_a_sync_that_began_before_its_write);
    tcase_add_test(cases, reads_do_not_wait);
    tcase_add_test(cases, a_batch_over_several_files_waits_for_all);
    tcase_add_test(cases, a_failed_sync_is_told);
    tcase_add_test(cases, what_was_on_disk_before_a_sync_failed_is_durable);
    tcase_add_test(cases, many_in_flight_are_released_together);
    tcase_add_test(cases, a_session_that_ends_is_held_until_its_reply_is_gone);
    tcase_add_test(cases, a_session_has_no_more_replies_held_than_credits);
    tcase_add_test(cases, a_reply_that_is_not_kept_gives_back_its_memory);
    tcase_add_test(cases, sync_waits_for_all_files);
    suite_add_tcase(suite, cases);
}
