#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/written_file.h"
#include "tests/support/skip.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"

static char path[256], precious[256];

static void begin(void)
{
    test_path(path, sizeof path, "written");
    test_path(precious, sizeof precious, "precious");
    unlink(path);
    unlink(precious);
    int fd = open(precious, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void end(void)
{
    if (strncmp(path, "/dev/", 5) != 0)
        unlink(path);
    unlink(precious);
}

/* What opening it to append, and looking at it beforehand, come to: both the same. */
static enum kv_status opened(bool must_be_regular, const char *sentence)
{
    struct kv_error error = {0}, foreseen = {0};
    const struct written_file file = {
        .path = path, .noun = "log file", .must_be_regular = must_be_regular, .mode = 0640};
    int fd;
    enum kv_status checked = written_file_check(&file, &foreseen);
    enum kv_status status = written_file_open(&file, O_WRONLY | O_APPEND, &fd, &error);
    ck_assert_int_eq(checked, status);
    if (status == KV_OK)
        close(fd);
    else
        ck_assert_msg(strstr(error.text, sentence) && strstr(foreseen.text, sentence) &&
                          strstr(error.text, path),
                      "%s; %s", error.text, foreseen.text);
    return status;
}

/* Containers have their daemons log there. */
START_TEST(a_link_of_root_is_followed)
{
    struct stat facts;
    if (stat("/dev/stderr", &facts) != 0 || S_ISSOCK(facts.st_mode))
        SKIP_TEST("nothing that can be opened is standard error");
    snprintf(path, sizeof path, "/dev/stderr");
    ck_assert_int_eq(opened(false, ""), KV_OK);
}
END_TEST

START_TEST(a_file_is_made_and_appended_to)
{
    struct stat facts;
    umask(022);
    ck_assert_int_eq(opened(true, ""), KV_OK);
    ck_assert_int_eq(stat(path, &facts), 0);
    ck_assert_int_eq(facts.st_mode & 07777, 0640);
    ck_assert_int_eq(opened(true, ""), KV_OK);
}
END_TEST

START_TEST(links_are_not_followed)
{
    struct stat facts;
    ck_assert_int_eq(symlink(precious, path), 0);
    ck_assert_int_eq(opened(false, "symbolic link"), KV_DENIED);
    unlink(precious);
    ck_assert_int_eq(opened(false, "symbolic link"), KV_DENIED);
    ck_assert_int_ne(stat(precious, &facts), 0);
}
END_TEST

START_TEST(a_second_name_is_not_written_to)
{
    ck_assert_int_eq(link(precious, path), 0);
    ck_assert_int_eq(opened(false, "second name"), KV_DENIED);
}
END_TEST

START_TEST(a_fifo_keeps_nobody_waiting)
{
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(reader, 0);
    ck_assert_int_eq(opened(false, ""), KV_OK);
    ck_assert_int_eq(opened(true, "not a regular file"), KV_IO);
    close(reader);
}
END_TEST

START_TEST(a_directory_that_is_not_there_is_named)
{
    strcat(path, "/no/file");
    ck_assert_int_ne(opened(false, "No such file or directory"), KV_OK);
}
END_TEST

START_TEST(a_device_is_nobodys)
{
    strcpy(path, "/dev/null");
    ck_assert_int_eq(opened(false, ""), KV_OK);
    strcpy(path, "/nowhere/at/all"); /* what the end removes */
}
END_TEST

TEST_SUITE(common_written_file)
{
    TCase *kinds = tcase_create("kinds");
    tcase_add_checked_fixture(kinds, begin, end);
    tcase_add_test(kinds, a_file_is_made_and_appended_to);
    tcase_add_test(kinds, a_link_of_root_is_followed);
    tcase_add_test(kinds, links_are_not_followed);
    tcase_add_test(kinds, a_second_name_is_not_written_to);
    tcase_add_test(kinds, a_fifo_keeps_nobody_waiting);
    tcase_add_test(kinds, a_directory_that_is_not_there_is_named);
    tcase_add_test(kinds, a_device_is_nobodys);
    suite_add_tcase(suite, kinds);
}
