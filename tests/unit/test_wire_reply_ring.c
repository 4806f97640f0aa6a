/* reply_ring: messages go from many writers to the one reader, a full or scribbled ring refuses,
 * a sleeping reader is woken, children that die or stop while they write keep nothing, and an
 * object that loses its bytes breaks the ring alone. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/memory/mapguard.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/reply_ring.h"

#define DEPTH             4u
#define MESSAGE_BYTES     300u
#define WORDS_PER_MESSAGE 2u

static const struct wire_geometry geometry = {DEPTH, MESSAGE_BYTES};
static char name[64];
static int descriptor = -1;
static struct wire_ring *client, *server;
static uint8_t buffer[MESSAGE_BYTES];

static void unlink_ring(void)
{
    shm_unlink(name);
}

static void create_ring(void)
{
    struct kv_error error = {0};
    int opened;
    test_queue_name(name, sizeof name);
    atexit(unlink_ring);
    mapguard_install("test");
    ck_assert_msg(wire_ring_create(name, geometry, &descriptor, &client, &error) == KV_OK, "%s",
                  error.text);
    ck_assert_msg(wire_ring_open(name, &opened, &error) == KV_OK, "%s", error.text);
    ck_assert_msg(wire_ring_map(opened, geometry, &server, &error) == KV_OK, "%s", error.text);
    close(opened);
}

static void remove_ring(void)
{
    wire_ring_close(client);
    wire_ring_close(server);
    close(descriptor);
    unlink_ring();
}

/* The object itself, for who scribbles in it. */
static void *map_object(void)
{
    void *memory =
        mmap(NULL, wire_ring_bytes(geometry), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    return memory;
}

START_TEST(messages_arrive_whole)
{
    uint8_t message[MESSAGE_BYTES];
    for (unsigned round = 0; round < 100; round++) {
        size_t size = 1 + (round * 37) % MESSAGE_BYTES;
        memset(message, (int)(round + 1), sizeof message);
        ck_assert(wire_ring_put(server, message, size));
        ck_assert_int_eq(wire_ring_take(client, buffer), (ssize_t)size);
        ck_assert_mem_eq(buffer, message, size);
    }
    ck_assert_int_eq(wire_ring_take(client, buffer), 0);
}
END_TEST

START_TEST(a_full_ring_refuses_and_has_room_again)
{
    for (uint8_t i = 0; i < DEPTH; i++)
        ck_assert(wire_ring_put(server, &i, 1));
    ck_assert(!wire_ring_put(server, "x", 1));
    ck_assert_int_eq(wire_ring_take(client, buffer), 1);
    ck_assert(wire_ring_put(server, "x", 1));
    unsigned left = 0;
    while (wire_ring_take(client, buffer) > 0)
        left++;
    ck_assert_uint_eq(left, DEPTH);
}
END_TEST

START_TEST(sizes_have_limits)
{
    uint8_t message[MESSAGE_BYTES + 1] = {0};
    ck_assert(!wire_ring_put(server, message, 0));
    ck_assert(!wire_ring_put(server, message, MESSAGE_BYTES + 1));
    static const struct wire_geometry impossible[] = {
        {0, 128}, {WIRE_RING_MAX_DEPTH + 1, 128}, {1, 0}, {1, WIRE_RING_MAX_MESSAGE_BYTES + 1}};
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        struct wire_ring *ring;
        int opened;
        ck_assert_uint_eq(wire_ring_bytes(impossible[i]), 0);
        ck_assert_int_eq(wire_ring_create("/none", impossible[i], &opened, &ring, NULL), KV_USAGE);
        ck_assert_int_eq(wire_ring_map(descriptor, impossible[i], &ring, NULL), KV_BAD_REQUEST);
    }
}
END_TEST

START_TEST(objects_are_checked)
{
    struct kv_error error = {0};
    struct wire_ring *ring;
    int opened;
    ck_assert_int_eq(wire_ring_create(name, geometry, &opened, &ring, &error), KV_EXISTS);
    ck_assert_int_eq(wire_ring_open("/mqkv-no-such-ring", &opened, &error), KV_NO_SERVER);
    ck_assert_int_eq(ftruncate(descriptor, (off_t)wire_ring_bytes(geometry) - 1), 0);
    ck_assert_int_eq(wire_ring_map(descriptor, geometry, &ring, &error), KV_BAD_REQUEST);
}
END_TEST

/* Whatever a client writes there, the server finds no room, or writes into the slots, and goes
 * on. */
START_TEST(a_scribbled_ring_only_refuses)
{
    void *object = map_object();
    _Atomic uint32_t *scribbled = object;
    for (unsigned seed = 1; seed < 2000; seed++) {
        for (unsigned word = 0; word < 32; word++)
            atomic_store(&scribbled[word], (seed & (1u << (word % 11))) ? seed * 2654435761u : 0);
        wire_ring_put(server, "reply", 5);
    }
    for (unsigned word = 0; word < 32; word++)
        atomic_store(&scribbled[word], UINT32_MAX);
    ck_assert(!wire_ring_put(server, "reply", 5));
    ck_assert(wire_ring_has_ended(client));
    ck_assert_int_eq(wire_ring_take(client, buffer), -1);
    ck_assert_int_eq(errno, EBADMSG);
    munmap(object, wire_ring_bytes(geometry));
}
END_TEST

START_TEST(a_shortened_object_breaks_the_ring)
{
    ck_assert(!wire_ring_is_broken(server));
    ck_assert_int_eq(ftruncate(descriptor, 0), 0);
    wire_ring_put(server, "reply", 5);
    ck_assert(wire_ring_is_broken(server));
}
END_TEST

static void *put_later(void *context)
{
    (void)context;
    usleep(20000);
    ck_assert(wire_ring_put(server, "late", 4));
    return NULL;
}

START_TEST(a_sleeper_is_woken)
{
    for (unsigned i = 0; i < 5; i++) {
        pthread_t writer;
        ck_assert_int_eq(pthread_create(&writer, NULL, put_later, NULL), 0);
        while (wire_ring_take(client, buffer) == 0)
            wire_ring_sleep(client, 60000);
        ck_assert_mem_eq(buffer, "late", 4);
        pthread_join(writer, NULL);
    }
}
END_TEST

START_TEST(a_sleep_ends_with_its_time_or_at_a_message)
{
    wire_ring_sleep(client, 5);
    ck_assert_int_eq(wire_ring_take(client, buffer), 0);
    ck_assert(wire_ring_put(server, "x", 1));
    uint64_t before_ms = clock_monotonic_coarse_ms();
    wire_ring_sleep(client, 600000);
    ck_assert_uint_lt(clock_monotonic_coarse_ms() - before_ms, 600000);
}
END_TEST

static void *end_later(void *context)
{
    (void)context;
    usleep(20000);
    wire_ring_end(server);
    return NULL;
}

START_TEST(a_sleeper_is_told_of_the_end)
{
    pthread_t writer;
    ck_assert(!wire_ring_has_ended(client));
    ck_assert_int_eq(pthread_create(&writer, NULL, end_later, NULL), 0);
    while (!wire_ring_has_ended(client))
        wire_ring_sleep(client, 600000);
    pthread_join(writer, NULL);
    uint64_t before_ms = clock_monotonic_coarse_ms();
    wire_ring_sleep(client, 600000);
    ck_assert_uint_lt(clock_monotonic_coarse_ms() - before_ms, 600000);
}
END_TEST

START_TEST(counts_of_reads_outlive_the_clients_ring)
{
    uint64_t found = 10, absent = 20;
    wire_ring_add_reads(server, &found, &absent);
    ck_assert_uint_eq(found, 10);
    ck_assert_uint_eq(absent, 20);
    struct wire_ring_reads *reads = wire_ring_map_reads(descriptor);
    ck_assert_ptr_nonnull(reads);
    wire_ring_close(client);
    client = NULL;
    atomic_fetch_add(&reads->found, 3);
    atomic_fetch_add(&reads->absent, 4);
    wire_ring_add_reads(server, &found, &absent);
    ck_assert_uint_eq(found, 13);
    ck_assert_uint_eq(absent, 24);
    wire_ring_unmap_reads(reads);
    wire_ring_unmap_reads(NULL);
    ck_assert_ptr_null(wire_ring_map_reads(-1));
}
END_TEST

/* Earlier servers had claims of slots in the word at 64. A writer that had stored a state, but not
 * come to clear its claim when the client took the message, made an empty slot look taken. */
START_TEST(a_slot_that_the_client_emptied_can_be_written)
{
    void *object = map_object();
    atomic_store((_Atomic uint32_t *)object + 16, UINT32_MAX);
    for (unsigned i = 0; i < 2 * DEPTH; i++) {
        ck_assert(wire_ring_put(server, "reply", 5));
        ck_assert_int_eq(wire_ring_take(client, buffer), 5);
    }
    munmap(object, wire_ring_bytes(geometry));
}
END_TEST

static void stop_here(int signal_number)
{
    (void)signal_number;
    raise(SIGSTOP);
}

/* A child that gets SIGSEGV while it writes: what it copies lies where nothing can be read. */
static pid_t start_disturbed_writer(void (*handler)(int))
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child > 0)
        return child;
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGSEGV, &action, NULL);
    prctl(PR_SET_DUMPABLE, 0);
    void *unreadable = mmap(NULL, MESSAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    wire_ring_put(server, unreadable, MESSAGE_BYTES);
    _exit(0);
}

START_TEST(children_killed_while_they_write_keep_no_slot)
{
    for (unsigned i = 0; i < DEPTH + 1; i++) {
        int ended;
        pid_t child = start_disturbed_writer(SIG_DFL);
        ck_assert_int_eq(waitpid(child, &ended, 0), child);
        ck_assert(WIFSIGNALED(ended));
        ck_assert_int_eq(WTERMSIG(ended), SIGSEGV);
        ck_assert_int_eq(wire_ring_take(client, buffer), 0);
    }
    for (unsigned i = 0; i < DEPTH; i++)
        ck_assert(wire_ring_put(server, "reply", 5));
}
END_TEST

START_TEST(a_stopped_child_holds_nobody_up_for_good)
{
    int state;
    pid_t child = start_disturbed_writer(stop_here);
    ck_assert_int_eq(waitpid(child, &state, WUNTRACED), child);
    ck_assert(WIFSTOPPED(state));
    ck_assert(!wire_ring_put(server, "reply", 5));
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert(wire_ring_put(server, "reply", 5));
    ck_assert_int_eq(wire_ring_take(client, buffer), 5);
}
END_TEST

#define WRITERS  3u
#define MESSAGES 20000u

static atomic_uint in_flight;

/* As many messages in flight as there are slots: none may be refused. */
static void write_messages(uint32_t writer)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        unsigned now = atomic_load(&in_flight);
        while (now >= DEPTH || !atomic_compare_exchange_weak(&in_flight, &now, now + 1)) {
            sched_yield();
            now = atomic_load(&in_flight);
        }
        uint32_t message[WORDS_PER_MESSAGE] = {writer, i};
        ck_assert(wire_ring_put(server, message, sizeof message));
    }
}

static void *write_in_thread(void *context)
{
    write_messages(*(uint32_t *)context);
    return NULL;
}

/* Reads all messages of all writers, each writer's in some order. */
static void read_messages(uint32_t count)
{
    static bool seen[WRITERS][MESSAGES];
    while (count > 0) {
        uint32_t message[MESSAGE_BYTES / sizeof(uint32_t)];
        ssize_t got = wire_ring_take(client, message);
        if (got == 0) {
            wire_ring_sleep(client, 60000);
            continue;
        }
        ck_assert_int_eq(got, WORDS_PER_MESSAGE * sizeof(uint32_t));
        ck_assert_uint_lt(message[0], WRITERS);
        ck_assert_uint_lt(message[1], MESSAGES);
        ck_assert(!seen[message[0]][message[1]]);
        seen[message[0]][message[1]] = true;
        atomic_fetch_sub(&in_flight, 1);
        count--;
    }
}

START_TEST(threads_write_at_once)
{
    pthread_t writers[WRITERS];
    uint32_t numbers[WRITERS];
    for (uint32_t i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&writers[i], NULL, write_in_thread, &numbers[i]), 0);
    }
    read_messages(WRITERS * MESSAGES);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    ck_assert_int_eq(wire_ring_take(client, buffer), 0);
}
END_TEST

/* As with --dispatch process. */
START_TEST(a_forked_child_writes_beside_its_parent)
{
    for (unsigned i = 0; i < 200; i++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            _exit(wire_ring_put(server, "c", 1) ? 0 : 1);
        ck_assert(wire_ring_put(server, "p", 1));
        int ended;
        ck_assert_int_eq(waitpid(child, &ended, 0), child);
        ck_assert_int_eq(ended, 0);
        unsigned sum = 0;
        while (wire_ring_take(client, buffer) == 1)
            sum += buffer[0];
        ck_assert_uint_eq(sum, 'c' + 'p');
    }
}
END_TEST

TEST_SUITE(wire_reply_ring)
{
    TCase *tcase = tcase_create("reply_ring");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, create_ring, remove_ring);
    tcase_add_test(tcase, messages_arrive_whole);
    tcase_add_test(tcase, a_full_ring_refuses_and_has_room_again);
    tcase_add_test(tcase, sizes_have_limits);
    tcase_add_test(tcase, objects_are_checked);
    tcase_add_test(tcase, a_scribbled_ring_only_refuses);
    tcase_add_test(tcase, a_shortened_object_breaks_the_ring);
    tcase_add_test(tcase, a_sleeper_is_woken);
    tcase_add_test(tcase, a_sleep_ends_with_its_time_or_at_a_message);
    tcase_add_test(tcase, a_sleeper_is_told_of_the_end);
    tcase_add_test(tcase, counts_of_reads_outlive_the_clients_ring);
    tcase_add_test(tcase, a_slot_that_the_client_emptied_can_be_written);
    tcase_add_test(tcase, children_killed_while_they_write_keep_no_slot);
    tcase_add_test(tcase, a_stopped_child_holds_nobody_up_for_good);
    tcase_add_test(tcase, threads_write_at_once);
    tcase_add_test(tcase, a_forked_child_writes_beside_its_parent);
    suite_add_tcase(suite, tcase);
}
