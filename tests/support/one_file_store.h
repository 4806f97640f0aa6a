/*
 * one_file_store: for each test of a case a new store of one data file that is not compacted by itself:
 * the test knows where the records are. Beside it a directory for a copy.
 */
#ifndef MQKV_TESTS_SUPPORT_ONE_FILE_STORE_H
#define MQKV_TESTS_SUPPORT_ONE_FILE_STORE_H

#include <check.h>

#include "kvstore/kvstore.h"
#include "tests/support/store_files.h"

extern const struct kvstore_options one_file;

/* Of the test. A test that closes the store sets it to NULL, or to what it opened next. */
extern char dir[STORE_DIR_BYTES];
extern char copy_dir[STORE_DIR_BYTES];
extern struct kvstore *store;

void one_file_case_add(TCase *tcase);

#endif
