/* mapguard: a mapping that loses its bytes gives zeros and says so; other SIGBUS end the
 * process. */
#include "common/memory/mapguard.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test_suite.h"

#define PAGES 8u
#define PAGE  4096u

static int fd;
static uint8_t *memory;
static struct mapguard *guard;

static void map_file(void)
{
    char name[] = "/tmp/mqkv-mapguard-XXXXXX";
    fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    unlink(name);
    ck_assert_int_eq(ftruncate(fd, PAGES * PAGE), 0);
    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert(memory != MAP_FAILED);
    memset(memory, 'x', PAGES * PAGE);
    mapguard_install("test");
    guard = mapguard_add(memory, PAGES * PAGE);
    ck_assert_ptr_nonnull(guard);
}

static void unmap_file(void)
{
    mapguard_remove(guard);
    munmap(memory, PAGES * PAGE);
    close(fd);
}

START_TEST(what_is_gone_reads_as_zeros_and_is_counted)
{
    struct mapguard *other = mapguard_add(&fd, sizeof fd);
    uint32_t mark = mapguard_mark(guard);
    ck_assert(mapguard_held(guard, mark));
    ck_assert(!mapguard_is_broken(guard));
    ck_assert_int_eq(ftruncate(fd, 3 * PAGE), 0);
    ck_assert_int_eq(memory[2 * PAGE], 'x');
    ck_assert(mapguard_held(guard, mark));
    uint8_t copy[2 * PAGE];
    memcpy(copy, memory + 2 * PAGE, sizeof copy);
    ck_assert_int_eq(copy[PAGE - 1], 'x');
    ck_assert_int_eq(copy[PAGE], 0);
    ck_assert(!mapguard_held(guard, mark));
    ck_assert(mapguard_is_broken(guard));
    ck_assert_uint_eq(atomic_load(&guard->fault_offset), 3 * PAGE);
    ck_assert(!mapguard_is_broken(other));
    ck_assert(!mapguard_is_broken(NULL));
    mark = mapguard_mark(guard);
    ck_assert_int_eq(memory[3 * PAGE + 1], 0); /* it has its page by now */
    ck_assert(mapguard_held(guard, mark));
    memory[5 * PAGE] = 'y'; /* writes are lost likewise */
    ck_assert(!mapguard_held(guard, mark));
    mapguard_remove(other);
}
END_TEST

START_TEST(a_place_is_used_again_without_its_faults)
{
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_int_eq(memory[0], 0);
    ck_assert(mapguard_is_broken(guard));
    mapguard_remove(guard);
    struct mapguard *guards[200];
    bool again = false;
    for (unsigned i = 0; i < 200; i++) {
        guards[i] = mapguard_add(memory, PAGES * PAGE);
        again = again || guards[i] == guard;
        ck_assert(!mapguard_is_broken(guards[i]));
    }
    ck_assert(again);
    for (unsigned i = 0; i < 200; i++)
        mapguard_remove(guards[i]);
    guard = NULL;
}
END_TEST

static void *touch_all(void *unused)
{
    (void)unused;
    unsigned sum = 0;
    for (unsigned round = 0; round < 100; round++)
        for (unsigned page = 0; page < PAGES; page++)
            sum += ((volatile uint8_t *)memory)[page * PAGE + round];
    return (void *)(uintptr_t)sum;
}

START_TEST(several_threads_may_meet_it)
{
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, touch_all, NULL), 0);
    ck_assert_int_eq(ftruncate(fd, PAGE), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    touch_all(NULL);
    ck_assert(mapguard_is_broken(guard));
}
END_TEST

/* How a child ends that touches what nobody guards, and what it says. */
START_TEST(any_other_ends_the_process)
{
    int lines[2];
    ck_assert_int_eq(pipe(lines), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(lines[1], STDERR_FILENO);
        if (_i == 0) {
            mapguard_remove(guard);
            if (ftruncate(fd, 0) == 0)
                memory[0] = 'y';
        } else {
            raise(SIGBUS);
        }
        _exit(0);
    }
    close(lines[1]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    char text[200] = "";
    ck_assert_int_gt(read(lines[0], text, sizeof text - 1), 0);
    close(lines[0]);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGBUS);
    ck_assert_ptr_nonnull(strstr(text, "test: SIGBUS"));
}
END_TEST

TEST_SUITE(common_mapguard)
{
    TCase *cases = tcase_create("mapguard");
    tcase_add_checked_fixture(cases, map_file, unmap_file);
    tcase_add_test(cases, what_is_gone_reads_as_zeros_and_is_counted);
    tcase_add_test(cases, a_place_is_used_again_without_its_faults);
    tcase_add_test(cases, several_threads_may_meet_it);
    tcase_add_loop_test(cases, any_other_ends_the_process, 0, 2);
    suite_add_tcase(suite, cases);
}
