/* Reads without messages, of a store that makes no sense: they come to an end, and ask. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/memory/mapguard.h"
#include "kvstore/format/fileheader.h"
#include "tests/support/direct_case.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

START_TEST(a_store_that_is_being_moved_for_ever_is_asked_for)
{
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    handmade_state(&made.files[0])->moves++;
    assert_asks("a");
    handmade_state(&made.files[0])->moves++;
    assert_read("a", "1");
    direct_case_end();
}
END_TEST

START_TEST(a_damaged_record_is_asked_for)
{
    direct_case_begin_mapped();
    uint64_t offset = handmade_put(&made, TEXT("a"), TEXT("12345"), 0);
    direct_case_put("b", "whole");
    int log = handmade_log(&made, 0);
    ck_assert_int_eq(pwrite(log, "X", 1, (off_t)offset + 23), 1);
    assert_asks("a");
    assert_read("b", "whole");
    ck_assert_int_eq(pwrite(log, "X", 1, (off_t)offset + 18), 1); /* of no kind */
    assert_asks("a");
    close(log);
    direct_case_end();
}
END_TEST

START_TEST(places_out_of_bounds_are_asked_for)
{
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    struct shared_generation *state = handmade_state(&made.files[0]);
    struct shared_generation sound = *state;
    static const uint64_t directories[] = {0,          UINT64_MAX,           UINT64_C(1) << 63,
                                           0xff,       UINT64_C(1) << 30,    33,
                                           0x7fffff20, UINT64_MAX & ~0xffull};
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        state->directory = directories[i];
        assert_asks("a");
    }
    *state = sound;
    slot *slots = handmade_segment(&made, TEXT("a"))->slots;
    for (uint32_t i = 0; i < INDEX_SEGMENT_SLOTS; i++)
        if (slots[i] != 0)
            slots[i] |= UINT32_MAX;
    assert_asks("a");
    state->tail = UINT64_MAX;
    assert_asks("a");
    direct_case_end();
}
END_TEST

START_TEST(memory_beyond_what_is_shared_is_asked_for)
{
    direct_case_begin_mapped();
    direct_case_put_keys();
    made.header->shared_bytes = SHARED_STORE_HEADER_BYTES + sizeof(struct shared_file);
    struct direct_store *store = direct_begin(&direct, &reader); /* looked at with so little */
    ck_assert_ptr_nonnull(store);
    ck_assert(direct_end(store, &reader));
    assert_asks("key1");
    made.header->shared_bytes = HANDMADE_OBJECT_BYTES;
    assert_keys();
    direct_case_end();
}
END_TEST

/* An object that cannot be used from the start. */
static void assert_refused(enum direct_reason reason)
{
    static uint64_t instance = 100;
    struct clientk_info info = {.sessions = 0};
    direct_case_offer(getpid(), instance++);
    direct_add_info(&direct, &info);
    ck_assert_int_eq(info.direct, CLIENTK_DIRECT_OFF);
    ck_assert_str_eq(info.direct_reason, direct_reason_sentence(reason));
    assert_asks("a");
}

START_TEST(an_object_that_is_not_the_stores_is_refused)
{
    direct_case_begin_mapped();
    direct_case_put("a", "1");
    struct shared_store sound = *made.header;
    made.header->magic++;
    assert_refused(DIRECT_DAMAGED);
    *made.header = sound;
    made.header->layout++;
    assert_refused(DIRECT_OTHER_LAYOUT);
    *made.header = sound;
    made.header->condition = SHARED_STORE_RETIRED;
    assert_refused(DIRECT_SERVER_ENDED);
    *made.header = sound;
    made.header->condition = SHARED_STORE_BEING_MADE;
    assert_refused(DIRECT_DAMAGED);
    *made.header = sound;
    made.header->datafiles = 0;
    assert_refused(DIRECT_DAMAGED);
    made.header->datafiles = 4097;
    assert_refused(DIRECT_DAMAGED);
    *made.header = sound;
    made.header->files_offset = 0xfffffff0;
    assert_refused(DIRECT_DAMAGED);
    *made.header = sound;
    memset(made.header->dir, 'x', sizeof made.header->dir);
    assert_refused(DIRECT_NO_DIRECTORY);
    strcpy(made.header->dir, "/");
    assert_refused(DIRECT_NO_DIRECTORY);
    *made.header = sound;
    ck_assert_int_eq(ftruncate(made.object_fd, 100), 0);
    assert_refused(DIRECT_DAMAGED);
    ck_assert_int_eq(ftruncate(made.object_fd, HANDMADE_OBJECT_BYTES), 0);
    shm_unlink(made.name.text);
    assert_refused(DIRECT_NO_OBJECT);
    direct_case_end();
}
END_TEST

START_TEST(a_truncated_log_is_asked_for)
{
    mapguard_install("test");
    direct_case_begin_mapped();
    direct_case_put_keys();
    assert_keys();
    int log = handmade_log(&made, 0);
    ck_assert_int_eq(ftruncate(log, FILE_HEADER_BYTES), 0);
    close(log);
    assert_asks("key599");
    direct_case_end();
    direct_case_begin_pread();
    direct_case_put_keys();
    assert_keys();
    log = handmade_log(&made, 0);
    ck_assert_int_eq(ftruncate(log, FILE_HEADER_BYTES), 0);
    close(log);
    assert_asks("key599");
    direct_case_end();
}
END_TEST

START_TEST(a_truncated_object_is_asked_for)
{
    mapguard_install("test");
    direct_case_begin_mapped();
    direct_case_put_keys();
    assert_keys();
    ck_assert_int_eq(ftruncate(made.object_fd, 2 * SHARED_STORE_HEADER_BYTES), 0);
    assert_asks("key599");
    direct_case_end();
}
END_TEST

/* Random words in the places of an object: whatever they are, reads come to an end. */
START_TEST(random_bytes_end_no_reader)
{
    mapguard_install("test");
    direct_case_begin_mapped();
    direct_case_put_keys();
    unsigned seed = 1;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 40; i++) {
            uint64_t place = (uint64_t)rand_r(&seed) % (made.free_offset / 8);
            uint64_t word = (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed);
            bool in_header = place < SHARED_STORE_HEADER_BYTES / 8;
            if (!in_header)
                ((uint64_t *)made.object)[place] = round % 2 ? word : word & 0xffff;
        }
        struct shared_generation *state = handmade_state(&made.files[0]);
        state->moves &= ~UINT64_C(1);
        for (int i = 0; i < DIRECT_CASE_KEYS; i += 7) {
            char key[16];
            struct clientk_value value = {.data = NULL};
            enum kv_status status;
            snprintf(key, sizeof key, "key%d", i);
            if (direct_get(&direct, &reader, TEXT(key), true, &value, &status))
                ck_assert(status == KV_OK || status == KV_NOT_FOUND);
            clientk_value_free(&value);
        }
    }
    direct_case_end();
}
END_TEST

TEST_SUITE(clientk_direct_damage)
{
    TCase *tcase = tcase_create("direct_damage");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_store_that_is_being_moved_for_ever_is_asked_for);
    tcase_add_test(tcase, a_damaged_record_is_asked_for);
    tcase_add_test(tcase, places_out_of_bounds_are_asked_for);
    tcase_add_test(tcase, memory_beyond_what_is_shared_is_asked_for);
    tcase_add_test(tcase, an_object_that_is_not_the_stores_is_refused);
    tcase_add_test(tcase, a_truncated_log_is_asked_for);
    tcase_add_test(tcase, a_truncated_object_is_asked_for);
    tcase_add_test(tcase, random_bytes_end_no_reader);
    suite_add_tcase(suite, tcase);
}
