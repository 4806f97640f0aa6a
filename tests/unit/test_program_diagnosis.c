/* diagnosis: the commands that mend what doctor finds do something. */
#include "tools/ops/diagnosis.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clientk/program/cli/json_reader.h"
#include "tests/support/test_suite.h"

#define FEW_BYTES 10000u /* of queues, for a user */

static struct diagnosis diagnosis;

static void make_diagnosis(void)
{
    diagnosis = (struct diagnosis){.stream = fopen("/dev/null", "we")};
    ck_assert_ptr_nonnull(diagnosis.stream);
}

static void close_diagnosis(void)
{
    fclose(diagnosis.stream);
}

/* Of a session of another user, whose process is this one. */
static void look_at_session_of(unsigned uid)
{
    char text[160];
    int size = snprintf(text, sizeof text,
                        "{\"each\":[{\"uid\":%u,\"pid\":%d,"
                        "\"credits\":2,\"reply_bytes\":8192}]}",
                        uid, (int)getpid());
    struct json_value *sessions = json_parse(text, (size_t)size);
    ck_assert_ptr_nonnull(sessions);
    doctor_check_users(&diagnosis, sessions);
    json_free(sessions);
}

START_TEST(a_user_without_queue_bytes_gets_a_line_of_limits_conf)
{
    char expected[64];
    struct rlimit before;
    unsigned other = (unsigned)geteuid() + 1;
    ck_assert_int_eq(getrlimit(RLIMIT_MSGQUEUE, &before), 0);
    struct rlimit few = {FEW_BYTES, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_MSGQUEUE, &few), 0);
    look_at_session_of(other);
    setrlimit(RLIMIT_MSGQUEUE, &before);
    ck_assert_uint_eq(diagnosis.fix_count, 1);
    snprintf(expected, sizeof expected, "echo ':%u - msgqueue ", other);
    ck_assert_ptr_nonnull(strstr(diagnosis.fixes[0].command, expected));
}
END_TEST

TEST_SUITE(program_diagnosis)
{
    TCase *fixes = tcase_create("fixes");
    tcase_add_checked_fixture(fixes, make_diagnosis, close_diagnosis);
    tcase_add_test(fixes, a_user_without_queue_bytes_gets_a_line_of_limits_conf);
    suite_add_tcase(suite, fixes);
}
