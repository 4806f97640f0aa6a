#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mqkv/allocator.h"
#include "tests/support/test_suite.h"

static const struct allocator *const kinds[] = {&kv_allocator_locked, &kv_allocator_thread_local};
#define KINDS 2

#define THREADS         4
#define THREAD_BLOCKS   64 /* live at once of each thread */
#define SHARED_BLOCKS   64 /* passed from thread to thread */
#define MAX_BLOCK_BYTES 600

/* What threads find: a check of Check's in each would be a system call, and none is to be made
 * while another thread forks. */
static atomic_bool has_failed;

static void expect(bool holds)
{
    if (!holds)
        atomic_store(&has_failed, true);
}

/* A block in the hands of a test: its size and fill stand in it, whoever holds it. */
struct held {
    size_t bytes; /* of all; the rest holds `fill` */
    unsigned char fill;
    unsigned char rest[];
};

static const struct allocator *allocator;
static _Atomic(struct held *) shared[SHARED_BLOCKS];

static struct held *make_held(unsigned *seed)
{
    size_t bytes = sizeof(struct held) + (unsigned)rand_r(seed) % MAX_BLOCK_BYTES;
    struct held *held = allocator->allocate(bytes);
    expect(held != NULL);
    if (!held)
        return NULL;
    held->bytes = bytes;
    held->fill = (unsigned char)rand_r(seed);
    memset(held->rest, held->fill, bytes - offsetof(struct held, rest));
    return held;
}

static bool is_whole(const struct held *held)
{
    for (size_t i = 0; i < held->bytes - offsetof(struct held, rest); i++)
        if (held->rest[i] != held->fill)
            return false;
    return true;
}

static void release_held(struct held *held)
{
    if (!held)
        return;
    expect(is_whole(held));
    allocator->release(held);
}

struct allocator_thread {
    pthread_t thread;
    unsigned seed;
    int steps;
    struct held *live[THREAD_BLOCKS];
};

/* Allocates, frees, and exchanges blocks with the other threads. */
static void *work(void *argument)
{
    struct allocator_thread *worker = argument;
    for (int step = 0; step < worker->steps; step++) {
        struct held **mine = &worker->live[(unsigned)rand_r(&worker->seed) % THREAD_BLOCKS];
        if (rand_r(&worker->seed) % 4 == 0) {
            unsigned place = (unsigned)rand_r(&worker->seed) % SHARED_BLOCKS;
            *mine = atomic_exchange(&shared[place], *mine);
            continue;
        }
        release_held(*mine);
        *mine = rand_r(&worker->seed) % 8 == 0 ? NULL : make_held(&worker->seed);
        if (step % 512 == 0)
            expect(allocator->is_sound());
    }
    return NULL;
}

static void run_workers(struct allocator_thread *workers, int steps)
{
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].seed += i + 1;
        workers[i].steps = steps;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    ck_assert(!atomic_load(&has_failed));
}

static int by_address(const void *a, const void *b)
{
    const struct held *const *left = a, *const *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* No two live blocks overlap, whoever has them. */
static size_t check_intervals(struct allocator_thread *workers)
{
    static struct held *live[THREADS * THREAD_BLOCKS + SHARED_BLOCKS];
    size_t count = 0;
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned k = 0; k < THREAD_BLOCKS; k++)
            if (workers[i].live[k])
                live[count++] = workers[i].live[k];
    for (unsigned i = 0; i < SHARED_BLOCKS; i++)
        if (shared[i])
            live[count++] = shared[i];
    qsort(live, count, sizeof *live, by_address);
    for (size_t i = 0; i < count; i++) {
        ck_assert(is_whole(live[i]));
        if (i > 0)
            ck_assert((char *)live[i - 1] + live[i - 1]->bytes <= (char *)live[i]);
    }
    return count;
}

START_TEST(live_blocks_of_many_threads_never_overlap)
{
    static struct allocator_thread workers[THREADS];
    allocator = kinds[_i];
    for (int round = 0; round < 3; round++) { /* each with threads of its own */
        run_workers(workers, 4000);
        ck_assert_uint_gt(check_intervals(workers), 100);
        ck_assert(allocator->is_sound());
    }
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned k = 0; k < THREAD_BLOCKS; k++)
            release_held(workers[i].live[k]);
    for (unsigned i = 0; i < SHARED_BLOCKS; i++)
        release_held(shared[i]);
    ck_assert(!atomic_load(&has_failed));
    struct allocator_statistics statistics;
    allocator->statistics(&statistics);
    ck_assert(allocator->is_sound());
    ck_assert_uint_eq(statistics.free_bytes, statistics.segment_bytes);
    /* The threads' blocks, a few of their generations, and fragments. */
    ck_assert_uint_lt(statistics.segment_bytes,
                      8 * (THREADS * THREAD_BLOCKS + SHARED_BLOCKS) * (MAX_BLOCK_BYTES + 32));
}
END_TEST

static void *release_one(void *block)
{
    allocator->release(block);
    return NULL;
}

static void in_another_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, argument), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static uint64_t free_blocks(void)
{
    struct allocator_statistics statistics;
    allocator->statistics(&statistics);
    ck_assert(allocator->is_sound());
    return statistics.free_blocks;
}

/* Two neighbours, freed in two threads: with a list a thread they stay two blocks, until the one
 * thread has ended and the other needs more than it has. */
START_TEST(neighbours_in_different_lists_merge_only_in_one)
{
    allocator = kinds[_i];
    char *first = allocator->allocate(112), *second = allocator->allocate(112);
    ck_assert_ptr_eq(second, first + 128);
    allocator->release(first);
    in_another_thread(release_one, second);
    ck_assert_uint_eq(free_blocks(), allocator == &kv_allocator_locked ? 1 : 2);
    char *both = allocator->allocate(2 * 128 - 16);
    ck_assert_ptr_eq(both, first);
    ck_assert_uint_eq(free_blocks(), 0);
    allocator->release(both);
}
END_TEST

static void *allocate_and_release(void *unused)
{
    void *blocks[50];
    for (size_t i = 0; i < 50; i++)
        expect((blocks[i] = allocator->allocate(1000 + i)) != NULL);
    for (size_t i = 0; i < 50; i++)
        allocator->release(blocks[i]);
    return unused;
}

START_TEST(what_ended_threads_had_free_is_used_again)
{
    allocator = kinds[_i];
    struct allocator_statistics once, often;
    in_another_thread(allocate_and_release, NULL);
    allocator->statistics(&once);
    for (int i = 0; i < 100; i++)
        in_another_thread(allocate_and_release, NULL);
    allocator->statistics(&often);
    ck_assert_uint_eq(often.segment_bytes, once.segment_bytes);
    ck_assert_uint_eq(often.free_bytes, often.segment_bytes);
    ck_assert(!atomic_load(&has_failed));
}
END_TEST

static pthread_key_t late_key;

static void release_late(void *block)
{
    allocator->release(block);
}

static void *leave_one_to_a_destructor(void *unused)
{
    pthread_setspecific(late_key, allocator->allocate(500));
    return unused;
}

/* Made after the allocator's, the key's destructor runs after its: the thread's list is there
 * again. */
START_TEST(blocks_freed_by_destructors_of_a_thread_are_kept)
{
    allocator = kinds[_i];
    ck_assert_int_eq(pthread_key_create(&late_key, release_late), 0);
    in_another_thread(leave_one_to_a_destructor, NULL);
    struct allocator_statistics statistics;
    allocator->statistics(&statistics);
    ck_assert_uint_gt(statistics.segment_bytes, 0);
    ck_assert_uint_eq(statistics.free_bytes, statistics.segment_bytes);
}
END_TEST

static atomic_bool stopped;

static void *keep_busy(void *unused)
{
    while (!atomic_load(&stopped))
        allocate_and_release(NULL);
    return unused;
}

/* Other threads may be in the middle of a call at each fork. */
START_TEST(a_forked_child_can_allocate)
{
    allocator = kinds[_i];
    pthread_t busy;
    ck_assert_int_eq(pthread_create(&busy, NULL, keep_busy, NULL), 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            allocate_and_release(NULL);
            struct allocator_statistics statistics;
            allocator->statistics(&statistics);
            _exit(allocator->is_sound() && statistics.free_bytes > 0 ? 0 : 1);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&stopped, true);
    pthread_join(busy, NULL);
    ck_assert(!atomic_load(&has_failed));
}
END_TEST

TEST_SUITE(allocator_threads)
{
    TCase *tests = tcase_create("threads");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, live_blocks_of_many_threads_never_overlap, 0, KINDS);
    tcase_add_loop_test(tests, neighbours_in_different_lists_merge_only_in_one, 0, KINDS);
    tcase_add_loop_test(tests, what_ended_threads_had_free_is_used_again, 0, KINDS);
    tcase_add_loop_test(tests, blocks_freed_by_destructors_of_a_thread_are_kept, 0, KINDS);
    tcase_add_loop_test(tests, a_forked_child_can_allocate, 0, KINDS);
    suite_add_tcase(suite, tests);
}
