/* Reads without messages that stand still in the middle of a copy, while the daemon goes and
 * another one frees what is copied. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clientk/direct/direct_scan.h"
#include "common/time/clock.h"
#include "tests/support/client_calls.h"
#include "tests/support/direct_case.h"
#include "tests/support/test_suite.h"

#define VALUE_BYTES  300000u
#define BUFFER_BYTES (UINT64_C(1) << 20)

#define TEXT(text) kv_slice_from_string(text)

/* The copy goes to memory whose later part must not be touched at first. Where it meets that, the
 * reader stands still, and what the test likes happens. */
static char *buffer;
static size_t page_bytes;
static void (*meanwhile)(void);
static volatile sig_atomic_t stopped;
static pid_t daemon_pid;

static void nothing(void)
{
}

static void store_is_closed(void)
{
    __atomic_store_n(&made.header->condition, SHARED_STORE_RETIRED, __ATOMIC_RELEASE);
    handmade_lose_log(&made, 0);
}

/* Longer than a tick of the coarse clock, as it takes a daemon to come. */
static void daemon_is_killed(void)
{
    kill(daemon_pid, SIGKILL);
    waitpid(daemon_pid, NULL, 0);
    clock_sleep_ms(25);
}

/* Another one comes, which has not found the object. */
static void daemon_is_killed_and_its_log_lost(void)
{
    daemon_is_killed();
    handmade_lose_log(&made, 0);
}

static void go_on(int signal, siginfo_t *info, void *context)
{
    (void)context;
    int interrupted_errno = errno;
    char *at = info->si_addr;
    if (at < buffer || at >= buffer + BUFFER_BYTES)
        abort();
    (void)signal;
    stopped++;
    meanwhile();
    mprotect(buffer, BUFFER_BYTES, PROT_READ | PROT_WRITE);
    errno = interrupted_errno;
}

static void begin(uint32_t stale_ms, void (*happens)(void))
{
    char *bytes = malloc(VALUE_BYTES);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 'x', VALUE_BYTES);
    direct_case_begin(CLIENTK_DIRECT_MAP, 1, stale_ms);
    handmade_put(&made, TEXT("large"), kv_slice(bytes, VALUE_BYTES), 0);
    free(bytes);
    daemon_pid = fork();
    ck_assert_int_ge(daemon_pid, 0);
    if (daemon_pid == 0)
        for (;;)
            pause();
    direct_case_offer(daemon_pid, 8);
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(buffer, MAP_FAILED);
    ck_assert_int_eq(mprotect(buffer + page_bytes, BUFFER_BYTES - page_bytes, PROT_NONE), 0);
    struct sigaction action = {.sa_sigaction = go_on, .sa_flags = SA_SIGINFO};
    ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
    stopped = 0;
    meanwhile = happens;
}

static void end(void)
{
    signal(SIGSEGV, SIG_DFL);
    ck_assert_int_eq(stopped, 1);
    munmap(buffer, BUFFER_BYTES);
    kill(daemon_pid, SIGKILL);
    waitpid(daemon_pid, NULL, 0);
    direct_case_end();
}

static void assert_is_whole(const char *bytes, size_t size)
{
    ck_assert_uint_eq(size, VALUE_BYTES);
    for (size_t i = 0; i < size; i++)
        ck_assert_msg(bytes[i] == 'x', "byte %zu is %d, which was never written", i, bytes[i]);
}

static struct clientk_value trap(void)
{
    return (struct clientk_value){.data = buffer, .capacity = BUFFER_BYTES};
}

/* By a get, alone or in a batch: the value, or nothing. */
static void get(bool is_batch, bool expected)
{
    struct clientk_operation operation = {.opcode = CLIENTK_GET, .key = TEXT("large")};
    struct clientk_result result = {.status = KV_IO, .value = trap()};
    bool read =
        is_batch ? direct_execute(&direct, &reader, &operation, 1, &result) == 1
                 : direct_get(&direct, &reader, TEXT("large"), true, &result.value, &result.status);
    if (read)
        assert_is_whole(result.value.data, result.value.size);
    ck_assert(read == expected);
}

static bool see_entry(void *seen, const struct clientk_entry *entry)
{
    assert_is_whole(entry->value.data, entry->value.size);
    ++*(unsigned *)seen;
    return true;
}

static void scan(bool unused, bool expected)
{
    (void)unused;
    struct clientk_result page = {.status = KV_IO, .value = trap()};
    struct clientk_scan_options options = {.limit = 10};
    unsigned seen = 0;
    bool read = direct_scan_page(&direct, &reader, TEXT(""), &options, &page);
    if (read)
        assert_status(clientk_read_page(&page.value, see_entry, &seen), KV_OK);
    ck_assert_uint_eq(seen, expected);
}

static const struct {
    void (*read)(bool is_batch, bool expected);
    bool is_batch;
} ways[] = {{get, false}, {get, true}, {scan, false}};

/* Each way to read: the value as it is, or by message; nothing else. */
static void read_while(void (*happens)(void), uint32_t stale_ms, bool expected)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        begin(stale_ms, happens);
        ways[i].read(ways[i].is_batch, expected);
        end();
    }
}

START_TEST(a_reader_that_stands_still_goes_on)
{
    read_while(nothing, 0, true);
}
END_TEST

START_TEST(what_is_copied_of_a_closed_store_does_not_count)
{
    read_while(store_is_closed, 0, false);
    read_while(store_is_closed, 100000, false);
}
END_TEST

START_TEST(what_is_copied_after_the_daemons_end_does_not_count)
{
    read_while(daemon_is_killed, 0, false);
    read_while(daemon_is_killed_and_its_log_lost, 0, false);
}
END_TEST

START_TEST(who_reads_on_after_the_daemons_end_sees_that_a_log_is_gone)
{
    read_while(daemon_is_killed, 100000, true);
    read_while(daemon_is_killed_and_its_log_lost, 100000, false);
}
END_TEST

TEST_SUITE(clientk_direct_stopped)
{
    TCase *tcase = tcase_create("direct_stopped");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_reader_that_stands_still_goes_on);
    tcase_add_test(tcase, what_is_copied_of_a_closed_store_does_not_count);
    tcase_add_test(tcase, what_is_copied_after_the_daemons_end_does_not_count);
    tcase_add_test(tcase, who_reads_on_after_the_daemons_end_sees_that_a_log_is_gone);
    suite_add_tcase(suite, tcase);
}
