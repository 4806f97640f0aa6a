/*
 * skip: a unit test that cannot test here says so, instead of passing.
 */
#ifndef MQKV_TESTS_SUPPORT_SKIP_H
#define MQKV_TESTS_SUPPORT_SKIP_H

/* Ends the test (a START_TEST function) as skipped, for a reason in a few words. tests/run counts
 * it as skipped, not as passed, and names it in its summary. What the test opened must be closed
 * before. */
#define SKIP_TEST(reason)                \
    do {                                 \
        skip_tell(__func__, _i, reason); \
        return;                          \
    } while (0)

/* Prints "skip - TEST: REASON". function: Check's name of the test, with "_fn" at its end; index:
 * of a loop test. */
void skip_tell(const char *function, int index, const char *reason);

#endif
