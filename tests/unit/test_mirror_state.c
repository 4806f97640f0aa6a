/* mirror_state: what is written is read again; what makes no sense is refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bridges/cluster/mirror/mirror_state.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"

#define FILES 3u

static char dir[512];
static char path[sizeof dir + 16];
static struct kv_error error;

static void set_up(void)
{
    test_path(dir, sizeof dir, "mirror-state-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/" MIRROR_STATE_FILE, dir);
}

static void tear_down(void)
{
    unlink(path);
    rmdir(dir);
}

static enum kv_status load(const char *bucket, struct mirror_state *state)
{
    return mirror_state_load(dir, bucket, FILES, state, &error);
}

/* Writes a state to the file, and leaves it in *state. */
static void save_one(struct mirror_state *state)
{
    ck_assert_int_eq(load("copy", state), KV_OK);
    state->complete = true;
    state->same_ms = 1234;
    for (uint64_t i = 0; i < FILES; i++)
        state->places[i] = (struct mirror_place){{~i, i << 60 | 5, 4096 + i}, 99 + i};
    state->page[1] = UINT64_MAX;
    ck_assert_int_eq(mirror_state_save(dir, state, &error), KV_OK);
}

START_TEST(it_is_read_as_it_was_written)
{
    struct mirror_state written, read;
    save_one(&written);
    ck_assert_int_eq(load("copy", &read), KV_OK);
    ck_assert_str_eq(read.name, written.name);
    ck_assert_str_eq(read.copy, written.copy);
    ck_assert(read.complete);
    ck_assert_uint_eq(read.same_ms, 1234);
    ck_assert_mem_eq(read.places, written.places, FILES * sizeof *read.places);
    ck_assert_mem_eq(read.page, written.page, FILES * sizeof *read.page);
    mirror_state_end_page(&written);
    ck_assert_int_eq(mirror_state_save(dir, &written, &error), KV_OK);
    mirror_state_free(&read);
    ck_assert_int_eq(load("copy", &read), KV_OK);
    ck_assert_mem_eq(read.page, written.page, FILES * sizeof *read.page);
    ck_assert_uint_eq(read.page[1], 0);
    mirror_state_free(&read);
    mirror_state_free(&written);
}
END_TEST

START_TEST(another_bucket_is_a_new_copy)
{
    struct mirror_state written, read;
    save_one(&written);
    ck_assert_int_eq(load("copy2", &read), KV_OK);
    ck_assert_str_ne(read.name, written.name);
    ck_assert_str_eq(read.bucket, "copy2");
    ck_assert(!read.complete);
    ck_assert_uint_eq(read.places[1].version, 0);
    mirror_state_free(&read);
    mirror_state_free(&written);
}
END_TEST

START_TEST(each_copying_has_a_name_of_its_own)
{
    struct mirror_state state, before;
    save_one(&before);
    ck_assert_int_eq(load("copy", &state), KV_OK);
    mirror_state_begin_copy(&state);
    ck_assert(!state.complete);
    ck_assert_str_eq(state.name, before.name);
    ck_assert_str_ne(state.copy, before.copy);
    mirror_state_free(&state);
    mirror_state_free(&before);
}
END_TEST

static void replace_file(const char *bytes, size_t size)
{
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(bytes, 1, size, stream), size);
    ck_assert_int_eq(fclose(stream), 0);
}

START_TEST(what_makes_no_sense_is_refused)
{
    struct mirror_state state;
    char bytes[4096];
    save_one(&state);
    mirror_state_end_page(&state);
    ck_assert_int_eq(mirror_state_save(dir, &state, &error), KV_OK);
    mirror_state_free(&state);
    FILE *stream = fopen(path, "r");
    ck_assert_ptr_nonnull(stream);
    size_t size = fread(bytes, 1, sizeof bytes, stream);
    fclose(stream);
    for (size_t left = 0; left + 4 < size; left++) { /* cut off; the last digits may be missing */
        replace_file(bytes, left);
        ck_assert_int_eq(load("copy", &state), KV_CORRUPT);
    }
    size += (size_t)snprintf(bytes + size, sizeof bytes - size, "page %u 1\n", FILES);
    replace_file(bytes, size);
    ck_assert_int_eq(load("copy", &state), KV_CORRUPT);
    memset(bytes, 'a', sizeof bytes);
    replace_file(bytes, sizeof bytes);
    ck_assert_int_eq(load("copy", &state), KV_CORRUPT);
}
END_TEST

START_TEST(a_link_is_not_followed)
{
    struct mirror_state state;
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    ck_assert_int_ne(load("copy", &state), KV_OK);
}
END_TEST

TEST_SUITE(mirror_state)
{
    TCase *tcase = tcase_create("state");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, it_is_read_as_it_was_written);
    tcase_add_test(tcase, another_bucket_is_a_new_copy);
    tcase_add_test(tcase, each_copying_has_a_name_of_its_own);
    tcase_add_test(tcase, what_makes_no_sense_is_refused);
    tcase_add_test(tcase, a_link_is_not_followed);
    suite_add_tcase(suite, tcase);
}
