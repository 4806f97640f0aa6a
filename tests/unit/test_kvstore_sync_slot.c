/* The sync slot of a file: who waits for it gets it, however many syncs others want. */
#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "kvstore/log/fileio.h"
#include "kvstore/api/store.h"
#include "kvstore/sync/sync_slot.h"
#include "tests/support/one_file_store.h"
#include "tests/support/store_calls.h"
#include "tests/support/test_suite.h"

/* Of the CPUs that the process may use, the first or the last: for this thread alone. */
static void use_cpu(bool first)
{
    static const cpu_set_t none;
    cpu_set_t allowed, one = none;
    ck_assert_int_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int chosen = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && (chosen < 0 || !first))
            chosen = cpu;
    CPU_SET(chosen, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

/* The third field of proc(5)'s stat; no thread of ours has a parenthesis in its name. */
static bool is_asleep(void *thread)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", *(int *)thread);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state == 'S';
}

static int
    waiting_thread; /* the id of the thread that waits for the slot, or is about to. 0: none */
static atomic_uint syncs_meanwhile;
static atomic_bool sync_began;

static bool has_begun(void *context)
{
    (void)context;
    return atomic_load(&sync_began);
}

/* Before it ends the next one has been asked for, and who waits for the slot is asleep. */
static int never_ending_sync(int fd)
{
    (void)fd;
    use_cpu(false);
    atomic_store(&sync_began, true);
    kvstore_request_sync(store, must_put_for_ticket(store, "key", "value"));
    int thread = __atomic_load_n(&waiting_thread, __ATOMIC_ACQUIRE);
    if (thread != 0 && wait_until(is_asleep, &thread))
        atomic_fetch_add(&syncs_meanwhile, 1);
    return 0;
}

/* On another CPU, so that being woken does not mean to take the CPU from the sync thread, which is
 * quick to begin the next sync. */
START_TEST(who_waits_for_the_slot_comes_before_the_next_sync)
{
    static struct fileio table; /* the store's threads may use it until it is closed */
    table = fileio_system;
    table.sync_data = never_ending_sync;
    fileio = &table;
    use_cpu(true);
    kvstore_request_sync(store, must_put_for_ticket(store, "key", "value"));
    ck_assert(wait_until(has_begun, NULL));
    __atomic_store_n(&waiting_thread, gettid(), __ATOMIC_RELEASE);
    sync_take_slot(store->sync, 0);
    unsigned syncs = atomic_load(&syncs_meanwhile);
    __atomic_store_n(&waiting_thread, 0, __ATOMIC_RELEASE);
    fileio = &fileio_system;
    sync_release_slot(store->sync, 0);
    ck_assert_uint_le(syncs, 3); /* one, but for a sleep of another reason just before */
}
END_TEST

TEST_SUITE(kvstore_sync_slot)
{
    TCase *tests = tcase_create("sync_slot");
    one_file_case_add(tests);
    tcase_add_test(tests, who_waits_for_the_slot_comes_before_the_next_sync);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
}
