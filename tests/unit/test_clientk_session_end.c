/* A server that has ended a session says so in its ring, and the client begins another one, whether
 * it waits for an answer or has nothing to wait for. */
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "mqkv/clientk.h"
#include "tests/support/client_calls.h"
#include "tests/support/live_server.h"
#include "tests/support/test_suite.h"

/* Words of a ring (docs/PROTOCOL.md, 3.6). */
#define BELL  0u
#define ENDED 17u

static struct live_server server;
static struct clientk *client;
static _Atomic uint32_t *ring; /* of the client's session */
static int ring_number;

static void remove_server(void)
{
    clientk_close(client);
    live_server_remove(&server);
}

/* Where a ring of this process is mapped that has another number than *number, which becomes its
 * own. NULL: there is none. */
static void *find_ring(int *number)
{
    char line[512], before[128];
    void *found = NULL;
    int found_number;
    snprintf(before, sizeof before, "/dev/shm%s.r%ld.", server.queue, (long)getpid());
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    while (!found && fgets(line, sizeof line, maps)) {
        const char *name = strstr(line, before);
        if (name && sscanf(name + strlen(before), "%d", &found_number) == 1 &&
            found_number != *number)
            sscanf(line, "%p", &found);
    }
    fclose(maps);
    if (found)
        *number = found_number;
    return found;
}

/* Maps the ring of the client's session once more. */
static void map_ring(void)
{
    ring_number = -1;
    void *found = find_ring(&ring_number);
    ck_assert_ptr_nonnull(found);
    void *again = mremap(found, 0, (size_t)sysconf(_SC_PAGESIZE), MREMAP_MAYMOVE);
    ck_assert_ptr_ne(again, MAP_FAILED);
    ring = again;
}

static void connect_by_ring(void)
{
    live_server_start(&server, NULL, NULL);
    struct clientk_options options = {.queue = server.queue,
                                      .timeout_ms = 30000,
                                      .direct = CLIENTK_DIRECT_OFF,
                                      .replies = "shared"};
    client = must_connect_with(&options);
    must_put_text(client, "key", "value");
    map_ring();
}

/* As the server does. */
static void end_session(void)
{
    atomic_store(&ring[ENDED], 1);
    if (atomic_exchange(&ring[BELL], 0) != 0)
        syscall(SYS_futex, &ring[BELL], FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint64_t reconnects(void)
{
    struct clientk_info info;
    clientk_info(client, &info);
    return info.reconnects;
}

START_TEST(an_idle_client_begins_anew)
{
    end_session();
    must_put_text(client, "key", "later");
    ck_assert_uint_eq(reconnects(), 1);
}
END_TEST

static void *end_session_of_a_sleeper(void *context)
{
    (void)context;
    while (atomic_load(&ring[BELL]) == 0)
        clock_sleep_ms(1);
    end_session();
    while (!find_ring(&ring_number))
        clock_sleep_ms(1);
    live_server_signal(&server, SIGCONT);
    return NULL;
}

START_TEST(a_client_that_sleeps_begins_anew)
{
    pthread_t ender;
    live_server_signal(&server, SIGSTOP);
    ck_assert_int_eq(pthread_create(&ender, NULL, end_session_of_a_sleeper, NULL), 0);
    assert_text(client, "key", "value");
    pthread_join(ender, NULL);
    ck_assert_uint_eq(reconnects(), 1);
}
END_TEST

TEST_SUITE(clientk_session_end)
{
    TCase *tcase = tcase_create("session_end");
    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, connect_by_ring, remove_server);
    tcase_add_test(tcase, an_idle_client_begins_anew);
    tcase_add_test(tcase, a_client_that_sleeps_begins_anew);
    suite_add_tcase(suite, tcase);
}
