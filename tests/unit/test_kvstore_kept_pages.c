/* Pages of a file that the kernel keeps after a failed sync: they are written once more, if there
 * is a disk behind them. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kvstore/log/kept_pages.h"
#include "tests/support/fault.h"
#include "tests/support/skip.h"
#include "tests/support/store_files.h"
#include "tests/support/test_suite.h"

static char dir[STORE_DIR_BYTES];

static void set_up(void)
{
    store_dir_make(dir);
}

static void tear_down(void)
{
    fault_clear();
    store_dir_remove(dir);
}

/* Writes to the file and, where its pages are kept, once more. Returns how often that was; closes
 * the file. */
static unsigned long writes_of_kept_pages(int fd)
{
    static const char bytes[2 * 4096] = "bytes";
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, sizeof bytes, 0), sizeof bytes);
    fault_install(&(struct fault_plan){.call = FAULT_WRITE}); /* counts */
    ck_assert_int_eq(kept_pages_write(fd, 0, sizeof bytes), 0);
    close(fd);
    return fault_calls(FAULT_WRITE);
}

START_TEST(pages_without_a_disk_are_not_written_again)
{
    ck_assert_uint_eq(writes_of_kept_pages(memfd_create("kept", MFD_CLOEXEC)), 0);
    ck_assert_uint_eq(fault_calls(FAULT_READ), 0);
    ck_assert_uint_eq(fault_calls(FAULT_SYNC_DATA), 0);
}
END_TEST

START_TEST(pages_with_a_disk_are)
{
    char path[STORE_DIR_BYTES + 32];
    if (store_lies_in_memory(dir))
        SKIP_TEST("the directory of the tests lies in memory");
    snprintf(path, sizeof path, "%s/kept", dir);
    ck_assert_uint_gt(writes_of_kept_pages(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0);
    ck_assert_uint_eq(fault_calls(FAULT_SYNC_DATA), 1);
}
END_TEST

TEST_SUITE(kvstore_kept_pages)
{
    TCase *tests = tcase_create("pages that the kernel keeps");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, pages_without_a_disk_are_not_written_again);
    tcase_add_test(tests, pages_with_a_disk_are);
    suite_add_tcase(suite, tests);
}
