#include "tests/support/one_file_store.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/support/store_calls.h"

const struct kvstore_options one_file = {
    .create = true, .datafiles = 1, .compact_dead_percent = 100};

char copy_dir[STORE_DIR_BYTES];

static void set_up(void)
{
    store_dir_make(copy_dir);
    store = must_open(dir, &one_file);
}

static void tear_down(void)
{
    store_dir_remove(copy_dir);
}

void one_file_case_add(TCase *tcase)
{
    store_case_add(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
}

static void copy_files(void)
{
    struct image image;
    image_take(&image, dir);
    image_put(&image, copy_dir);
    image_free(&image);
}

struct kvstore *open_copy(void)
{
    copy_files();
    return must_open(copy_dir, NULL);
}

struct kvstore *open_copy_under_writers(void)
{
    struct kvstore *copy;
    struct kv_error error = {0};
    copy_files();
    if (kvstore_open(copy_dir, NULL, &copy, &error) == KV_OK)
        return copy;
    ck_assert_msg(error.status == KV_CORRUPT, "%s", error.text);
    return NULL;
}

bool has_file(const char *name)
{
    char path[STORE_DIR_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

void put_round(int keys, int round)
{
    char value[32];
    for (int i = 0; i < keys; i++) {
        snprintf(value, sizeof value, "value %d/%d", i, round);
        must_put(store, numbered("key", i), value);
    }
}

void check_round(struct kvstore *opened, int keys, int round)
{
    char value[32];
    for (int i = 0; i < keys; i++) {
        snprintf(value, sizeof value, "value %d/%d", i, round);
        ck_assert_pstr_eq(get_text(opened, numbered("key", i)), value);
    }
}

void must_compact(void)
{
    struct kv_error error = {0};
    ck_assert_msg(kvstore_compact(store, 0, &error) == KV_OK, "%s", error.text);
}

void must_reopen(const struct kvstore_options *options)
{
    if (store)
        must_close(store);
    store = must_open(dir, options);
}

unsigned past_logs_there(void)
{
    return (unsigned)total_statistics(store).past_logs;
}
