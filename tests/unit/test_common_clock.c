#include <check.h>
#include <signal.h>
#include <sys/time.h>

#include "common/time/clock.h"
#include "tests/support/test_suite.h"

static void ignore_alarm(int signal_number)
{
    (void)signal_number;
}

START_TEST(monotonic_never_goes_back)
{
    uint64_t last_ns = clock_monotonic_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now_ns = clock_monotonic_ns();
        ck_assert_uint_ge(now_ns, last_ns);
        last_ns = now_ns;
    }
}
END_TEST

START_TEST(the_coarse_clock_is_never_ahead)
{
    for (int i = 0; i < 1000; i++) {
        uint64_t coarse_ms = clock_monotonic_coarse_ms();
        ck_assert_uint_le(coarse_ms, clock_monotonic_ns() / 1000000);
    }
}
END_TEST

START_TEST(real_time_is_after_this_was_written)
{
    ck_assert_uint_gt(clock_realtime_ms(), UINT64_C(1700000000000));
}
END_TEST

START_TEST(a_signal_does_not_cut_a_sleep_short)
{
    struct sigaction action = {.sa_handler = ignore_alarm};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every_5_ms = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &every_5_ms, NULL);
    uint64_t start_ns = clock_monotonic_ns();
    clock_sleep_ms(50);
    ck_assert_uint_ge(clock_monotonic_ns() - start_ns, 50000000);
}
END_TEST

TEST_SUITE(common_clock)
{
    TCase *tests = tcase_create("clock");
    tcase_add_test(tests, monotonic_never_goes_back);
    tcase_add_test(tests, the_coarse_clock_is_never_ahead);
    tcase_add_test(tests, real_time_is_after_this_was_written);
    tcase_add_test(tests, a_signal_does_not_cut_a_sleep_short);
    suite_add_tcase(suite, tests);
}
