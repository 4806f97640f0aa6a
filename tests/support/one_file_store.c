#include "tests/support/one_file_store.h"

#include "tests/support/store_calls.h"

const struct kvstore_options one_file = {
    .create = true, .datafiles = 1, .compact_dead_percent = 100};

char dir[STORE_DIR_BYTES];
char copy_dir[STORE_DIR_BYTES];
struct kvstore *store;

static void set_up(void)
{
    store_dir_make(dir);
    store_dir_make(copy_dir);
    store = must_open(dir, &one_file);
}

static void tear_down(void)
{
    if (store)
        must_close(store);
    store_dir_remove(dir);
    store_dir_remove(copy_dir);
}

void one_file_case_add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
}
