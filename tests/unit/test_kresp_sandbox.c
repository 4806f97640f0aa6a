/* bridge_sandbox: what libclientk does only now and then it can still do in the sandbox. */
#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bridges/kresp/bridge/bridge_sandbox.h"
#include "tests/support/test_suite.h"
#include "wire/time_slice.h"

#ifndef MQKV_SANITIZER

/* Where other programs keep the CPUs busy: a call that a quiet machine never sees. */
START_TEST(short_turns_may_be_asked_for)
{
    pid_t child = fork();
    if (child == 0) {
        struct kv_error error = {0};
        if (bridge_sandbox_enter("/tmp/no-such.sock", &error) != KV_OK)
            _exit(99);
        time_slice_shorten(); /* what the kernel makes of it does not matter */
        _exit(0);
    }
    int ending = -1;
    ck_assert_int_eq(waitpid(child, &ending, 0), child);
    ck_assert_msg(WIFEXITED(ending), "ended by signal %d", WTERMSIG(ending));
    ck_assert_int_eq(WEXITSTATUS(ending), 0);
}
END_TEST

#endif

TEST_SUITE(kresp_sandbox)
{
    TCase *inside = tcase_create("inside");
#ifndef MQKV_SANITIZER
    tcase_add_test(inside, short_turns_may_be_asked_for);
#endif
    suite_add_tcase(suite, inside);
}
