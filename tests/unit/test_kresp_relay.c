/* Threads that run one loop by turns. */
#include <check.h>
#include <stdlib.h>

#include "bridges/kresp/bridge/relay.h"
#include "common/report/error.h"
#include "tests/support/test_suite.h"

/* A number of things that are under way, each in so many pieces, in turn. */
enum { THINGS = 2 * RELAY_RUNNERS, PIECES = 20 };

static struct {
    struct relay relay;
    struct relay_runner *paused[THINGS]; /* NULL: not begun, or done */
    unsigned pieces[THINGS];
    pthread_t threads[THINGS];
    unsigned next, done, paused_now, most_paused;
} work;

static void do_thing(unsigned thing)
{
    ck_assert_uint_eq(work.pieces[thing], 0);
    work.threads[thing] = pthread_self();
    while (work.pieces[thing] < PIECES) {
        work.pieces[thing]++;
        if (!relay_spare(&work.relay))
            continue;
        work.paused[thing] = work.relay.holder;
        if (++work.paused_now > work.most_paused)
            work.most_paused = work.paused_now;
        relay_pause(&work.relay);
        work.paused_now--;
        ck_assert_ptr_eq(work.relay.holder, work.paused[thing]);
        work.paused[thing] = NULL;
        ck_assert(pthread_equal(work.threads[thing], pthread_self()));
    }
    work.done++;
}

static struct relay_runner *take_turns(void *context)
{
    ck_assert_ptr_eq(context, &work);
    while (work.done < THINGS) {
        unsigned thing = work.next++ % THINGS;
        if (work.paused[thing])
            return work.paused[thing];
        if (work.pieces[thing] == 0)
            do_thing(thing);
    }
    return NULL;
}

START_TEST(what_is_paused_goes_on_in_its_thread)
{
    struct kv_error error;
    work.relay = (struct relay){.loop = take_turns, .context = &work, .name = "relay"};
    ck_assert_int_eq(relay_start(&work.relay, &error), KV_OK);
    while (!relay_join(&work.relay, 1000))
        ;
    for (unsigned i = 0; i < THINGS; i++)
        ck_assert_uint_eq(work.pieces[i], PIECES);
    ck_assert_uint_eq(work.most_paused, RELAY_RUNNERS - 1);
}
END_TEST

static struct relay_runner *wait_a_little(void *context)
{
    pthread_mutex_t *held = context;
    pthread_mutex_lock(held);
    pthread_mutex_unlock(held);
    return NULL;
}

START_TEST(a_loop_that_goes_on_is_not_joined)
{
    struct kv_error error;
    pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    struct relay relay = {.loop = wait_a_little, .context = &held, .name = "relay"};
    pthread_mutex_lock(&held);
    ck_assert_int_eq(relay_start(&relay, &error), KV_OK);
    ck_assert(!relay_join(&relay, 1));
    pthread_mutex_unlock(&held);
    while (!relay_join(&relay, 1000))
        ;
}
END_TEST

TEST_SUITE(kresp_relay)
{
    TCase *turns = tcase_create("turns");
    tcase_add_test(turns, what_is_paused_goes_on_in_its_thread);
    tcase_add_test(turns, a_loop_that_goes_on_is_not_joined);
    suite_add_tcase(suite, turns);
}
