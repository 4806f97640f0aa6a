/* value_segment: copies in range, nothing out of range, and a peer that shortens the object. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/skip.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"
#include "wire/value_segment.h"

#define BYTES (1u << 20)

static char name[64];
static struct wire_segment *client;

static void unlink_segment(void)
{
    shm_unlink(name);
}

static void create_segment(void)
{
    test_queue_name(name, sizeof name);
    atexit(unlink_segment);
    struct kv_error error = {0};
    ck_assert_msg(wire_segment_create(name, BYTES, 0600, &client, &error) == KV_OK, "%s",
                  error.text);
}

static void remove_segment(void)
{
    wire_segment_close(client);
    unlink_segment();
}

static struct wire_segment *open_as_server(bool map)
{
    struct wire_segment *server;
    struct kv_error error = {0};
    ck_assert_msg(wire_segment_open(name, BYTES, geteuid(), map, &server, &error) == KV_OK, "%s",
                  error.text);
    return server;
}

/* Both ways of the server: _i is whether it maps. */
START_TEST(bytes_go_both_ways)
{
    struct wire_segment *server = open_as_server(_i);
    ck_assert_uint_eq(wire_segment_bytes(server), BYTES);
    char read_back[6];
    static const uint64_t offsets[] = {0, 4093, BYTES / 2 + 1, BYTES - 6};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        ck_assert(wire_segment_write(client, offsets[i], "apple", 6));
        ck_assert(wire_segment_read(server, offsets[i], read_back, 6));
        ck_assert_str_eq(read_back, "apple");
        ck_assert(wire_segment_write(server, offsets[i], "grape", 6));
        ck_assert_str_eq(wire_segment_at(client, offsets[i], 6), "grape");
    }
    ck_assert_int_eq(wire_segment_at(server, 0, 1) != NULL, _i);
    wire_segment_close(server);
}
END_TEST

START_TEST(out_of_range_is_refused)
{
    static const struct {
        uint64_t offset, size;
    } bad[] = {
        {0, BYTES + 1ull},        {BYTES, 1},
        {BYTES - 1, 2},           {BYTES + 1ull, 0},
        {UINT64_MAX, 1},          {1, UINT64_MAX},
        {UINT64_MAX, UINT64_MAX}, {BYTES - 1, UINT64_MAX},
        {1ull << 63, 1ull << 63},
    };
    struct wire_segment *server = open_as_server(_i);
    char byte = 'x';
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert(!wire_segment_read(server, bad[i].offset, &byte, bad[i].size));
        ck_assert(!wire_segment_write(server, bad[i].offset, &byte, bad[i].size));
        ck_assert_ptr_null(wire_segment_at(client, bad[i].offset, bad[i].size));
    }
    ck_assert(wire_segment_read(server, BYTES, &byte, 0));
    ck_assert(wire_segment_write(server, BYTES - 1, &byte, 1));
    wire_segment_close(server);
}
END_TEST

START_TEST(truncation_by_the_peer_is_an_error_not_a_signal)
{
    struct wire_segment *server = open_as_server(false);
    int fd = shm_open(name, O_RDWR, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, 5000), 0);
    static char buffer[8192];
    ck_assert(wire_segment_read(server, 0, buffer, 5000));
    ck_assert(!wire_segment_read(server, 0, buffer, 5001));
    ck_assert(!wire_segment_read(server, 8192, buffer, 1));
    close(fd);
    wire_segment_close(server);
}
END_TEST

/* A read lease of its owner would keep an open for writing asleep for 45 s. */
START_TEST(a_lease_is_an_error_not_a_wait)
{
    struct wire_segment *server;
    struct kv_error error = {0};
    int leased = shm_open(name, O_RDONLY, 0);
    ck_assert_int_ge(leased, 0);
    wire_segment_close(client); /* a read lease needs that nobody has it open for writing */
    client = NULL;
    signal(SIGIO, SIG_IGN); /* tells the holder that somebody wants it */
    ck_assert_int_eq(fcntl(leased, F_SETLEASE, F_RDLCK), 0);
    ck_assert_int_eq(wire_segment_open(name, BYTES, geteuid(), true, &server, &error), KV_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, "lease"));
    close(leased);
    server = open_as_server(true);
    wire_segment_close(server);
}
END_TEST

START_TEST(what_is_offered_is_checked)
{
    struct wire_segment *server;
    struct kv_error error = {0};
    ck_assert_int_eq(wire_segment_open(name, BYTES, geteuid() + 1, false, &server, &error),
                     KV_DENIED);
    ck_assert_int_eq(wire_segment_open(name, BYTES + 1ull, geteuid(), false, &server, &error),
                     KV_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(error.text, "1048577"));
    ck_assert_int_eq(wire_segment_open(name, 0, geteuid(), true, &server, &error), KV_BAD_REQUEST);
    ck_assert_int_eq(wire_segment_open(name, UINT64_MAX, geteuid(), true, &server, &error),
                     KV_BAD_REQUEST);
    ck_assert_int_eq(wire_segment_open("/twire.none", 1, geteuid(), true, &server, &error), KV_IO);
    ck_assert_int_eq(wire_segment_create(name, BYTES, 0600, &server, &error), KV_IO);
    ck_assert_int_eq(wire_segment_create("/twire.none", 0, 0600, &server, &error), KV_USAGE);
    wire_segment_close(NULL);
}
END_TEST

/* More than the machine has: creating costs nothing, touching is refused instead of SIGBUS. */
START_TEST(full_memory_is_an_error_not_a_signal)
{
    char huge_name[80];
    snprintf(huge_name, sizeof huge_name, "%s.huge", name);
    struct wire_segment *huge;
    uint64_t bytes = 1ull << 46;
    if (wire_segment_create(huge_name, bytes, 0600, &huge, NULL) != KV_OK)
        SKIP_TEST("an address space limit is in force");
    shm_unlink(huge_name);
    ck_assert_ptr_null(wire_segment_at(huge, bytes - 1, 1));
    ck_assert(!wire_segment_write(huge, bytes - 1, "x", 1));
    ck_assert(wire_segment_write(huge, 0, "x", 1));
    wire_segment_close(huge);
}
END_TEST

START_TEST(mode_is_as_asked)
{
    char other[80];
    snprintf(other, sizeof other, "%s.mode", name);
    umask(0777);
    struct wire_segment *segment;
    ck_assert_int_eq(wire_segment_create(other, 4096, 0660, &segment, NULL), KV_OK);
    int fd = shm_open(other, O_RDWR, 0);
    shm_unlink(other);
    struct stat facts;
    ck_assert_int_eq(fstat(fd, &facts), 0);
    ck_assert_uint_eq(facts.st_mode & 07777, 0660);
    ck_assert_int_eq(facts.st_blocks, 0); /* memory only when touched */
    close(fd);
    wire_segment_close(segment);
}
END_TEST

TEST_SUITE(wire_value_segment)
{
    TCase *segments = tcase_create("segments");
    tcase_add_checked_fixture(segments, create_segment, remove_segment);
    tcase_add_loop_test(segments, bytes_go_both_ways, false, true + 1);
    tcase_add_loop_test(segments, out_of_range_is_refused, false, true + 1);
    tcase_add_test(segments, truncation_by_the_peer_is_an_error_not_a_signal);
    tcase_add_test(segments, a_lease_is_an_error_not_a_wait);
    tcase_add_test(segments, what_is_offered_is_checked);
    tcase_add_test(segments, full_memory_is_an_error_not_a_signal);
    tcase_add_test(segments, mode_is_as_asked);
    suite_add_tcase(suite, segments);
}
