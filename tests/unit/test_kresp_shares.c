/* How users share connections, and the time of a thread. */
#include <check.h>

#include "bridges/kresp/bridge/redis_connection.h"
#include "bridges/kresp/bridge/user_queue.h"
#include "common/time/clock.h"
#include "tests/support/test_suite.h"

enum { GREEDY = 1000, OTHER = 1001 };

static struct redis_user *enter(struct redis_users *users, uint32_t uid, unsigned times)
{
    struct redis_user *user = NULL;
    while (times-- > 0)
        ck_assert_ptr_nonnull(user = redis_user_enter(users, uid));
    return user;
}

static void leave(struct redis_users *users, struct redis_user *user, unsigned times)
{
    while (times-- > 0)
        redis_user_leave(users, user);
}

START_TEST(a_user_leaves_connections_to_others)
{
    struct redis_users users = REDIS_USERS_EMPTY;
    users.max_connections = 16;
    users.shared = true;
    struct redis_user *greedy = enter(&users, GREEDY, 12);
    ck_assert_ptr_null(redis_user_enter(&users, GREEDY));
    struct redis_user *other = enter(&users, OTHER, 3);
    ck_assert_ptr_null(redis_user_enter(&users, OTHER));
    struct redis_user *third = enter(&users, REDIS_USER_OF_TCP, 1);
    ck_assert_ptr_null(redis_user_enter(&users, REDIS_USER_OF_TCP));
    ck_assert_uint_eq(redis_users_connections(&users), 16);
    leave(&users, greedy, 1);
    ck_assert_ptr_null(redis_user_enter(&users, GREEDY));
    ck_assert_ptr_eq(redis_user_enter(&users, REDIS_USER_OF_TCP), third);
    leave(&users, greedy, 11);
    leave(&users, other, 3);
    leave(&users, third, 2);
    ck_assert_ptr_null(users.first);
}
END_TEST

START_TEST(a_user_who_is_alone_has_all)
{
    struct redis_users users = REDIS_USERS_EMPTY;
    users.max_connections = 16;
    struct redis_user *user = enter(&users, GREEDY, 16);
    ck_assert_ptr_null(redis_user_enter(&users, GREEDY));
    ck_assert_ptr_null(redis_user_enter(&users, OTHER));
    leave(&users, user, 16);
}
END_TEST

#define MS 1000000u

START_TEST(users_take_turns)
{
    struct user_queues queues = {0};
    struct redis_user greedy = {.uid = GREEDY}, other = {.uid = OTHER};
    struct redis_connection first = {0}, second = {0};
    struct user_queue *of_greedy = user_queue_of(&queues, &greedy);
    struct user_queue *of_other = user_queue_of(&queues, &other);
    ck_assert_ptr_eq(user_queue_of(&queues, &greedy), of_greedy);
    uint64_t now_ns = 1000 * MS, rest_ns;
    ck_assert_ptr_null(user_queue_next(&queues, now_ns, &rest_ns));
    ck_assert_uint_eq(rest_ns, UINT64_MAX);

    user_queue_push(of_greedy, &first);
    user_queue_push(of_other, &second);
    for (unsigned i = 0; i < 4; i++) { /* short turns: one after the other */
        struct user_queue *queue = user_queue_next(&queues, now_ns, &rest_ns);
        ck_assert_ptr_eq(queue, i % 2 == 0 ? of_greedy : of_other);
        user_queue_charge(&queues, queue, now_ns, now_ns + 1000);
    }

    /* A long one is followed by a rest of the same length. */
    ck_assert_ptr_eq(user_queue_next(&queues, now_ns, &rest_ns), of_greedy);
    user_queue_charge(&queues, of_greedy, now_ns, now_ns + 3 * MS);
    now_ns += 3 * MS;
    ck_assert_ptr_eq(user_queue_next(&queues, now_ns, &rest_ns), of_other);
    ck_assert_ptr_eq(connection_list_pop(&of_other->small), &second);
    user_queue_charge(&queues, of_other, now_ns, now_ns);
    ck_assert_ptr_null(user_queue_next(&queues, now_ns, &rest_ns));
    ck_assert_uint_eq(rest_ns, 3 * MS);
    ck_assert_ptr_eq(user_queue_next(&queues, now_ns + 3 * MS, &rest_ns), of_greedy);

    /* Who is alone does not rest. */
    ck_assert_ptr_eq(connection_list_pop(&of_greedy->small), &first);
    user_queues_purge(&queues, 0);
    ck_assert_ptr_null(queues.last);
    of_greedy = user_queue_of(&queues, &greedy);
    user_queue_push(of_greedy, &first);
    user_queue_charge(&queues, of_greedy, now_ns, now_ns + 500 * MS);
    ck_assert(!user_queues_are_several(&queues));
    ck_assert_ptr_eq(user_queue_next(&queues, now_ns + 500 * MS, &rest_ns), of_greedy);
    user_queues_purge(&queues, 0);
    ck_assert_ptr_null(queues.last);
}
END_TEST

/* Two users: the first uses the time that it is given whenever it may, the second asks for 100 us
 * whenever the thread is free. Returns the share of the second in the time. */
static double share_beside(uint64_t used_ns)
{
    struct user_queues queues = {0};
    struct redis_user greedy = {.uid = GREEDY}, other = {.uid = OTHER};
    struct redis_connection first = {0}, second = {0};
    struct user_queue *of_greedy = user_queue_of(&queues, &greedy);
    struct user_queue *of_other = user_queue_of(&queues, &other);
    uint64_t now_ns = 1000 * MS, rest_ns, of_other_ns = 0, end_ns = now_ns + 100 * used_ns;
    of_greedy->connections = of_other->connections = 1;
    while (now_ns < end_ns) {
        if (!of_greedy->small.first)
            user_queue_push(of_greedy, &first);
        if (!of_other->small.first)
            user_queue_push(of_other, &second);
        struct user_queue *queue = user_queue_next(&queues, now_ns, &rest_ns);
        if (!queue) {
            now_ns += rest_ns;
            continue;
        }
        uint64_t took_ns = queue == of_greedy ? used_ns : MS / 10;
        ck_assert_ptr_nonnull(connection_list_pop(&queue->small));
        user_queue_charge(&queues, queue, now_ns, now_ns + took_ns);
        now_ns += took_ns;
        of_other_ns += queue == of_other ? took_ns : 0;
    }
    of_greedy->connections = of_other->connections = 0;
    user_queues_purge(&queues, 0);
    return (double)of_other_ns / (double)(now_ns - 1000 * MS);
}

START_TEST(a_user_whose_rounds_are_long_has_half_of_the_time)
{
    for (uint64_t used_ns = MS; used_ns <= 3000 * MS; used_ns *= 3) {
        double share = share_beside(used_ns);
        ck_assert_msg(share > 0.45 && share < 0.55, "%u us: %f", (unsigned)(used_ns / 1000), share);
    }
}
END_TEST

/* A rest is held while the other one thinks for a while, and its end is known. */
START_TEST(a_rest_is_held_for_users_who_come_and_go)
{
    struct user_queues queues = {0};
    struct redis_user greedy = {.uid = GREEDY}, other = {.uid = OTHER};
    struct redis_connection first = {0};
    struct user_queue *of_greedy = user_queue_of(&queues, &greedy);
    struct user_queue *of_other = user_queue_of(&queues, &other);
    uint64_t now_ns = 10000 * MS, rest_ns;
    of_greedy->connections = 1; /* the other has none any more */
    user_queue_charge(&queues, of_other, now_ns, now_ns);
    user_queue_push(of_greedy, &first);
    user_queue_charge(&queues, of_greedy, now_ns, now_ns + 400 * MS);
    now_ns += 400 * MS;
    user_queues_purge(&queues, now_ns);
    ck_assert_ptr_null(user_queue_next(&queues, now_ns + 100 * MS, &rest_ns));
    ck_assert_uint_eq(rest_ns, 300 * MS);
    ck_assert_ptr_eq(user_queue_next(&queues, now_ns + 400 * MS, &rest_ns), of_greedy);

    /* Nobody has come for as long as the rest: it is over. */
    user_queue_charge(&queues, of_other, now_ns, now_ns);
    user_queue_charge(&queues, of_greedy, now_ns, now_ns + 400 * MS);
    redis_user_rest(&greedy, now_ns + 400 * MS, 30000 * (uint64_t)MS);
    ck_assert_uint_eq(redis_user_rest_ns(&greedy, now_ns + 400 * MS), REDIS_USER_MAX_REST_NS);
    user_queues_purge(&queues, now_ns + 1400 * MS);
    ck_assert_ptr_eq(user_queue_next(&queues, now_ns + 1400 * MS, &rest_ns), of_greedy);

    /* It is the user's: in another thread, too. */
    struct user_queues thread = {0};
    struct redis_connection there = {0};
    struct user_queue *greedy_there = user_queue_of(&thread, &greedy);
    struct user_queue *other_there = user_queue_of(&thread, &other);
    greedy.rests_until_ns = now_ns + 50 * MS;
    user_queue_charge(&thread, other_there, now_ns, now_ns);
    user_queue_push(greedy_there, &there);
    ck_assert_ptr_null(user_queue_next(&thread, now_ns + MS, &rest_ns));
    ck_assert_uint_eq(rest_ns, 49 * MS);

    /* Nor has it a round in both at once. */
    ck_assert_ptr_eq(user_queue_next(&thread, now_ns + 60 * MS, &rest_ns), greedy_there);
    greedy.rounds_running = 1;
    ck_assert_ptr_null(user_queue_next(&thread, now_ns + 60 * MS, &rest_ns));
    ck_assert_uint_eq(rest_ns, USER_LOOK_NS);
    of_greedy->connections = 0;
    user_queues_purge(&queues, 0);
    user_queues_purge(&thread, 0);
}
END_TEST

START_TEST(a_rest_outlasts_the_last_connection)
{
    struct redis_users users = REDIS_USERS_EMPTY;
    users.max_connections = 16;
    struct redis_user *user = enter(&users, GREEDY, 1);
    uint64_t now_ns = clock_monotonic_ns();
    redis_user_rest(user, now_ns, 9000 * (uint64_t)MS);
    leave(&users, user, 1);
    ck_assert_uint_eq(redis_users_connections(&users), 0);
    user = enter(&users, GREEDY, 1);
    ck_assert_uint_gt(redis_user_rest_ns(user, now_ns), 0);
    user->rests_until_ns = now_ns;
    leave(&users, user, 1);
    ck_assert_ptr_null(users.first);
}
END_TEST

START_TEST(small_requests_do_not_wait_for_large_ones)
{
    struct user_queues queues = {0};
    struct redis_user user = {.uid = OTHER};
    struct user_queue *queue = user_queue_of(&queues, &user);
    struct redis_connection fresh = {0}, small = {.session.value_bytes = 100},
                            pipeline = {.has_more = true},
                            large = {.session.value_bytes = BATCH_SESSION_BYTES};
    user_queue_push(queue, &large);
    user_queue_push(queue, &pipeline);
    user_queue_push(queue, &fresh);
    user_queue_push(queue, &small);
    ck_assert_ptr_eq(connection_list_pop(&queue->small), &fresh);
    ck_assert_ptr_eq(connection_list_pop(&queue->small), &small);
    ck_assert_ptr_null(connection_list_pop(&queue->small));
    ck_assert(user_queue_waits(queue));
    ck_assert_ptr_eq(connection_list_pop(&queue->large), &large);
    ck_assert_ptr_eq(connection_list_pop(&queue->large), &pipeline);
    ck_assert(!user_queue_waits(queue));
    user_queues_purge(&queues, 0);
}
END_TEST

START_TEST(a_session_has_fewer_operations_the_larger_its_values)
{
    struct batch_memory memory = {0};
    static const struct {
        size_t value_bytes, operations;
    } cases[] = {{0, BATCH_OPERATIONS},
                 {100, BATCH_OPERATIONS},
                 {BATCH_SESSION_BYTES / 4, 4},
                 {BATCH_SESSION_BYTES * 16, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        batch_memory_limit_session(&memory, cases[i].value_bytes);
        ck_assert_uint_eq(memory.session_limit, cases[i].operations);
    }
}
END_TEST

TEST_SUITE(kresp_shares)
{
    TCase *connections = tcase_create("connections");
    tcase_add_test(connections, a_user_leaves_connections_to_others);
    tcase_add_test(connections, a_user_who_is_alone_has_all);
    suite_add_tcase(suite, connections);
    TCase *turns = tcase_create("turns");
    tcase_add_test(turns, users_take_turns);
    tcase_add_test(turns, a_user_whose_rounds_are_long_has_half_of_the_time);
    tcase_add_test(turns, a_rest_is_held_for_users_who_come_and_go);
    tcase_add_test(turns, a_rest_outlasts_the_last_connection);
    tcase_add_test(turns, small_requests_do_not_wait_for_large_ones);
    tcase_add_test(turns, a_session_has_fewer_operations_the_larger_its_values);
    suite_add_tcase(suite, turns);
}
