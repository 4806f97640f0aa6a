#include "kvstore/log/fileio.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fault.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"

static char dir[256];
static int dir_fd;
static int fd;

static void set_up(void)
{
    test_path(dir, sizeof dir, "mqkv-fileio-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(dir_fd, 0);
    fd = fileio->open_at(dir_fd, "file", O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
}

static void tear_down(void)
{
    fault_clear();
    close(fd);
    unlinkat(dir_fd, "file", 0);
    unlinkat(dir_fd, "other", 0);
    close(dir_fd);
    ck_assert_int_eq(rmdir(dir), 0);
}

static off_t file_size(void)
{
    struct stat status;
    ck_assert_int_eq(fstat(fd, &status), 0);
    return status.st_size;
}

START_TEST(reads_stop_at_the_end_of_the_file)
{
    char data[16] = "";
    ck_assert_int_eq(fileio->write_at(fd, "0123456789", 10, 4), 10);
    ck_assert_int_eq(fileio->read_at(fd, data, sizeof data, 8), 6);
    ck_assert_mem_eq(data, "456789", 6);
    ck_assert_int_eq(fileio->read_at(fd, data, sizeof data, 14), 0);
}
END_TEST

START_TEST(descriptors_are_closed_on_exec)
{
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
}
END_TEST

START_TEST(allocation_gives_blocks_and_keeps_contents)
{
    ck_assert_int_eq(fileio->write_at(fd, "kept", 4, 0), 4);
    ck_assert_int_eq(fileio->allocate(fd, 0, 1 << 20), 0);
    ck_assert_int_eq(file_size(), 1 << 20);
    struct stat status;
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_ge(status.st_blocks * 512, 1 << 20);
    char data[8];
    ck_assert_int_eq(fileio->read_at(fd, data, sizeof data, 0), sizeof data);
    ck_assert_mem_eq(data, "kept\0\0\0\0", 8);
    ck_assert_int_eq(fileio->allocate(fd, 0, 10), 0);
    ck_assert_int_eq(file_size(), 1 << 20);
}
END_TEST

START_TEST(mapping_is_shared_with_the_file)
{
    ck_assert_int_eq(fileio->allocate(fd, 0, 8192), 0);
    char *at = fileio->map(8192, PROT_READ | PROT_WRITE, fd);
    ck_assert_ptr_ne(at, MAP_FAILED);
    memcpy(at + 5000, "mapped", 6);
    char data[6];
    ck_assert_int_eq(fileio->read_at(fd, data, sizeof data, 5000), sizeof data);
    ck_assert_mem_eq(data, "mapped", 6);
    ck_assert_int_eq(fileio->unmap(at, 8192), 0);
}
END_TEST

START_TEST(rename_replaces_and_unlink_removes)
{
    int other = fileio->open_at(dir_fd, "other", O_RDWR | O_CREAT, 0600);
    ck_assert_int_ge(other, 0);
    ck_assert_int_eq(fileio->write_at(other, "new", 3, 0), 3);
    ck_assert_int_eq(fileio->sync_data(other), 0);
    close(other);
    ck_assert_int_eq(fileio->rename_at(dir_fd, "other", "file"), 0);
    ck_assert_int_eq(fileio->sync_dir(dir_fd), 0);

    char data[3];
    int renamed = fileio->open_at(dir_fd, "file", O_RDONLY, 0);
    ck_assert_int_eq(fileio->read_at(renamed, data, 3, 0), 3);
    ck_assert_mem_eq(data, "new", 3);
    close(renamed);
    ck_assert_int_eq(fileio->unlink_at(dir_fd, "file"), 0);
    ck_assert_int_eq(fileio->open_at(dir_fd, "file", O_RDONLY, 0), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(errors_are_those_of_the_calls)
{
    char data[4];
    ck_assert_int_eq(fileio->read_at(-1, data, 4, 0), -1);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_eq(fileio->write_at(-1, data, 4, 0), -1);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_eq(fileio->allocate(fd, 0, 0), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_eq(fileio->map(4096, PROT_READ, -1), MAP_FAILED);
    ck_assert_int_eq(fileio->truncate(-1, 0), -1);
    ck_assert_int_eq(fileio->unlink_at(dir_fd, "no such file"), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* The seam itself, on which the fault tests stand. */

START_TEST(fault_hits_just_the_planned_calls)
{
    fault_install(
        &(struct fault_plan){.call = FAULT_WRITE, .nth = 2, .length = 2, .error = ENOSPC});
    ck_assert_int_eq(fileio->write_at(fd, "a", 1, 0), 1);
    ck_assert(!fault_has_fired());
    ck_assert_int_eq(fileio->sync_data(fd), 0);
    for (int i = 0; i < 2; i++) {
        errno = 0;
        ck_assert_int_eq(fileio->write_at(fd, "b", 1, 0), -1);
        ck_assert_int_eq(errno, ENOSPC);
        ck_assert(fault_has_fired());
    }
    ck_assert_int_eq(fileio->write_at(fd, "c", 1, 0), 1);
    ck_assert_uint_eq(fault_calls(FAULT_WRITE), 4);
    ck_assert_uint_eq(fault_calls(FAULT_SYNC_DATA), 1);
    ck_assert_uint_eq(fault_calls(FAULT_ANY), 5);
}
END_TEST

START_TEST(fault_can_write_a_part)
{
    fault_install(
        &(struct fault_plan){.call = FAULT_ANY, .nth = 1, .error = EIO, .written_bytes = 3});
    ck_assert_int_eq(fileio->write_at(fd, "abcdef", 6, 0), -1);
    ck_assert_int_eq(errno, EIO);
    ck_assert_int_eq(file_size(), 3);
    ck_assert_int_eq(fileio->truncate(fd, 0), -1); /* for ever */
    fault_clear();
    ck_assert_int_eq(fileio->truncate(fd, 0), 0);
}
END_TEST

START_TEST(fault_reaches_every_entry)
{
    for (int call = 0; call < FAULT_CALL_COUNT; call++) {
        char data[4];
        ck_assert_int_gt((int)strlen(fault_call_name((enum fault_call)call)), 0);
        fault_install(
            &(struct fault_plan){.call = (enum fault_call)call, .nth = 1, .error = ENOTTY});
        errno = 0;
        switch ((enum fault_call)call) {
        case FAULT_OPEN:
            ck_assert_int_eq(fileio->open_at(dir_fd, "file", O_RDONLY, 0), -1);
            break;
        case FAULT_ALLOCATE:
            ck_assert_int_eq(fileio->allocate(fd, 0, 1), -1);
            break;
        case FAULT_TRUNCATE:
            ck_assert_int_eq(fileio->truncate(fd, 0), -1);
            break;
        case FAULT_READ:
            ck_assert_int_eq(fileio->read_at(fd, data, 1, 0), -1);
            break;
        case FAULT_WRITE:
            ck_assert_int_eq(fileio->write_at(fd, "x", 1, 0), -1);
            break;
        case FAULT_ZERO:
            ck_assert_int_eq(fileio->zero(fd, 1, 0), -1);
            break;
        case FAULT_SYNC_DATA:
            ck_assert_int_eq(fileio->sync_data(fd), -1);
            break;
        case FAULT_SYNC_DIR:
            ck_assert_int_eq(fileio->sync_dir(dir_fd), -1);
            break;
        case FAULT_RENAME:
            ck_assert_int_eq(fileio->rename_at(dir_fd, "file", "other"), -1);
            break;
        case FAULT_EXCHANGE:
            ck_assert_int_eq(fileio->exchange_at(dir_fd, "file", "other"), -1);
            break;
        case FAULT_UNLINK:
            ck_assert_int_eq(fileio->unlink_at(dir_fd, "file"), -1);
            break;
        case FAULT_MAP:
            ck_assert_ptr_eq(fileio->map(4096, PROT_READ, fd), MAP_FAILED);
            break;
        case FAULT_UNMAP:
            ck_assert_int_eq(fileio->unmap(data, 1), -1);
            break;
        case FAULT_POPULATE:
            ck_assert_int_eq(fileio->populate(data, 1), -1);
            break;
        case FAULT_ANY:
            break;
        }
        ck_assert_int_eq(errno, ENOTTY);
        ck_assert_uint_eq(fault_calls(FAULT_ANY), 1);
    }
}
END_TEST

TEST_SUITE(kvstore_fileio)
{
    TCase *tests = tcase_create("fileio");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, reads_stop_at_the_end_of_the_file);
    tcase_add_test(tests, descriptors_are_closed_on_exec);
    tcase_add_test(tests, allocation_gives_blocks_and_keeps_contents);
    tcase_add_test(tests, mapping_is_shared_with_the_file);
    tcase_add_test(tests, rename_replaces_and_unlink_removes);
    tcase_add_test(tests, errors_are_those_of_the_calls);
    tcase_add_test(tests, fault_hits_just_the_planned_calls);
    tcase_add_test(tests, fault_can_write_a_part);
    tcase_add_test(tests, fault_reaches_every_entry);
    suite_add_tcase(suite, tests);
}
