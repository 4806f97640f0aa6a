/* start_guard: a signal ends a daemon that opens its store, and what it had made goes with it; the
 * service manager hears that a start goes on. */
#include <check.h>
#include <errno.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/report/notify.h"
#include "common/time/clock.h"
#include "serverk/daemon/start_guard.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/queue.h"

static char name[WIRE_QUEUE_NAME_BYTES];

static void remove_queues(void)
{
    char lock[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(lock, name, WIRE_LOCK, 0, 0);
    mq_unlink(name);
    mq_unlink(lock);
}

static bool queue_exists(void)
{
    mqd_t queue = mq_open(name, O_WRONLY);
    if (queue == (mqd_t)-1)
        return false;
    mq_close(queue);
    return true;
}

static struct lanes *open_lanes(void)
{
    const struct lanes_options options = {
        .name = name, .mode = LANES_SHARED, .workers = 1, .queue_mode = 0600, .group = (gid_t)-1};
    struct lanes *lanes;
    struct kv_error error = {0};
    return lanes_open(&options, &lanes, &error) == KV_OK ? lanes : NULL;
}

/* A start that does not come to an end; says on `ready` when it is under the guard. */
static _Noreturn void start_for_ever(int ready)
{
    struct control *control;
    struct start_guard *guard;
    struct kv_error error = {0};
    struct lanes *lanes = open_lanes();
    if (!lanes || control_create(&control, &error) != KV_OK ||
        start_guard_create(control, lanes, NULL, &guard, &error) != KV_OK ||
        write(ready, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

/* Begins a start and sends it the signal: how it ended, as waitpid tells. */
static int end_a_start(int signal_number)
{
    int ready[2], status = 0;
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0)
        start_for_ever(ready[1]);
    close(ready[1]); /* so that a child that fails is noticed */
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert(queue_exists());
    kill(child, SIGHUP); /* changes nothing */
    kill(child, signal_number);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    close(ready[0]);
    return status;
}

START_TEST(a_signal_ends_a_start)
{
    static const int signals[] = {SIGTERM, SIGINT};
    int status = end_a_start(signals[_i]);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), signals[_i]);
    ck_assert(!queue_exists());
}
END_TEST

#define NOT_PERMITTED 77

/* As the first process of a container: the kernel spares it the default action of its own
 * signals. */
static _Noreturn void end_a_first_process(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        _exit(NOT_PERMITTED);
    int status = end_a_start(SIGTERM);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

START_TEST(a_signal_ends_the_start_of_a_first_process)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        end_a_first_process();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) != NOT_PERMITTED) /* else this machine cannot show it */
        ck_assert_int_eq(WEXITSTATUS(status), 128 + SIGTERM);
    ck_assert(!queue_exists());
}
END_TEST

START_TEST(after_the_start_signals_wait_for_who_serves)
{
    struct control *control;
    struct start_guard *guard;
    struct kv_error error = {0};
    struct lanes *lanes = open_lanes();
    ck_assert_ptr_nonnull(lanes);
    ck_assert_int_eq(control_create(&control, &error), KV_OK);
    ck_assert_int_eq(start_guard_create(control, lanes, NULL, &guard, &error), KV_OK);
    start_guard_free(guard);
    ck_assert_int_eq(control_take_signal(control), 0);
    kill(getpid(), SIGTERM);
    struct pollfd signals = {.fd = control_signals(control), .events = POLLIN};
    ck_assert_int_eq(poll(&signals, 1, 5000), 1);
    ck_assert_int_eq(control_take_signal(control), SIGTERM);
    ck_assert(queue_exists());
    control_free(control);
    lanes_close(lanes);
}
END_TEST

/* The socket of a service manager, to which this process is connected then. */
static int be_managed(void)
{
    char variable[WIRE_QUEUE_NAME_BYTES + 1];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct kv_error error = {0};
    int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_uint_lt(strlen(name), sizeof address.sun_path - 1);
    snprintf(variable, sizeof variable, "@%s", name);
    memcpy(address.sun_path + 1, name, strlen(name)); /* abstract: it begins with NUL */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    ck_assert_int_eq(bind(manager, (struct sockaddr *)&address, size), 0);
    setenv("NOTIFY_SOCKET", variable, 1);
    ck_assert_int_eq(notify_open(&error), KV_OK);
    return manager;
}

/* Uses CPU time until the manager is told something; false: 20 s without a word. */
static bool is_told_while_working(int manager)
{
    struct pollfd told = {.fd = manager, .events = POLLIN};
    uint64_t begin_ns = clock_monotonic_ns();
    while (poll(&told, 1, 0) == 0)
        if (clock_monotonic_ns() - begin_ns > UINT64_C(20000000000))
            return false;
    return true;
}

/* Longer than the guard's time from one look to the next. */
#define SILENCE_MS 1500

START_TEST(a_start_that_goes_on_asks_for_time)
{
    char text[64] = "";
    struct control *control;
    struct start_guard *guard;
    struct kv_error error = {0};
    int manager = be_managed();
    struct pollfd told = {.fd = manager, .events = POLLIN};
    ck_assert_int_eq(control_create(&control, &error), KV_OK);
    ck_assert_int_eq(start_guard_create(control, NULL, NULL, &guard, &error), KV_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert(is_told_while_working(manager));
        ck_assert_int_gt(recv(manager, text, sizeof text - 1, 0), 0);
        ck_assert_str_eq(text, "EXTEND_TIMEOUT_USEC=300000000");
    }
    if (poll(&told, 1, SILENCE_MS) == 1) /* of what was done before */
        recv(manager, text, sizeof text, 0);
    ck_assert_int_eq(poll(&told, 1, SILENCE_MS), 0); /* a start that hangs says nothing */
    start_guard_free(guard);
    control_free(control);
    notify_close();
    close(manager);
}
END_TEST

static void set_up(void)
{
    test_queue_name(name, sizeof name);
    atexit(remove_queues);
}

TEST_SUITE(serverk_start_guard)
{
    TCase *cases = tcase_create("start_guard");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, set_up, remove_queues);
    tcase_add_loop_test(cases, a_signal_ends_a_start, 0, 2);
    tcase_add_test(cases, a_signal_ends_the_start_of_a_first_process);
    tcase_add_test(cases, after_the_start_signals_wait_for_who_serves);
    tcase_add_test(cases, a_start_that_goes_on_asks_for_time);
    suite_add_tcase(suite, cases);
}
