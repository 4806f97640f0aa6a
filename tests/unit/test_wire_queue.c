/* queue and limits: creating, opening, sending, and what is said when a limit is in the way. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/memory/copy.h"
#include "tests/support/skip.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/queue.h"

static char name[WIRE_QUEUE_NAME_BYTES];

static void remove_queue(void)
{
    mq_unlink(name);
}

/* A test that fails ends without its teardown, but not without atexit. */
static void name_queue(void)
{
    test_queue_name(name, sizeof name);
    atexit(remove_queue);
}

static mqd_t create(struct wire_geometry geometry)
{
    mqd_t queue;
    struct kv_error error = {0};
    ck_assert_msg(wire_queue_create(name, geometry, 0600, true, &queue, &error) == KV_OK, "%s",
                  error.text);
    return queue;
}

static void set_soft_limit(int resource, rlim_t soft)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit((__rlimit_resource_t)resource, &limit), 0);
    limit.rlim_cur = soft;
    ck_assert_int_eq(setrlimit((__rlimit_resource_t)resource, &limit), 0);
}

START_TEST(created_as_asked)
{
    umask(0777);
    mqd_t queue;
    struct kv_error error = {0};
    struct wire_geometry geometry = {3, 200};
    ck_assert_int_eq(wire_queue_create(name, geometry, 0622, true, &queue, &error), KV_OK);
    struct mq_attr attributes;
    struct stat facts;
    ck_assert_int_eq(mq_getattr(queue, &attributes), 0);
    ck_assert_int_eq(attributes.mq_maxmsg, 3);
    ck_assert_int_eq(attributes.mq_msgsize, 200);
    ck_assert_int_eq(attributes.mq_flags, O_NONBLOCK);
    ck_assert_int_eq(fstat((int)queue, &facts), 0);
    ck_assert_uint_eq(facts.st_mode & 07777, 0622);
    ck_assert(fcntl((int)queue, F_GETFD) & FD_CLOEXEC);

    ck_assert_int_eq(wire_queue_create(name, geometry, 0600, true, &queue, &error), KV_EXISTS);
    ck_assert_ptr_nonnull(strstr(error.text, name));
    mq_close(queue);
}
END_TEST

START_TEST(bytes_limit_is_explained)
{
    struct wire_geometry geometry = {4, 8192};
    ck_assert_uint_eq(wire_geometry_charge(geometry), 33152);
    set_soft_limit(RLIMIT_MSGQUEUE, 20000);
    mqd_t queue;
    struct kv_error error = {0};
    ck_assert_int_eq(wire_queue_create(name, geometry, 0600, true, &queue, &error), KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "33152 bytes of the 20000"));
    ck_assert_ptr_nonnull(
        strstr(error.text, "LimitMSGQUEUE=2097152")); /* room for the others, too */
    ck_assert_ptr_null(strstr(error.text, "..."));    /* not cut off */
}
END_TEST

START_TEST(who_may_raise_the_bytes_limit_is_told)
{
    char how[WIRE_LIMITS_HOW_BYTES];
    struct rlimit limit = {.rlim_cur = 20000, .rlim_max = 300000};
    ck_assert_int_eq(setrlimit(RLIMIT_MSGQUEUE, &limit), 0);
    wire_limits_how_to_raise(300000, how);
    ck_assert_ptr_nonnull(strstr(how, "`ulimit -q 300000`"));
    ck_assert_ptr_null(strstr(how, "root"));
    wire_limits_how_to_raise(300001, how);
    ck_assert_ptr_nonnull(strstr(how, "above the hard limit, 300000, only root may"));
    ck_assert_ptr_null(strstr(how, "ulimit"));
    ck_assert_uint_lt(strlen(how), sizeof how - 1);
    /* Enough for what was asked beside what others of the user may have, in whole MiB. */
    ck_assert_uint_eq(wire_limits_enough(0) % (1 << 20), 0);
    ck_assert_uint_ge(wire_limits_enough(5000000), 819200 + 5000000);
    set_soft_limit(RLIMIT_MSGQUEUE, 1); /* the default is what the others have */
    ck_assert_uint_gt(wire_limits_enough(0), 819200);
}
END_TEST

START_TEST(descriptor_limit_is_told_from_bytes_limit)
{
    mqd_t queue;
    struct kv_error error = {0};
    struct wire_geometry geometry = {1, 100};
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    set_soft_limit(RLIMIT_NOFILE, 3);
    ck_assert_int_eq(wire_queue_create(name, geometry, 0600, true, &queue, &error), KV_LIMIT);
    set_soft_limit(RLIMIT_NOFILE, before.rlim_cur); /* the sanitizers want some at exit */
    ck_assert_ptr_nonnull(strstr(error.text, "RLIMIT_NOFILE"));
    ck_assert_ptr_null(strstr(error.text, "MSGQUEUE"));
}
END_TEST

/* With CAP_SYS_RESOURCE the kernel does not look at the sysctls, so as another user. */
START_TEST(depth_and_size_limits_are_explained)
{
    struct wire_limits limits;
    wire_limits_read(&limits);
    ck_assert_uint_gt(limits.msgqueue_bytes, 0);
    if (geteuid() == 0)
        ck_assert_int_eq(setuid(65534), 0);
    mqd_t queue;
    struct kv_error error = {0};
    struct wire_geometry deep = {(uint16_t)(limits.msg_max + 1), 64};
    ck_assert_int_eq(wire_queue_create(name, deep, 0600, true, &queue, &error), KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "fs.mqueue.msg_max="));
    struct wire_geometry wide = {1, (uint32_t)limits.msgsize_max + 1};
    ck_assert_int_eq(wire_queue_create(name, wide, 0600, true, &queue, &error), KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "fs.mqueue.msgsize_max="));
}
END_TEST

START_TEST(other_failures_are_explained)
{
    struct wire_geometry geometry = {1, 64};
    struct kv_error error = {0};
    ck_assert_int_eq(wire_limits_explain("/q", geometry, ENOSPC, &error), KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "fs.mqueue.queues_max="));
    ck_assert_int_eq(wire_limits_explain("/q", geometry, EACCES, &error), KV_DENIED);
    ck_assert_int_eq(wire_limits_explain("/q", geometry, ENOMEM, &error), KV_NO_MEMORY);
    ck_assert_int_eq(wire_limits_explain("/q", geometry, EINVAL, &error), KV_IO);
    ck_assert_int_eq(wire_limits_explain("/q", geometry, EINVAL, NULL), KV_IO);
}
END_TEST

/* Bytes are counted per user over all of its processes: a uid of our own has them for itself. */
static bool become_nobody_else(void)
{
    return geteuid() == 0 && setuid(1000000u + (uid_t)getpid()) == 0;
}

START_TEST(ladder_takes_what_is_left)
{
    bool alone = become_nobody_else();
    mqd_t queue;
    struct kv_error error = {0};
    struct wire_geometry granted;
    for (const struct wire_geometry *step = wire_reply_ladder; step->depth > 0; step++) {
        set_soft_limit(RLIMIT_MSGQUEUE, wire_geometry_charge(*step));
        ck_assert_msg(wire_queue_create_ladder(name, wire_reply_ladder, 0600, true, &queue,
                                               &granted, &error) == KV_OK,
                      "%s", error.text);
        ck_assert_uint_le(wire_geometry_charge(granted), wire_geometry_charge(*step));
        if (alone) {
            ck_assert_uint_eq(granted.depth, step->depth);
            ck_assert_uint_eq(granted.message_bytes, step->message_bytes);
        }
        mq_unlink(name);
        mq_close(queue);
    }
    set_soft_limit(RLIMIT_MSGQUEUE, 100);
    ck_assert_int_eq(
        wire_queue_create_ladder(name, wire_reply_ladder, 0600, true, &queue, &granted, &error),
        KV_LIMIT);
    ck_assert_ptr_nonnull(strstr(error.text, "2 messages of 512 bytes"));
}
END_TEST

START_TEST(ladder_stops_at_other_failures)
{
    mqd_t first = create((struct wire_geometry){1, 64}), queue;
    struct kv_error error = {0};
    ck_assert_int_eq(
        wire_queue_create_ladder(name, wire_reply_ladder, 0600, true, &queue, NULL, &error),
        KV_EXISTS);
    mq_close(first);
}
END_TEST

START_TEST(open_tells_geometry_and_absence)
{
    mqd_t queue;
    struct kv_error error = {0};
    struct wire_geometry geometry;
    ck_assert_int_eq(wire_queue_open(name, true, &queue, &geometry, &error), KV_NO_SERVER);
    ck_assert_ptr_nonnull(strstr(error.text, name));
    ck_assert_ptr_nonnull(strstr(error.text, "IPC namespace"));

    mqd_t receiver = create((struct wire_geometry){3, 200});
    ck_assert_int_eq(wire_queue_open(name, true, &queue, &geometry, &error), KV_OK);
    ck_assert_uint_eq(geometry.depth, 3);
    ck_assert_uint_eq(geometry.message_bytes, 200);
    mq_close(queue);
    mq_close(receiver);
}
END_TEST

START_TEST(a_denied_queue_tells_whom)
{
    if (geteuid() != 0)
        SKIP_TEST("needs root, to become another user");
    mqd_t queue, receiver = create((struct wire_geometry){3, 200});
    struct kv_error error = {0};
    ck_assert_int_eq(seteuid(65534), 0);
    ck_assert_int_eq(wire_queue_open(name, true, &queue, NULL, &error), KV_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, "uid 65534"));
    ck_assert_int_eq(seteuid(0), 0);
    mq_close(receiver);
}
END_TEST

START_TEST(send_waits_for_room_no_longer_than_told)
{
    mqd_t receiver = create((struct wire_geometry){1, 16}), sender;
    ck_assert_int_eq(wire_queue_open(name, true, &sender, NULL, NULL), KV_OK);
    ck_assert_int_eq(wire_send(sender, "abc", 3, 0, 0), 0);
    ck_assert_int_eq(wire_send(sender, "def", 3, 0, 0), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    uint64_t before_ns = clock_monotonic_ns();
    ck_assert_int_eq(wire_send(sender, "def", 3, 0, 30), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_uint_ge(clock_monotonic_ns() - before_ns, 30000000);
    char big[17] = {0};
    ck_assert_int_eq(wire_send(sender, big, sizeof big, 0, 1000), -1);
    ck_assert_int_eq(errno, EMSGSIZE);

    pid_t child = fork();
    if (child == 0) {
        char message[16];
        clock_sleep_ms(50);
        _exit(mq_receive(receiver, message, sizeof message, NULL) == 3 ? 0 : 1);
    }
    ck_assert_int_eq(wire_send(sender, "ghi", 3, 0, 10000), 0);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    mq_close(sender);
    ck_assert_int_eq(wire_send(sender, "abc", 3, 0, 0), -1);
    ck_assert_int_eq(errno, EBADF);
    mq_close(receiver);
}
END_TEST

/* Sends "x" for ever, asleep in mq_send whenever the queue is full. */
static pid_t start_sleeping_sender(void)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mqd_t queue = mq_open(name, O_WRONLY);
    while (mq_send(queue, "x", 1, 0) == 0 || errno == EINTR)
        ;
    _exit(1);
}

/* Receives until "mine" comes; how many others were before it. */
static unsigned others_before_mine(mqd_t receiver)
{
    char message[16];
    unsigned others = 0;
    while (mq_receive(receiver, message, sizeof message, NULL) != 4)
        others++;
    return others;
}

START_TEST(send_gets_its_turn_among_sleeping_senders)
{
    enum { SENDERS = 8, DEPTH = 4 };
    mqd_t receiver = create((struct wire_geometry){DEPTH, 16}), sender;
    ck_assert_int_eq(wire_queue_open(name, true, &sender, NULL, NULL), KV_OK);
    pid_t senders[SENDERS];
    for (unsigned i = 0; i < SENDERS; i++)
        senders[i] = start_sleeping_sender();
    clock_sleep_ms(50);
    pid_t mine = fork();
    if (mine == 0)
        _exit(wire_send(sender, "mine", 4, 0, 20000) == 0 ? 0 : 1);
    clock_sleep_ms(50);
    struct mq_attr blocking = {.mq_flags = 0};
    mq_setattr(receiver, &blocking, NULL);
    unsigned others = others_before_mine(receiver);
    int status;
    ck_assert_int_eq(waitpid(mine, &status, 0), mine);
    ck_assert_int_eq(status, 0);
    for (unsigned i = 0; i < SENDERS; i++) {
        kill(senders[i], SIGKILL);
        waitpid(senders[i], NULL, 0);
    }
    /* What was in the queue, and each sender twice if this one was late; never an endless row of
     * them. */
    ck_assert_uint_le(others, 1000);
    mq_close(sender);
    mq_close(receiver);
}
END_TEST

START_TEST(buffers_begin_with_a_page)
{
    static const size_t sizes[] = {1, COPY_PAGE_BYTES, COPY_PAGE_BYTES + 1, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *buffer = wire_queue_buffer(sizes[i]);
        ck_assert_ptr_nonnull(buffer);
        ck_assert_uint_eq((uintptr_t)buffer % COPY_PAGE_BYTES, 0);
        memset(buffer, 1, sizes[i]);
        free(buffer);
    }
}
END_TEST

TEST_SUITE(wire_queue)
{
    TCase *queues = tcase_create("queues");
    tcase_add_checked_fixture(queues, name_queue, remove_queue);
    tcase_add_test(queues, created_as_asked);
    tcase_add_test(queues, open_tells_geometry_and_absence);
    tcase_add_test(queues, a_denied_queue_tells_whom);
    tcase_add_test(queues, send_waits_for_room_no_longer_than_told);
    tcase_add_test(queues, send_gets_its_turn_among_sleeping_senders);
    tcase_add_test(queues, buffers_begin_with_a_page);
    suite_add_tcase(suite, queues);
    TCase *limits = tcase_create("limits");
    tcase_add_checked_fixture(limits, name_queue, remove_queue);
    tcase_add_test(limits, bytes_limit_is_explained);
    tcase_add_test(limits, who_may_raise_the_bytes_limit_is_told);
    tcase_add_test(limits, descriptor_limit_is_told_from_bytes_limit);
    tcase_add_test(limits, depth_and_size_limits_are_explained);
    tcase_add_test(limits, other_failures_are_explained);
    tcase_add_test(limits, ladder_takes_what_is_left);
    tcase_add_test(limits, ladder_stops_at_other_failures);
    suite_add_tcase(suite, limits);
}
