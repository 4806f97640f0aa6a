/* session: found only by id and cookie, disposed of once and only when nobody holds it. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serverk/session/deliver.h"
#include "tests/support/worker_fixture.h"
#include "tests/support/test_suite.h"

static struct worker_fixture fixture;
static struct session_table *table;

static const struct wire_geometry replies = {2, 256};

static void set_up(void)
{
    fixture_open(&fixture, KVSTORE_SYNC_NONE, 4096);
    table = fixture.service.sessions;
}

static void tear_down(void)
{
    fixture_close(&fixture);
}

static uint64_t live_sessions(void)
{
    struct session_counts counts;
    session_counts(table, &counts);
    return counts.live;
}

START_TEST(found_by_id_and_cookie)
{
    struct fixture_client client;
    fixture_connect(&fixture, &client, replies);
    uint32_t id = client.session->id;
    uint64_t cookie = client.session->cookie;
    ck_assert_uint_ne(id, 0);
    struct session *found = session_acquire(table, id, cookie);
    ck_assert_ptr_eq(found, client.session);
    session_release(table, found);
    ck_assert_ptr_null(session_acquire(table, id, cookie + 1));
    ck_assert_ptr_null(session_acquire(table, id + 1, cookie));
    ck_assert_ptr_null(session_acquire(table, id + (1u << 12), cookie));
    ck_assert_ptr_null(session_acquire(table, UINT32_MAX, cookie));
    ck_assert_ptr_null(session_acquire(table, 0, cookie));
    fixture_disconnect(&fixture, &client);
    ck_assert_ptr_null(session_acquire(table, id, cookie));
    ck_assert_uint_eq(live_sessions(), 0);
}
END_TEST

START_TEST(slots_are_used_again_under_new_ids)
{
    uint32_t last_id = 0;
    for (int i = 0; i < 50; i++) {
        struct fixture_client client;
        fixture_connect(&fixture, &client, replies);
        ck_assert_uint_ne(client.session->id, last_id);
        last_id = client.session->id;
        fixture_disconnect(&fixture, &client);
    }
    struct session_counts counts;
    session_counts(table, &counts);
    ck_assert_uint_eq(counts.opened, 50);
    ck_assert_uint_eq(counts.ended[SESSION_BYE], 50);
}
END_TEST

START_TEST(a_held_session_outlives_its_end)
{
    struct fixture_client client;
    fixture_connect(&fixture, &client, replies);
    struct session *held = session_acquire(table, client.session->id, client.session->cookie);
    session_end(table, held, SESSION_BYE);
    session_end(table, held, SESSION_FAULT); /* the first reason counts */
    session_release(table, client.session);
    ck_assert(session_send(table, held, "still", 5));
    ck_assert_ptr_null(session_acquire(table, held->id, held->cookie));
    session_release(table, held);
    struct session_counts counts;
    session_counts(table, &counts);
    ck_assert_uint_eq(counts.ended[SESSION_BYE], 1);
    ck_assert_uint_eq(counts.ended[SESSION_FAULT], 0);
    mq_close(client.replies);
}
END_TEST

/* A pidfd of a process that has ended. */
static int pidfd_of_the_dead(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    ck_assert_int_ge(pidfd, 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    return pidfd;
}

/* Its reply may wait for a slow disk, and a process that serves a request have a copy of the pidfd:
 * the watcher has nothing to do meanwhile. */
START_TEST(an_ended_session_is_watched_no_more)
{
    struct fixture_client client;
    struct epoll_event event;
    fixture_connect_process(&fixture, &client, replies, pidfd_of_the_dead());
    ck_assert_int_eq(epoll_wait(fixture.epoll, &event, 1, 5000), 1);
    ck_assert_uint_eq(event.data.u64, client.session->id);
    int copy = dup(client.session->pidfd);
    session_end(table, client.session, SESSION_DIED);
    ck_assert_int_eq(epoll_wait(fixture.epoll, &event, 1, 0), 0);
    session_release(table, client.session);
    ck_assert_int_eq(epoll_wait(fixture.epoll, &event, 1, 0), 0);
    close(copy);
    mq_close(client.replies);
}
END_TEST

START_TEST(a_full_reply_queue_ends_the_session)
{
    struct fixture_client client;
    fixture_connect(&fixture, &client, replies);
    ck_assert(session_send(table, client.session, "one", 3));
    ck_assert(session_send(table, client.session, "two", 3));
    ck_assert(!session_send(table, client.session, "three", 5));
    struct session_counts counts;
    session_counts(table, &counts);
    ck_assert_uint_eq(counts.ended[SESSION_FAULT], 1);
    fixture_disconnect(&fixture, &client);
}
END_TEST

/* The next message to the client. False: none is there. */
static bool take_header(const struct fixture_client *client, struct wire_header *header)
{
    uint8_t message[256];
    ssize_t got = mq_receive(client->replies, (char *)message, sizeof message, NULL);
    if (got <= 0)
        return false;
    struct read_cursor cursor = read_cursor(message, (size_t)got);
    return wire_get_header(&cursor, header) == KV_OK;
}

/* Whether a client whose session ends for that reason, while somebody still works for it, is told
 * so behind its last reply. */
static bool is_told_of_the_end(enum session_end_reason reason)
{
    struct fixture_client client;
    struct wire_header header = {0};
    fixture_connect(&fixture, &client, replies);
    session_end(table, client.session, reason);
    deliver_failure(table, client.session, 7, KV_IO, "its last reply");
    session_release(table, client.session);
    ck_assert(take_header(&client, &header));
    ck_assert_int_eq(header.kind, WIRE_REPLY);
    bool told = take_header(&client, &header);
    if (told) {
        ck_assert_int_eq(header.kind, WIRE_REFUSED);
        ck_assert_int_eq(header.status, KV_NO_SESSION);
        ck_assert_uint_eq(header.secret, 0x1234);
        ck_assert_uint_ne(header.session, 0);
    }
    mq_close(client.replies);
    return told;
}

START_TEST(clients_are_told_of_an_end_that_they_did_not_ask_for)
{
    ck_assert(is_told_of_the_end(SESSION_FAULT));
    ck_assert(is_told_of_the_end(SESSION_SEGMENT));
    ck_assert(is_told_of_the_end(SESSION_KILLED));
    ck_assert(!is_told_of_the_end(SESSION_BYE));
    ck_assert(!is_told_of_the_end(SESSION_DIED));
    ck_assert(!is_told_of_the_end(SESSION_REPLACED)); /* the queue has a new session */
}
END_TEST

/* Deals with what waits in the lane. */
static void serve_lane(void)
{
    char message[FIXTURE_MESSAGE_BYTES];
    ssize_t size;
    while ((size = mq_receive(lanes_queue(fixture.service.lanes, 0), message, sizeof message,
                              NULL)) > 0)
        fixture_handle(&fixture, message, (size_t)size);
}

START_TEST(a_table_that_is_closed_opens_no_session)
{
    struct fixture_client first;
    struct session_start start = {.reply_name = "", .pidfd = -1};
    fixture_connect(&fixture, &first, (struct wire_geometry){1, 128});
    ck_assert(!session_table_close(table)); /* somebody is there */
    fixture_disconnect(&fixture, &first);
    session_end_abandoned(table, getpid());
    session_end_abandoned(table, getpid());
    serve_lane();
    ck_assert_uint_eq(live_sessions(), 0);
    ck_assert(session_table_close(table));
    ck_assert_ptr_null(session_open(table, &start));
    ck_assert_int_eq(errno, ESHUTDOWN);
}
END_TEST

START_TEST(the_table_is_bounded)
{
    struct fixture_client clients[8];
    for (int i = 0; i < 8; i++)
        fixture_connect(&fixture, &clients[i], (struct wire_geometry){1, 128});
    struct session_start start = {.reply_name = "", .pidfd = -1};
    ck_assert_ptr_null(session_open(table, &start));
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_eq(live_sessions(), 8);
    /* Our own locks do not show in this process: to the table, nobody holds these queues. */
    session_end_abandoned(table, getpid() + 1);
    ck_assert_uint_eq(live_sessions(), 8);
    session_end_abandoned(table, getpid());
    ck_assert_uint_eq(live_sessions(), 8); /* they end behind what waits in their lane */
    session_end_abandoned(table, getpid());
    serve_lane();
    ck_assert_uint_eq(live_sessions(), 0);
    for (int i = 0; i < 8; i++)
        fixture_disconnect(&fixture, &clients[i]);
}
END_TEST

START_TEST(names_of_the_dead_are_unlinked)
{
    struct fixture_client client;
    fixture_connect(&fixture, &client, replies);
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, fixture.name, WIRE_REPLY_SEGMENT, getpid(), 1);
    struct wire_segment *mine, *segment;
    struct kv_error error = {0};
    ck_assert_int_eq(wire_segment_create(name, 4096, 0600, &mine, &error), KV_OK);
    ck_assert_int_eq(wire_segment_open(name, 4096, geteuid(), true, &segment, &error), KV_OK);
    ck_assert(session_add_segment(client.session, segment, name));
    session_end(table, client.session, SESSION_DIED);
    session_release(table, client.session);
    ck_assert_int_eq(shm_unlink(name), -1);
    ck_assert_int_eq(errno, ENOENT);
    wire_segment_close(mine);
    mq_close(client.replies);
}
END_TEST

static void mourn(void *context, pid_t pid)
{
    *(pid_t *)context = pid;
}

/* What the client sent is executed before its session ends; the lane may have no room for the last
 * word. */
START_TEST(the_dead_leave_behind_what_waits_in_their_lane)
{
    struct fixture_client client;
    fixture_connect(&fixture, &client, replies);
    pid_t mourned = -1;
    session_set_death_listener(table, mourn, &mourned);
    while (mq_send(lanes_queue(fixture.service.lanes, 0), "full", 4, 0) == 0)
        ;
    session_client_died(table, client.session->id);
    ck_assert_int_eq(mourned, 0);
    ck_assert(session_send_due_byes(table));
    ck_assert_uint_eq(live_sessions(), 1);
    serve_lane();
    ck_assert(!session_send_due_byes(table));
    ck_assert_uint_eq(live_sessions(), 1);
    serve_lane();
    ck_assert_uint_eq(live_sessions(), 0);
    session_release(table, client.session);
    ck_assert_int_eq(mourned, getpid());
    session_set_death_listener(table, NULL, NULL);
    mq_close(client.replies);
}
END_TEST

/* Threads that look the session up while it is ended: each either gets it whole or not at all. */
static struct fixture_client shared;
static _Atomic bool stop;
static _Atomic uint64_t found_count;

static void *look_up(void *unused)
{
    (void)unused;
    uint32_t id = shared.session->id;
    uint64_t cookie = shared.session->cookie;
    while (!atomic_load(&stop)) {
        struct session *session = session_acquire(table, id, cookie);
        if (!session)
            continue;
        ck_assert_uint_eq(session->nonce, 0x1234);
        atomic_fetch_add(&found_count, 1);
        session_release(table, session);
    }
    return NULL;
}

START_TEST(looked_up_while_it_ends)
{
    for (int round = 0; round < 30; round++) {
        fixture_connect(&fixture, &shared, replies);
        atomic_store(&stop, false);
        uint64_t before = atomic_load(&found_count);
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, look_up, NULL), 0);
        while (atomic_load(&found_count) < before + 100)
            ;
        session_end(table, shared.session, SESSION_BYE);
        atomic_store(&stop, true);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
        session_release(table, shared.session);
        mq_close(shared.replies);
        ck_assert_uint_eq(live_sessions(), 0);
    }
    struct fixture_client clients[8]; /* every slot came back */
    for (int i = 0; i < 8; i++)
        fixture_connect(&fixture, &clients[i], (struct wire_geometry){1, 128});
    for (int i = 0; i < 8; i++)
        fixture_disconnect(&fixture, &clients[i]);
}
END_TEST

TEST_SUITE(serverk_session)
{
    TCase *cases = tcase_create("session");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, found_by_id_and_cookie);
    tcase_add_test(cases, slots_are_used_again_under_new_ids);
    tcase_add_test(cases, a_held_session_outlives_its_end);
    tcase_add_test(cases, an_ended_session_is_watched_no_more);
    tcase_add_test(cases, a_full_reply_queue_ends_the_session);
    tcase_add_test(cases, clients_are_told_of_an_end_that_they_did_not_ask_for);
    tcase_add_test(cases, a_table_that_is_closed_opens_no_session);
    tcase_add_test(cases, the_table_is_bounded);
    tcase_add_test(cases, names_of_the_dead_are_unlinked);
    tcase_add_test(cases, the_dead_leave_behind_what_waits_in_their_lane);
    tcase_add_test(cases, looked_up_while_it_ends);
    suite_add_tcase(suite, cases);
}
