/* wait: when it polls, when it gives up polling, and when yielding is muted. */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "tests/support/skip.h"
#include "tests/support/test_suite.h"
#include "wire/time_slice.h"
#include "wire/wait.h"

#define MS 1000000u

/* An attempt that fails until call number `succeeds_at` (0: for ever), and then gives `result`. */
struct script {
    unsigned long succeeds_at;
    ssize_t result;
    unsigned long calls;
};

static ssize_t attempt(void *context)
{
    struct script *script = context;
    return ++script->calls == script->succeeds_at ? script->result : 0;
}

static struct wire_waiter new_waiter(enum wire_spin_mode mode, uint32_t fixed_us)
{
    struct wire_waiter waiter;
    wire_waiter_init(&waiter, (struct wire_spin){mode, fixed_us});
    return waiter;
}

static ssize_t wait_in_vain(struct wire_waiter *waiter, unsigned long *calls)
{
    struct script never = {0};
    ssize_t got = wire_wait(waiter, attempt, &never);
    if (calls)
        *calls = never.calls;
    return got;
}

START_TEST(spin_is_parsed)
{
    struct wire_spin spin;
    ck_assert(wire_spin_parse("auto", &spin) && spin.mode == WIRE_SPIN_AUTO);
    ck_assert(wire_spin_parse("off", &spin) && spin.mode == WIRE_SPIN_OFF);
    ck_assert(wire_spin_parse("50", &spin) && spin.mode == WIRE_SPIN_FIXED && spin.fixed_us == 50);
    ck_assert(wire_spin_parse("100000", &spin) && spin.fixed_us == 100000);
    static const char *const bad[] = {"", "0", "100001", "-1", "5us", "Auto", "auto ", "1e3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!wire_spin_parse(bad[i], &spin), "\"%s\"", bad[i]);
    ck_assert_uint_eq(spin.fixed_us, 100000); /* left alone */
}
END_TEST

START_TEST(what_is_there_costs_one_attempt)
{
    for (unsigned mode = WIRE_SPIN_AUTO; mode <= WIRE_SPIN_FIXED; mode++) {
        struct wire_waiter waiter = new_waiter((enum wire_spin_mode)mode, 50);
        struct script at_once = {.succeeds_at = 1, .result = 64};
        ck_assert_int_eq(wire_wait(&waiter, attempt, &at_once), 64);
        ck_assert_uint_eq(at_once.calls, 1);
        ck_assert_uint_eq(waiter.waits, 0);
    }
}
END_TEST

/* Waits until the script was played to the call that succeeds: where the machine stops this process
 * in the middle of a poll, the budget is spent and another wait must try. */
static ssize_t wait_for_success(struct wire_waiter *waiter, struct script *script)
{
    ssize_t got = 0;
    for (unsigned tries = 0; got == 0 && tries < 10000; tries++) {
        script->calls = 0;
        wire_waiter_init(waiter, waiter->spin);
        got = wire_wait(waiter, attempt, script);
    }
    return got;
}

START_TEST(failures_are_passed_on)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    for (unsigned long call = 1; call < 20; call++) {
        struct script broken = {.succeeds_at = call, .result = -1};
        ck_assert_int_eq(wait_for_success(&waiter, &broken), -1);
        ck_assert_uint_eq(broken.calls, call);
    }
}
END_TEST

START_TEST(off_never_polls)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_OFF, 0);
    unsigned long calls;
    ck_assert_int_eq(wait_in_vain(&waiter, &calls), 0);
    ck_assert_uint_eq(calls, 1);
    ck_assert_uint_eq(waiter.sleeps, 1);
    ck_assert_uint_eq(waiter.hits, 0);
}
END_TEST

START_TEST(fixed_polls_its_time_out)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_FIXED, 2000);
    unsigned long calls;
    uint64_t before_ns = clock_monotonic_ns();
    ck_assert_int_eq(wait_in_vain(&waiter, &calls), 0);
    ck_assert_uint_ge(clock_monotonic_ns() - before_ns, 2 * MS);
    ck_assert_uint_gt(calls, 1);
    ck_assert_uint_eq(waiter.waits, 1);
    ck_assert_uint_eq(waiter.sleeps, 1);
    struct script later = {.succeeds_at = 2, .result = 5};
    ck_assert_int_eq(wait_for_success(&waiter, &later), 5);
    ck_assert_uint_eq(waiter.waits, 1);
    ck_assert_uint_eq(waiter.hits, 1);
    ck_assert_uint_eq(waiter.sleeps, 0);
}
END_TEST

/* Where other programs take the time, yielding is muted: then a test of it begins again. */
#define TRIES 5

/* After whatever the last try met. */
static void wait_until_unmuted(void)
{
    while (wire_yielding_is_muted())
        clock_sleep_ms(10);
}

/* False: yielding was muted meanwhile. */
static bool scores_rise_and_fall(void)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    uint32_t before = waiter.yield_score;
    struct script soon = {.succeeds_at = 3, .result = 1};
    ck_assert_int_eq(wait_for_success(&waiter, &soon), 1);
    ck_assert_uint_eq(soon.calls, 3);
    ck_assert_uint_gt(waiter.yield_score, before);
    before = waiter.yield_score;
    ck_assert_int_eq(wait_in_vain(&waiter, NULL), 0);
    if (wire_yielding_is_muted())
        return false;
    ck_assert_uint_lt(waiter.yield_score, before);
    for (unsigned i = 0; waiter.yield_score <= 900 && i < 100000; i++) {
        struct script hit = {.succeeds_at = 2, .result = 1};
        wire_wait(&waiter, attempt, &hit);
        ck_assert_uint_le(waiter.yield_score, 1024);
    }
    if (wire_yielding_is_muted())
        return false;
    ck_assert_uint_gt(waiter.yield_score, 900);
    return true;
}

START_TEST(hits_raise_the_score_misses_lower_it)
{
    for (unsigned tries = 0; tries < TRIES; tries++) {
        wait_until_unmuted();
        if (scores_rise_and_fall())
            return;
    }
    SKIP_TEST("other programs take the time");
}
END_TEST

/* False: yielding was muted before it had learned that polling never pays. */
static bool polling_stops_but_for_a_probe(void)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    unsigned long calls, polled = 0;
    for (unsigned i = 1; i <= 128; i++)
        wait_in_vain(&waiter, NULL);
    if (wire_yielding_is_muted())
        return false;
    for (unsigned i = 129; i <= 128 + 512; i++) { /* two probes: waits 256 and 512 */
        wait_in_vain(&waiter, &calls);
        if (calls > 1) {
            polled++;
            ck_assert_uint_eq(i % 256, 0);
        }
    }
    ck_assert_uint_eq(polled, 2);
    ck_assert_uint_eq(waiter.waits, 640);
    ck_assert_uint_eq(waiter.sleeps, 640);
    return true;
}

START_TEST(polling_that_never_pays_stops_but_for_a_probe)
{
    for (unsigned tries = 0; tries < TRIES; tries++) {
        wait_until_unmuted();
        if (polling_stops_but_for_a_probe())
            return;
    }
    SKIP_TEST("other programs take the time");
}
END_TEST

/* Makes the waiter believe that its yield took so long; on a busy machine it takes longer. Returns
 * how long it was in the end; 0: it did not yield, because it was muted at the begin. */
static uint64_t lose(struct wire_waiter *waiter, uint64_t ms)
{
    uint64_t since_ns = clock_monotonic_ns();
    clock_sleep_ms(ms);
    waiter->last_yield_ns = 0;
    wire_waiter_served(waiter, since_ns);
    return waiter->last_yield_ns != 0 ? waiter->last_yield_ns - since_ns : 0;
}

static atomic_ulong turns;

/* Thread: wants the CPU of the process, and gives it away again and again, until *stop is set. Each
 * of its turns takes so long that a waiter takes the yield for one that let somebody run (1 us). */
static void *take_turns(void *stop)
{
    while (!atomic_load((atomic_bool *)stop)) {
        atomic_fetch_add(&turns, 1);
        uint64_t end_ns = clock_monotonic_ns() + 2000;
        while (clock_monotonic_ns() < end_ns)
            ;
        sched_yield();
    }
    return NULL;
}

/* Does a yield let that thread run? Beside other programs the scheduler often lets the one that
 * yields go on. */
static bool yields_are_turns(void)
{
    int let = 0;
    for (int i = 0; i < 1000; i++) {
        unsigned long before = atomic_load(&turns);
        sched_yield();
        let += atomic_load(&turns) != before;
    }
    return let >= 950;
}

static void use_one_cpu(void)
{
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

struct attempts {
    unsigned long fewest, most;
};

/* The fewest and the most attempts of ten waiters that have just begun, but for those that a busy
 * machine stops: time that others take mutes yielding, each time longer, and who polls without has
 * no turns to count. So many may be stopped in a test (up to 14 s); false: there were more. */
static bool count_attempts(uint32_t yields_max, struct attempts *attempts)
{
    static unsigned may_be_stopped = 5;
    *attempts = (struct attempts){.fewest = ULONG_MAX};
    for (int counted = 0; counted < 10;) {
        wait_until_unmuted();
        struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
        if (yields_max > 0)
            wire_waiter_limit_yields(&waiter, yields_max);
        unsigned long calls;
        ck_assert_int_eq(wait_in_vain(&waiter, &calls), 0);
        if (wire_yielding_is_muted()) {
            if (may_be_stopped-- == 0)
                return false;
            continue;
        }
        counted++;
        if (calls < attempts->fewest)
            attempts->fewest = calls;
        if (calls > attempts->most)
            attempts->most = calls;
    }
    return true;
}

/* One attempt, seven polls and one at the end of the yield: that was its turn. */
START_TEST(limited_waiter_lets_others_run_so_often_only)
{
    atomic_bool stop = false;
    pthread_t other;
    use_one_cpu();
    ck_assert_int_eq(pthread_create(&other, NULL, take_turns, &stop), 0);
    struct attempts one = {0}, three = {0}, any = {0};
    bool counted = count_attempts(1, &one) && count_attempts(3, &three) && count_attempts(0, &any);
    bool alone = yields_are_turns();
    atomic_store(&stop, true);
    pthread_join(other, NULL);
    bool few = one.fewest <= 9 && three.fewest <= 11;
    if (!counted || (!few && !alone))
        SKIP_TEST("other programs take the time");
    ck_assert_uint_le(one.fewest, 9);
    ck_assert_uint_le(three.fewest, 11);
    ck_assert_uint_gt(any.most, 11);
}
END_TEST

/* Where others may need the CPU, polling that does not pay is not replaced by the other kind. */
START_TEST(limited_waiter_does_not_pause)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    wire_waiter_limit_yields(&waiter, 1);
    waiter.yield_score = 0;
    unsigned long calls;
    ck_assert_int_eq(wait_in_vain(&waiter, &calls), 0);
    ck_assert_uint_eq(calls, 1);
    ck_assert_uint_eq(waiter.sleeps, 1);
}
END_TEST

START_TEST(lost_time_mutes_the_whole_process)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    bool forgiven = false;
    for (unsigned tries = 0; tries < TRIES && !forgiven; tries++) {
        wait_until_unmuted();
        waiter = new_waiter(WIRE_SPIN_AUTO, 0);
        forgiven = lose(&waiter, 4) < 25 * (uint64_t)MS; /* one time slice */
    }
    if (!forgiven)
        SKIP_TEST("other programs take the time");
    ck_assert(!wire_yielding_is_muted());
    uint64_t before_ns = clock_monotonic_ns();
    lose(&waiter, 30);
    bool muted = wire_yielding_is_muted();
    if (clock_monotonic_ns() - before_ns >= 200 * (uint64_t)MS) /* a mute lasts longer */
        SKIP_TEST("other programs take the time");
    ck_assert(muted);
    wait_until_unmuted(); /* which comes: the longest mute ends within 4 s */
}
END_TEST

START_TEST(muted_waiters_poll_without_yielding)
{
    struct wire_waiter waiter, fresh = new_waiter(WIRE_SPIN_AUTO, 0);
    uint64_t took_ns = UINT64_MAX; /* the mute lasts longer than 200 ms */
    for (unsigned tries = 0; tries < TRIES && took_ns > 200 * (uint64_t)MS; tries++) {
        waiter = new_waiter(WIRE_SPIN_AUTO, 0);
        uint64_t before_ns = clock_monotonic_ns();
        lose(&waiter, 30);
        waiter = fresh;
        wait_in_vain(&waiter, NULL);
        took_ns = clock_monotonic_ns() - before_ns;
    }
    if (took_ns > 200 * (uint64_t)MS)
        SKIP_TEST("other programs take the time");
    ck_assert_uint_eq(waiter.yield_score, fresh.yield_score);
    ck_assert_uint_ne(waiter.pause_score, fresh.pause_score);
}
END_TEST

/* Nanoseconds; 0: the kernel knows no slices of single threads. */
static uint64_t own_slice_ns(void)
{
    uint64_t attributes[6] = {0}; /* struct sched_attr; sched_runtime is its fourth */
    ck_assert_int_eq(syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0), 0);
    return attributes[3];
}

/* Of a thread that waits once. */
struct slices {
    bool may_shorten;
    uint64_t before_ns, after_ns;
};

static void *wait_once(void *context)
{
    struct slices *slices = context;
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    if (slices->may_shorten)
        wire_waiter_allow_short_slices(&waiter);
    slices->before_ns = own_slice_ns();
    wait_in_vain(&waiter, NULL);
    slices->after_ns = own_slice_ns();
    return NULL;
}

static struct slices wait_in_thread(bool may_shorten)
{
    struct slices slices = {.may_shorten = may_shorten};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_once, &slices), 0);
    pthread_join(thread, NULL);
    return slices;
}

/* The same while yielding is muted. */
static struct slices wait_in_thread_muted(bool may_shorten)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    struct slices slices = {0};
    for (unsigned tries = 0; tries < TRIES; tries++) {
        lose(&waiter, 30);
        slices = wait_in_thread(may_shorten);
        if (wire_yielding_is_muted())
            break;
    }
    return slices;
}

START_TEST(muted_waiters_ask_for_short_slices)
{
    if (own_slice_ns() == 0)
        SKIP_TEST("the kernel knows no slices of single threads");
    struct slices slices = wait_in_thread(true);
    if (wire_yielding_is_muted())
        SKIP_TEST("other programs take the time");
    ck_assert_uint_eq(slices.after_ns, slices.before_ns); /* not without need */
    slices = wait_in_thread_muted(false);
    ck_assert_uint_eq(slices.after_ns, slices.before_ns); /* nor who may not */
    slices = wait_in_thread_muted(true);
    ck_assert_uint_gt(slices.before_ns, TIME_SLICE_SHORT_NS);
    ck_assert_uint_eq(slices.after_ns, TIME_SLICE_SHORT_NS);
    ck_assert_uint_gt(own_slice_ns(), TIME_SLICE_SHORT_NS); /* only who waits */
}
END_TEST

START_TEST(mutes_grow_when_they_follow_each_other)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    uint64_t before_ns = clock_monotonic_ns();
    lose(&waiter, 30);
    clock_sleep_ms(300);
    ck_assert(!wire_yielding_is_muted());
    lose(&waiter, 30);
    clock_sleep_ms(300); /* the first would be over */
    bool muted = wire_yielding_is_muted();
    if (clock_monotonic_ns() - before_ns >= 1000 * (uint64_t)MS)
        SKIP_TEST("other programs take the time");
    ck_assert(muted);
}
END_TEST

START_TEST(off_and_fixed_never_yield_for_others)
{
    for (unsigned mode = WIRE_SPIN_OFF; mode <= WIRE_SPIN_FIXED; mode++) {
        struct wire_waiter waiter = new_waiter((enum wire_spin_mode)mode, 50);
        ck_assert_uint_eq(lose(&waiter, 1000), 0);
        ck_assert(!wire_yielding_is_muted());
    }
}
END_TEST

START_TEST(served_yields_now_and_then)
{
    struct wire_waiter waiter = new_waiter(WIRE_SPIN_AUTO, 0);
    uint64_t now_ns = clock_monotonic_ns();
    wire_waiter_served(&waiter, now_ns);
    uint64_t yielded_ns = waiter.last_yield_ns;
    ck_assert_uint_ge(yielded_ns, now_ns);
    wire_waiter_served(&waiter, yielded_ns + 199000);
    ck_assert_uint_eq(waiter.last_yield_ns, yielded_ns);
    wire_waiter_served(&waiter, yielded_ns + 200000);
    bool others_took_much = yielded_ns - now_ns > 25 * (uint64_t)MS; /* which mutes yielding */
    ck_assert_int_eq(waiter.last_yield_ns == yielded_ns, others_took_much);
}
END_TEST

TEST_SUITE(wire_wait)
{
    TCase *rule = tcase_create("rule");
    tcase_set_timeout(rule, 30);
    tcase_add_test(rule, spin_is_parsed);
    tcase_add_test(rule, what_is_there_costs_one_attempt);
    tcase_add_test(rule, failures_are_passed_on);
    tcase_add_test(rule, off_never_polls);
    tcase_add_test(rule, fixed_polls_its_time_out);
    tcase_add_test(rule, hits_raise_the_score_misses_lower_it);
    tcase_add_test(rule, polling_that_never_pays_stops_but_for_a_probe);
    tcase_add_test(rule, limited_waiter_lets_others_run_so_often_only);
    tcase_add_test(rule, limited_waiter_does_not_pause);
    suite_add_tcase(suite, rule);
    TCase *muting = tcase_create("muting");
    tcase_set_timeout(muting, 30);
    tcase_add_test(muting, lost_time_mutes_the_whole_process);
    tcase_add_test(muting, muted_waiters_poll_without_yielding);
    tcase_add_test(muting, muted_waiters_ask_for_short_slices);
    tcase_add_test(muting, mutes_grow_when_they_follow_each_other);
    tcase_add_test(muting, off_and_fixed_never_yield_for_others);
    tcase_add_test(muting, served_yields_now_and_then);
    suite_add_tcase(suite, muting);
}
