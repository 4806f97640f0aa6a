/*
 * store_case: a directory for each test of a case, and the store in it, for tests of the engine.
 */
#ifndef MQKV_TESTS_SUPPORT_STORE_CASE_H
#define MQKV_TESTS_SUPPORT_STORE_CASE_H

#include <check.h>

#include "kvstore/api/store.h"
#include "tests/support/store_files.h"

/* Of the test. What it leaves open in `store` is closed at its end, and injected faults are
 * cleared: a test that closes the store sets it to NULL, or to what it opened next. */
extern char dir[STORE_DIR_BYTES];
extern struct kvstore *store;

/* Each test gets an empty directory. */
void store_case_add(TCase *tcase);

/* A new store is open there, too. */
void store_case_add_open(TCase *tcase);

#endif
