/* identity: locks, pids and uids as the kernel vouches for them, with a child that is killed. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/skip.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/queue.h"

static char name[WIRE_QUEUE_NAME_BYTES];
static mqd_t queue;

static void unlink_queue(void)
{
    mq_unlink(name);
}

/* A test that fails ends without its teardown, but not without atexit. */
static void create_queue(void)
{
    test_queue_name(name, sizeof name);
    atexit(unlink_queue);
    struct wire_geometry geometry = {1, 64};
    ck_assert_int_eq(wire_queue_create(name, geometry, 0600, true, &queue, NULL), KV_OK);
}

static void remove_queue(void)
{
    unlink_queue();
    mq_close(queue);
}

/* A child that takes the lock and then waits to be killed; returns when it has the lock. */
static pid_t fork_owner(int (*take_lock)(mqd_t))
{
    int ready[2];
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (take_lock(queue) != 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static int take_write_lock(mqd_t locked)
{
    return wire_lock_queue(locked, NULL);
}

static void kill_and_reap(pid_t child)
{
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(owner_is_the_process_with_the_lock)
{
    ck_assert_int_eq(wire_queue_owner(queue), 0);
    pid_t child = fork_owner(take_write_lock);
    ck_assert_int_eq(wire_queue_owner(queue), child);
    pid_t owner = 0;
    ck_assert_int_eq(wire_lock_queue(queue, &owner), -1);
    ck_assert(errno == EAGAIN || errno == EACCES);
    ck_assert_int_eq(owner, child);
    kill_and_reap(child);
    ck_assert_int_eq(wire_queue_owner(queue), 0);
    ck_assert_int_eq(wire_lock_queue(queue, &owner), 0);
}
END_TEST

#define SHOWN 4711u

static int take_and_show(mqd_t locked)
{
    return wire_lock_queue(locked, NULL) == 0 ? wire_lock_show(locked, SHOWN) : -1;
}

/* The lock is shorter then, and keeps others out all the same. */
START_TEST(owner_shows_a_number)
{
    ck_assert_uint_eq(wire_lock_shown(queue), 0);
    pid_t child = fork_owner(take_write_lock);
    ck_assert_uint_eq(wire_lock_shown(queue), 0);
    kill_and_reap(child);
    child = fork_owner(take_and_show);
    ck_assert_uint_eq(wire_lock_shown(queue), SHOWN);
    ck_assert_int_eq(wire_queue_owner(queue), child);
    ck_assert_int_eq(wire_lock_queue(queue, NULL), -1);
    kill_and_reap(child);
    ck_assert_uint_eq(wire_lock_shown(queue), 0);
}
END_TEST

START_TEST(owner_is_gone_while_it_is_a_zombie)
{
    pid_t child = fork_owner(take_write_lock);
    ck_assert(!wire_process_ended(child));
    kill(child, SIGKILL);
    siginfo_t info; /* dead, but not yet reaped: its pid exists */
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(kill(child, 0), 0);
    ck_assert(wire_process_ended(child));
    ck_assert_int_eq(wire_queue_owner(queue), 0);
    ck_assert_int_eq(wire_queue_owner_pidfd(queue, NULL), -1);
    ck_assert_int_eq(errno, ESRCH);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert(wire_process_ended(child));
}
END_TEST

START_TEST(pidfd_tells_the_death_of_the_owner)
{
    pid_t child = fork_owner(take_write_lock), pid = 0;
    int pidfd = wire_queue_owner_pidfd(queue, &pid);
    ck_assert_int_ge(pidfd, 0);
    ck_assert_int_eq(pid, child);
    ck_assert(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
    struct pollfd death = {.fd = pidfd, .events = POLLIN};
    ck_assert_int_eq(poll(&death, 1, 0), 0);
    kill(child, SIGKILL);
    ck_assert_int_eq(poll(&death, 1, 10000), 1);
    close(pidfd);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}
END_TEST

START_TEST(lock_goes_when_any_descriptor_of_the_queue_is_closed)
{
    int done[2];
    ck_assert_int_eq(pipe(done), 0);
    pid_t child = fork();
    if (child == 0) {
        mqd_t second;
        bool closed = wire_lock_queue(queue, NULL) == 0 &&
                      wire_queue_open(name, true, &second, NULL, NULL) == KV_OK &&
                      mq_close(second) == 0;
        if (!closed || write(done[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    ck_assert_int_eq(read(done[0], &byte, 1), 1);
    ck_assert_int_eq(wire_queue_owner(queue), 0);
    kill_and_reap(child);
}
END_TEST

START_TEST(lane_belongs_to_its_reader_only)
{
    pid_t server = fork_owner(wire_lock_lane);
    ck_assert_int_eq(wire_lane_server(queue), server);
    ck_assert_int_eq(wire_queue_owner(queue), server);
    pid_t pid = 0;
    int pidfd = wire_lane_server_pidfd(queue, &pid);
    ck_assert_int_ge(pidfd, 0);
    ck_assert_int_eq(pid, server);
    close(pidfd);

    /* A client may only send. It cannot take the read lock, and not the write lock either. */
    mqd_t sender;
    ck_assert_int_eq(wire_queue_open(name, true, &sender, NULL, NULL), KV_OK);
    ck_assert_int_eq(wire_lock_lane(sender), -1);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_eq(wire_lock_queue(sender, NULL), -1);
    ck_assert_int_eq(wire_lane_server(sender), server);
    kill_and_reap(server);
    ck_assert_int_eq(wire_lane_server(sender), 0);
    mq_close(sender);

    pid_t impostor = fork_owner(take_write_lock); /* all that a sender could get hold of then */
    ck_assert_int_eq(wire_queue_owner(queue), impostor);
    ck_assert_int_eq(wire_lane_server(queue), 0);
    ck_assert_int_eq(wire_lane_server_pidfd(queue, NULL), -1);
    ck_assert_int_eq(errno, ESRCH);
    kill_and_reap(impostor);
}
END_TEST

START_TEST(uid_is_that_of_the_creator)
{
    ck_assert_uint_eq(wire_queue_uid(queue), geteuid());
    ck_assert_uint_eq(wire_queue_uid((mqd_t)-1), (uid_t)-1);
    ck_assert_int_eq(wire_queue_owner((mqd_t)-1), -1);
}
END_TEST

START_TEST(uid_of_another_user_is_told)
{
    if (geteuid() != 0)
        SKIP_TEST("needs root, to become another user");
    char other[WIRE_QUEUE_NAME_BYTES + 8];
    snprintf(other, sizeof other, "%s.other", name);
    mqd_t others;
    struct wire_geometry geometry = {1, 64};
    ck_assert_int_eq(seteuid(65534), 0);
    ck_assert_int_eq(wire_queue_create(other, geometry, 0600, true, &others, NULL), KV_OK);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_uint_eq(wire_queue_uid(others), 65534);
    mq_unlink(other);
    mq_close(others);
}
END_TEST

START_TEST(unlinking_is_seen_through_every_descriptor)
{
    mqd_t sender;
    ck_assert_int_eq(wire_queue_open(name, true, &sender, NULL, NULL), KV_OK);
    ck_assert(!wire_queue_unlinked(sender));
    ck_assert_int_eq(mq_unlink(name), 0);
    ck_assert(wire_queue_unlinked(sender));
    ck_assert(wire_queue_unlinked(queue));
    mq_close(sender);
    ck_assert(wire_queue_unlinked(sender));
}
END_TEST

TEST_SUITE(wire_identity)
{
    TCase *proofs = tcase_create("proofs");
    tcase_add_checked_fixture(proofs, create_queue, remove_queue);
    tcase_add_test(proofs, owner_is_the_process_with_the_lock);
    tcase_add_test(proofs, owner_shows_a_number);
    tcase_add_test(proofs, owner_is_gone_while_it_is_a_zombie);
    tcase_add_test(proofs, pidfd_tells_the_death_of_the_owner);
    tcase_add_test(proofs, lock_goes_when_any_descriptor_of_the_queue_is_closed);
    tcase_add_test(proofs, lane_belongs_to_its_reader_only);
    tcase_add_test(proofs, uid_is_that_of_the_creator);
    tcase_add_test(proofs, uid_of_another_user_is_told);
    tcase_add_test(proofs, unlinking_is_seen_through_every_descriptor);
    suite_add_tcase(suite, proofs);
}
