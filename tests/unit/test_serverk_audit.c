#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/log.h"
#include "common/time/clock.h"
#include "serverk/session/audit.h"
#include "tests/support/test_names.h"
#include "tests/support/test_suite.h"

static char audit_path[256], log_path[256];

static void begin(void)
{
    struct kv_error error;
    test_path(audit_path, sizeof audit_path, "audit.log");
    test_path(log_path, sizeof log_path, "daemon.log");
    unlink(audit_path);
    unlink(log_path);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(log_open(log_path, &error), KV_OK);
    ck_assert_int_eq(audit_open(audit_path, &error), KV_OK);
}

static void end(void)
{
    unlink(audit_path);
    unlink(log_path);
}

static off_t size_of(const char *path)
{
    struct stat facts;
    ck_assert_int_eq(stat(path, &facts), 0);
    return facts.st_size;
}

/* Files of this process may grow up to so many bytes, as if the disk were full then. */
static void let_files_grow_to(off_t size)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = size < 0 ? limit.rlim_max : (rlim_t)size;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static const char *text_of(const char *path)
{
    static char text[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    ck_assert_int_ge(size, 0);
    close(fd);
    text[size] = '\0';
    return text;
}

/* Each line is an object from its first to its last byte. Returns how many there are. */
static unsigned whole_lines(const char *text)
{
    unsigned lines = 0;
    while (*text) {
        size_t size = strcspn(text, "\n");
        ck_assert_msg(size > 2 && text[size] == '\n' && strncmp(text, "{\"time\":", 8) == 0 &&
                          text[size - 1] == '}' && !memmem(text + 1, size - 1, "{\"time\":", 8),
                      "a torn line: %.*s", (int)size, text);
        lines++;
        text += size + 1;
    }
    return lines;
}

START_TEST(a_full_disk_tears_no_line_and_is_told)
{
    audit_ended(1, 7, 8, "bye");
    let_files_grow_to(size_of(audit_path) + 20); /* the log may grow as little */
    audit_ended(2, 7, 8, "bye");                 /* torn, for now */
    audit_ended(3, 7, 8, "bye");
    audit_ended(4, 7, 8, "bye");
    ck_assert_uint_eq(audit_lost_records(), 2);
    let_files_grow_to(-1);
    audit_ended(5, 7, 8, "bye");
    const char *text = text_of(audit_path);
    ck_assert_uint_eq(whole_lines(text), 4);
    ck_assert_ptr_nonnull(strstr(text, "\"session\":2,"));
    ck_assert_ptr_null(strstr(text, "\"session\":3,"));
    ck_assert_ptr_nonnull(strstr(text, "\"event\":\"lost\",\"records\":2}"));
    ck_assert_ptr_nonnull(strstr(text, "\"session\":5,"));
    ck_assert_uint_eq(audit_lost_records(), 2);
}
END_TEST

START_TEST(the_log_tells_of_the_first_lost_record_and_of_the_end)
{
    const int lost = 100;
    let_files_grow_to(4096);
    ck_assert_int_eq(truncate(audit_path, 4096), 0);
    for (int i = 0; i < lost; i++)
        audit_ended(1, 7, 8, "bye");
    ck_assert_uint_eq(audit_lost_records(), lost);
    let_files_grow_to(-1);
    audit_ended(2, 7, 8, "bye");
    const char *text = text_of(log_path);
    const char *first = strstr(text, "takes no record");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(strstr(first + 1, "takes no record"));
    ck_assert_ptr_nonnull(strstr(first, "it lacks 100 records"));
}
END_TEST

START_TEST(what_is_torn_when_the_file_is_opened_anew_counts_as_lost)
{
    char renamed[300];
    struct kv_error error;
    snprintf(renamed, sizeof renamed, "%s.1", audit_path);
    let_files_grow_to(size_of(audit_path) + 20);
    audit_ended(1, 7, 8, "bye");
    ck_assert_uint_eq(audit_lost_records(), 0);
    ck_assert_int_eq(rename(audit_path, renamed), 0);
    ck_assert_int_eq(audit_open(audit_path, &error), KV_OK);
    ck_assert_uint_eq(audit_lost_records(), 1);
    let_files_grow_to(-1);
    audit_ended(2, 7, 8, "bye");
    const char *text = text_of(audit_path);
    ck_assert_uint_eq(whole_lines(text), 2);
    ck_assert_ptr_nonnull(strstr(text, "\"records\":1}"));
    unlink(renamed);
}
END_TEST

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

/* Of a user that begins sessions without end only so many are written, and how many were not; of
 * others all are. */
START_TEST(who_comes_and_goes_does_not_fill_the_disk)
{
    unsigned written = 0, tried = 20 * AUDIT_SESSIONS_BURST;
    pid_t pid = getpid();
    for (unsigned i = 0; i < tried; i++)
        written += audit_opened(i, 40001, pid);
    ck_assert_uint_ge(written, AUDIT_SESSIONS_BURST);
    ck_assert_uint_lt(written, tried / 2);
    ck_assert(audit_opened(tried, 40002, pid));
    while (!audit_opened(++tried, 40001, pid))
        clock_sleep_ms(1);
    char *text = malloc((size_t)size_of(audit_path) + 1);
    FILE *file = fopen(audit_path, "re");
    size_t size = fread(text, 1, (size_t)size_of(audit_path), file);
    fclose(file);
    text[size] = '\0';
    ck_assert_uint_eq(count_of(text, "\"uid\":40001,"), written + 1);
    ck_assert_uint_eq(count_of(text, "\"uid\":40002,"), 1);
    ck_assert_ptr_nonnull(strstr(text, "\"left_out\":"));
    free(text);
}
END_TEST

TEST_SUITE(serverk_audit)
{
    TCase *full = tcase_create("full");
    tcase_add_checked_fixture(full, begin, end);
    tcase_add_test(full, a_full_disk_tears_no_line_and_is_told);
    tcase_add_test(full, who_comes_and_goes_does_not_fill_the_disk);
    tcase_add_test(full, the_log_tells_of_the_first_lost_record_and_of_the_end);
    tcase_add_test(full, what_is_torn_when_the_file_is_opened_anew_counts_as_lost);
    suite_add_tcase(suite, full);
}
