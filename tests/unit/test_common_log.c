#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/report/log.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"

#define CAPTURE_BYTES 65536

static int captured_fd, real_stderr_fd;

/* stderr goes to an unlinked file while a test runs. */
static void capture_stderr(void)
{
    char path[256];
    test_path(path, sizeof path, "mqkv-test-log.XXXXXX");
    captured_fd = mkostemp(path, O_CLOEXEC | O_APPEND);
    ck_assert_int_ge(captured_fd, 0);
    unlink(path);
    real_stderr_fd = dup(STDERR_FILENO);
    dup2(captured_fd, STDERR_FILENO);
}

static void release_stderr(void)
{
    dup2(real_stderr_fd, STDERR_FILENO);
    close(real_stderr_fd);
    close(captured_fd);
}

/* What was logged so far. */
static const char *captured(void)
{
    static char text[CAPTURE_BYTES];
    ssize_t size = pread(captured_fd, text, sizeof text - 1, 0);
    ck_assert_int_ge(size, 0);
    text[size] = '\0';
    return text;
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t regex;
    ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    ck_assert_msg(regexec(&regex, text, 0, NULL, 0) == 0, "\"%s\" is not of the form %s", text,
                  pattern);
    regfree(&regex);
}

START_TEST(a_line_has_a_stamp_a_level_and_the_message)
{
    log_warn("queue %s has %d messages", "/q", 3);
    assert_matches(captured(), "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                               "WARN queue /q has 3 messages\n$");
}
END_TEST

START_TEST(the_stamp_is_now_in_utc)
{
    time_t before = time(NULL);
    log_info("x");
    time_t after = time(NULL);
    struct tm parts = {0};
    ck_assert_ptr_nonnull(strptime(captured(), "%Y-%m-%dT%H:%M:%S", &parts));
    time_t stamp = timegm(&parts);
    ck_assert_int_ge(stamp, before - 1);
    ck_assert_int_le(stamp, after + 1);
}
END_TEST

/* Reads what the pipe holds, without waiting for more. */
static const char *drained(int pipe_end)
{
    static char text[2 * CAPTURE_BYTES];
    ssize_t size = read(pipe_end, text, sizeof text - 1);
    ck_assert_int_gt(size, 0);
    text[size] = '\0';
    return text;
}

START_TEST(a_pipe_that_nobody_reads_makes_nobody_wait)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    char page[4096];
    memset(page, '-', sizeof page);
    while (write(ends[1], page, sizeof page) > 0)
        continue;
    ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0); /* writing to it would sleep from here on */
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    log_info("the first");
    log_info("the second");
    ck_assert_ptr_null(strstr(drained(ends[0]), "the"));
    log_info("the third");
    const char *text = drained(ends[0]);
    assert_matches(text, "^[^ ]+ WARN 2 lines dropped before this one: [a-z ]*\n"
                         "[^ ]+ INFO the third\n$");
    log_info("the fourth");
    assert_matches(drained(ends[0]), "^[^ ]+ INFO the fourth\n$");
    close(ends[0]);
}
END_TEST

START_TEST(levels_above_the_limit_are_dropped)
{
    log_debug("dropped by default");
    ck_assert_str_eq(captured(), "");
    log_set_level(LOG_LEVEL_ERROR);
    log_warn("dropped");
    log_info("dropped");
    ck_assert_str_eq(captured(), "");
    log_error("kept");
    assert_matches(captured(), "^[^ ]+ ERROR kept\n$");
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("kept");
    assert_matches(captured(), "ERROR kept\n[^ ]+ DEBUG kept\n$");
}
END_TEST

START_TEST(a_message_can_not_forge_a_line_or_steer_a_terminal)
{
    log_info("key a\nb\r\x1b[31mc\x7f");
    assert_matches(captured(), "^[^ ]+ INFO key a\\?b\\?\\?\\[31mc\\?\n$");
}
END_TEST

START_TEST(a_long_message_is_cut_with_dots)
{
    char message[3000];
    memset(message, 'x', sizeof message - 1);
    message[sizeof message - 1] = '\0';
    log_info("%s", message);
    size_t size = strlen(captured());
    ck_assert_uint_le(size, 1024);
    ck_assert_str_eq(captured() + size - 6, "xx...\n");
}
END_TEST

START_TEST(errno_is_kept)
{
    close(STDERR_FILENO);
    errno = ENOENT;
    log_error("nobody hears this");
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

#define LINES_A_THREAD 100

static void *log_lines(void *argument)
{
    for (int i = 0; i < LINES_A_THREAD; i++)
        log_info("%s", (const char *)argument);
    return NULL;
}

START_TEST(lines_of_threads_do_not_mix)
{
    pthread_t threads[2];
    char first[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         second[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    pthread_create(&threads[0], NULL, log_lines, first);
    pthread_create(&threads[1], NULL, log_lines, second);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    int lines = 0;
    char *position = NULL;
    static char copy[CAPTURE_BYTES];
    snprintf(copy, sizeof copy, "%s", captured());
    for (char *line = strtok_r(copy, "\n", &position); line;
         line = strtok_r(NULL, "\n", &position)) {
        assert_matches(line, "^[^ ]+ INFO (a{32}|b{32})$");
        lines++;
    }
    ck_assert_int_eq(lines, 2 * LINES_A_THREAD);
}
END_TEST

TEST_SUITE(common_log)
{
    TCase *tests = tcase_create("log");
    tcase_add_checked_fixture(tests, capture_stderr, release_stderr);
    tcase_add_test(tests, a_line_has_a_stamp_a_level_and_the_message);
    tcase_add_test(tests, the_stamp_is_now_in_utc);
    tcase_add_test(tests, levels_above_the_limit_are_dropped);
    tcase_add_test(tests, a_message_can_not_forge_a_line_or_steer_a_terminal);
    tcase_add_test(tests, a_long_message_is_cut_with_dots);
    tcase_add_test(tests, errno_is_kept);
    tcase_add_test(tests, lines_of_threads_do_not_mix);
    tcase_add_test(tests, a_pipe_that_nobody_reads_makes_nobody_wait);
    suite_add_tcase(suite, tests);
}
