/*
 * test_names: where a test may leave something for a while, so that whoever runs it finds what a
 * failure left: tests/run gives each test a directory (MQKV_TEST_DIR) and a queue name
 * (MQKV_TEST_QUEUE), and removes what is there afterwards.
 */
#ifndef MQKV_TESTS_SUPPORT_TEST_NAMES_H
#define MQKV_TESTS_SUPPORT_TEST_NAMES_H

#include <stddef.h>

/* The path of `name` in $MQKV_TEST_DIR, else in $TMPDIR, else in /tmp. Aborts if it does not
 * fit. */
void test_path(char *path, size_t path_bytes, const char *name);

/* A name for message queues and shared memory, of this process alone: begins with $MQKV_TEST_QUEUE,
 * else with /t. Aborts if it does not fit. */
void test_queue_name(char *name, size_t name_bytes);

#endif
