/* orphans: what dead processes have left is removed whatever its numbers, nothing else is, and the
 * log has a line of it however many they were. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/report/log.h"
#include "serverk/session/orphans.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/queue_name.h"

static char queue_name[64], log_path[256];

static void begin(void)
{
    struct kv_error error;
    test_queue_name(queue_name, sizeof queue_name);
    test_path(log_path, sizeof log_path, "daemon.log");
    unlink(log_path);
    ck_assert_int_eq(log_open(log_path, &error), KV_OK);
}

static void end(void)
{
    unlink(log_path);
}

/* The pid of a process that has ended. */
static pid_t dead_process(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    return pid;
}

static void leave(enum wire_queue_role role, pid_t pid, unsigned number)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, queue_name, role, pid, number);
    int object = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(object, 0);
    close(object);
}

static bool is_left(enum wire_queue_role role, pid_t pid, unsigned number)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, queue_name, role, pid, number);
    int object = shm_open(name, O_RDWR, 0);
    if (object >= 0)
        close(object);
    return object >= 0;
}

START_TEST(names_of_the_dead_are_removed_and_no_others)
{
    pid_t dead[2] = {dead_process(), dead_process()}, other = dead_process();
    leave(WIRE_REPLY_SEGMENT, dead[0], 0);
    leave(WIRE_REPLY_SEGMENT, dead[0], 100000);
    leave(WIRE_REPLY_RING, dead[1], 7);
    leave(WIRE_REPLY_SEGMENT, other, 1);
    leave(WIRE_REPLY_SEGMENT, getpid(), 2);
    struct dead_processes some = {dead, 2, false};
    ck_assert_uint_eq(orphans_remove_of(queue_name, &some), 3);
    ck_assert(!is_left(WIRE_REPLY_SEGMENT, dead[0], 0));
    ck_assert(!is_left(WIRE_REPLY_SEGMENT, dead[0], 100000));
    ck_assert(!is_left(WIRE_REPLY_RING, dead[1], 7));
    ck_assert(is_left(WIRE_REPLY_SEGMENT, other, 1));
    some.and_others = true;
    ck_assert_uint_eq(orphans_remove_of(queue_name, &some), 1);
    ck_assert(is_left(WIRE_REPLY_SEGMENT, getpid(), 2));
    char name[WIRE_QUEUE_NAME_BYTES];
    wire_queue_name(name, queue_name, WIRE_REPLY_SEGMENT, getpid(), 2);
    shm_unlink(name);
}
END_TEST

START_TEST(the_log_has_a_line_of_many)
{
    pid_t dead = dead_process();
    struct dead_processes one = {&dead, 1, false};
    for (unsigned number = 0; number < 300; number++) {
        leave(WIRE_REPLY_SEGMENT, dead, number);
        ck_assert_uint_eq(orphans_remove_of(queue_name, &one), 1);
    }
    struct stat facts;
    ck_assert_int_eq(stat(log_path, &facts), 0);
    ck_assert_int_gt(facts.st_size, 0);
    ck_assert_int_lt(facts.st_size, 300 * 50);
}
END_TEST

TEST_SUITE(serverk_orphans)
{
    TCase *cases = tcase_create("orphans");
    tcase_add_checked_fixture(cases, begin, end);
    tcase_add_test(cases, names_of_the_dead_are_removed_and_no_others);
    tcase_add_test(cases, the_log_has_a_line_of_many);
    suite_add_tcase(suite, cases);
}
