#include "tests/support/store_case.h"

#include "tests/support/fault.h"
#include "tests/support/store_calls.h"

char dir[STORE_DIR_BYTES];
struct kvstore *store;

static void make_dir(void)
{
    store_dir_make(dir);
    store = NULL;
}

static void make_store(void)
{
    make_dir();
    store = must_open(dir, &(struct kvstore_options){.create = true});
}

static void remove_all(void)
{
    if (store)
        must_close(store);
    fault_clear(); /* now that no thread of the store could be in the middle of a call */
    store_dir_remove(dir);
}

void store_case_add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, make_dir, remove_all);
}

void store_case_add_open(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, make_store, remove_all);
}
