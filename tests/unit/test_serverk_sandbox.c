/* sandbox: what the daemon gave up it cannot do, whatever thread tries; what it needs it can. Each
 * case is a process of its own, which enters the sandbox. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/landlock.h"
#include "serverk/sandbox/sandbox.h"
#include "serverk/config/dispatch_model.h"
#include "tests/support/skip.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/queue.h"

#ifndef MQKV_SANITIZER

static char dir[256], outside[256], present[256], queue_name[WIRE_QUEUE_NAME_BYTES];
static struct server_options options;
static struct sandbox sandbox;

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(close(fd), 0);
}

static void set_up(void)
{
    test_path(dir, sizeof dir, "sandbox.dir");
    test_path(outside, sizeof outside, "sandbox.new");
    test_path(present, sizeof present, "sandbox.there");
    test_queue_name(queue_name, sizeof queue_name);
    mkdir(dir, 0700);
    make_file(present);
    options = (struct server_options){.dir = dir, .sandbox = true, .dispatch = &dispatch_pool};
}

static void tear_down(void)
{
    unlink(outside);
    unlink(present);
    rmdir(dir);
    mq_unlink(queue_name);
}

/* Runs `action` in a child that has entered the sandbox: how it ended, as waitpid tells. What it
 * logs is in log, if wanted. */
static int run_inside(int (*action)(void), char *log, size_t log_bytes)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct kv_error error = {0};
        dup2(ends[1], STDERR_FILENO);
        mqd_t queue = mq_open(queue_name, O_RDWR | O_CREAT | O_CLOEXEC, 0600,
                              &(struct mq_attr){.mq_maxmsg = 1, .mq_msgsize = 8});
        if (queue == (mqd_t)-1 || sandbox_enter(&options, queue, &sandbox, &error) != KV_OK)
            _exit(99);
        _exit(action());
    }
    close(ends[1]);
    size_t used = 0;
    char buffer[4096];
    ssize_t got;
    while ((got = read(ends[0], buffer + used, sizeof buffer - 1 - used)) > 0)
        used += (size_t)got;
    buffer[used] = '\0';
    close(ends[0]);
    if (log) {
        size_t kept = used < log_bytes ? used : log_bytes - 1;
        memcpy(log, buffer, kept);
        log[kept] = '\0';
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    mq_unlink(queue_name);
    return status;
}

/* What the kernel has -------------------------------------------------------------------------- */

static int tell_filter(void)
{
    return sandbox.syscall_filter;
}

static int tell_landlock(void)
{
    return sandbox.landlock_abi > 0;
}

static bool has(int (*tell)(void))
{
    int status = run_inside(tell, NULL, 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_le(WEXITSTATUS(status), 1);
    return WEXITSTATUS(status) == 1;
}

/* Forbidden calls ------------------------------------------------------------------------------ */

static long forbidden_arguments[4];
static long forbidden_call;

static int call_it(void)
{
    const long *a = forbidden_arguments;
    return (int)syscall(forbidden_call, a[0], a[1], a[2], a[3]);
}

static const struct {
    const char *name;
    long call;
    long arguments[4];
} forbidden[] = {
    {"execve", SYS_execve, {0}},
    {"execveat", SYS_execveat, {-1}},
    {"socket", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
    {"ptrace", SYS_ptrace, {-1}},
    {"process_vm_writev", SYS_process_vm_writev, {0}},
    {"mount", SYS_mount, {0}},
    {"unshare", SYS_unshare, {0}},
    {"setns", SYS_setns, {-1}},
    {"chroot", SYS_chroot, {0}},
    {"setuid", SYS_setuid, {0}},
    {"chmod", SYS_fchmodat, {AT_FDCWD}},
    {"symlink", SYS_symlinkat, {0}},
    {"link", SYS_linkat, {-1}},
    {"mkdir", SYS_mkdirat, {-1}},
    {"memfd_create", SYS_memfd_create, {0}},
    {"bpf", SYS_bpf, {-1}},
    {"keyctl", SYS_keyctl, {-1}},
    {"io_uring_setup", SYS_io_uring_setup, {0}},
    {"another process's signal", SYS_kill, {1, 0}},
    {"another process's limits", SYS_prlimit64, {1, RLIMIT_NOFILE}},
    {"a new process", SYS_clone, {SIGCHLD}},
    {"a name space", SYS_clone, {CLONE_NEWUSER | CLONE_THREAD}},
    {"memory that is code",
     SYS_mmap,
     {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS}},
    {"memory made code", SYS_mprotect, {0, 0, PROT_EXEC}},
    {"nice values", SYS_setpriority, {0, 0, 19}},
    {"a number that is no call", 1023, {0}},
};

START_TEST(a_forbidden_call_ends_the_daemon)
{
    if (!has(tell_filter))
        SKIP_TEST("this kernel has no seccomp filter");
    char log[1024], number[64];
    forbidden_call = forbidden[_i].call;
    memcpy(forbidden_arguments, forbidden[_i].arguments, sizeof forbidden_arguments);
    int status = run_inside(call_it, log, sizeof log);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%s: status %x, log: %s",
                  forbidden[_i].name, (unsigned)status, log);
    snprintf(number, sizeof number, "ERROR system call %ld,", forbidden[_i].call);
    ck_assert_ptr_nonnull(strstr(log, number));
}
END_TEST

static void *call_it_in_thread(void *unused)
{
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    call_it();
    return NULL;
}

/* The daemon would go on, with what the thread had locked, if only the thread ended. */
static int call_it_elsewhere(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_it_in_thread, NULL) != 0)
        return 98;
    pthread_join(thread, NULL);
    return 0;
}

START_TEST(a_thread_started_later_is_bound_too)
{
    if (!has(tell_filter))
        SKIP_TEST("this kernel has no seccomp filter");
    forbidden_call = SYS_execve;
    int status = run_inside(call_it_elsewhere, NULL, 0);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGSYS);
}
END_TEST

START_TEST(nothing_is_forbidden_without_the_sandbox)
{
    options.sandbox = false;
    forbidden_call = SYS_setpriority;
    memcpy(forbidden_arguments, (long[]){0, 0, 19, 0}, sizeof forbidden_arguments);
    int status = run_inside(call_it, NULL, 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* Forking and nice values, where an option needs them ------------------------------------------ */

static int fork_and_wait(void)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        _exit(7);
    }
    int status;
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7 ? 0 : 1;
}

static int lower_priority(void)
{
    return setpriority(PRIO_PROCESS, 0, 19);
}

START_TEST(options_get_what_they_need)
{
    static const struct dispatch_model forking = {.name = "forking", .forks = true};
    options.dispatch = &forking;
    ck_assert_int_eq(run_inside(fork_and_wait, NULL, 0), 0);
    options.dispatch = &dispatch_pool;
    options.nice = true;
    ck_assert_int_eq(run_inside(lower_priority, NULL, 0), 0);
}
END_TEST

/* Files ---------------------------------------------------------------------------------------- */

static int work_in_directory(void)
{
    char from[300], to[300];
    snprintf(from, sizeof from, "%s/a", dir);
    snprintf(to, sizeof to, "%s/b", dir);
    int fd = open(from, O_RDWR | O_CREAT | O_EXCL, 0600);
    bool done = fd >= 0 && write(fd, "x", 1) == 1 && ftruncate(fd, 4096) == 0 &&
                fallocate(fd, 0, 0, 8192) == 0 && fdatasync(fd) == 0;
    void *mapping = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    done = done && mapping != MAP_FAILED && munmap(mapping, 4096) == 0 && rename(from, to) == 0 &&
           open(to, O_RDONLY) >= 0;
    return unlink(to) == 0 && done ? 0 : 1;
}

static int work_with_queues(void)
{
    char buffer[8];
    mqd_t queue = mq_open(queue_name, O_RDWR);
    return queue != (mqd_t)-1 && mq_send(queue, "x", 1, 0) == 0 &&
                   mq_receive(queue, buffer, sizeof buffer, NULL) == 1 && mq_unlink(queue_name) == 0
               ? 0
               : 1;
}

START_TEST(its_own_files_and_queues_stay)
{
    ck_assert_int_eq(run_inside(work_in_directory, NULL, 0), 0);
    ck_assert_int_eq(run_inside(work_with_queues, NULL, 0), 0);
}
END_TEST

/* The errno of each, in an exit status. */
static int make_outside(void)
{
    return open(outside, O_WRONLY | O_CREAT, 0600) >= 0 ? 0 : errno;
}

static int remove_outside(void)
{
    return unlink(present) == 0 ? 0 : errno;
}

static int move_outside(void)
{
    char to[300];
    snprintf(to, sizeof to, "%s/there", dir);
    return rename(present, to) == 0 ? 0 : errno == EXDEV ? EACCES : errno;
}

static int open_outside(void)
{
    if (!sandbox.files_confined)
        return EACCES;
    return open(present, O_RDONLY) >= 0 || open(present, O_WRONLY) >= 0 ? 0 : errno;
}

START_TEST(other_files_are_out_of_reach)
{
    static int (*const attempts[])(void) = {make_outside, remove_outside, move_outside,
                                            open_outside};
    if (!has(tell_landlock))
        SKIP_TEST("this kernel has no Landlock");
    int status = run_inside(attempts[_i], NULL, 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), EACCES);
}
END_TEST

START_TEST(the_name_of_the_pid_file_can_be_removed)
{
    options.pidfile = present;
    ck_assert_int_eq(run_inside(remove_outside, NULL, 0), 0);
}
END_TEST

/* Without the other parts, and whether or not the file system of queues is seen. */
START_TEST(landlock_confines_opening)
{
    struct landlock landlock;
    struct kv_error error = {0};
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            landlock_begin(&landlock, true, false, &error) != KV_OK ||
            landlock_allow(&landlock, dir, LANDLOCK_MAKE | LANDLOCK_WRITE, &error) != KV_OK ||
            landlock_allow(&landlock, "/no/such/place", LANDLOCK_READ, &error) != KV_OK)
            _exit(1);
        bool there = landlock.abi > 0;
        landlock_enter(&landlock);
        if (!there)
            _exit(0);
        char inside[300];
        snprintf(inside, sizeof inside, "%s/a", dir);
        bool refused = open(present, O_RDONLY) < 0 && errno == EACCES &&
                       open(inside, O_RDWR | O_CREAT, 0600) < 0 && errno == EACCES;
        _exit(refused && open(inside, O_WRONLY | O_CREAT, 0600) >= 0 ? 0 : 2);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    char inside[300];
    snprintf(inside, sizeof inside, "%s/a", dir);
    unlink(inside);
}
END_TEST

/* Core files ----------------------------------------------------------------------------------- */

static int core_limit_is_none(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max <= 1 ? 0 : 1;
}

static int core_limit_is_the_hard_one(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == limit.rlim_max ? 0 : 1;
}

START_TEST(a_crash_leaves_no_core_file_unless_asked)
{
    ck_assert_int_eq(run_inside(core_limit_is_none, NULL, 0), 0);
    options.core_dumps = true;
    ck_assert_int_eq(run_inside(core_limit_is_the_hard_one, NULL, 0), 0);
}
END_TEST

TEST_SUITE(serverk_sandbox)
{
    TCase *tcase = tcase_create("sandbox");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_forbidden_call_ends_the_daemon, 0,
                        (int)(sizeof forbidden / sizeof forbidden[0]));
    tcase_add_test(tcase, a_thread_started_later_is_bound_too);
    tcase_add_test(tcase, nothing_is_forbidden_without_the_sandbox);
    tcase_add_test(tcase, options_get_what_they_need);
    tcase_add_test(tcase, its_own_files_and_queues_stay);
    tcase_add_loop_test(tcase, other_files_are_out_of_reach, 0, 4);
    tcase_add_test(tcase, the_name_of_the_pid_file_can_be_removed);
    tcase_add_test(tcase, landlock_confines_opening);
    tcase_add_test(tcase, a_crash_leaves_no_core_file_unless_asked);
    suite_add_tcase(suite, tcase);
}

#else

/* The sanitizers' own code makes calls that the sandbox forbids: there it is never on. */
START_TEST(a_sanitizer_has_no_sandbox)
{
    const struct server_options options = {.dir = ".", .sandbox = true, .dispatch = &dispatch_pool};
    struct sandbox sandbox;
    struct kv_error error = {0};
    ck_assert_int_eq(sandbox_enter(&options, -1, &sandbox, &error), KV_OK);
    ck_assert(sandbox.wanted && !sandbox.syscall_filter && sandbox.landlock_abi == 0);
}
END_TEST

TEST_SUITE(serverk_sandbox)
{
    TCase *tcase = tcase_create("sandbox");
    tcase_add_test(tcase, a_sanitizer_has_no_sandbox);
    suite_add_tcase(suite, tcase);
}

#endif
