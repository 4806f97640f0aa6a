/*
 * one_file_store: for each test of a case a new store of one data file that is not compacted by
 * itself: the test knows where the records are. Beside it a directory for a copy.
 */
#ifndef MQKV_TESTS_SUPPORT_ONE_FILE_STORE_H
#define MQKV_TESTS_SUPPORT_ONE_FILE_STORE_H

#include <check.h>
#include <stdbool.h>

#include "mqkv/kvstore.h"
#include "tests/support/store_case.h"

extern const struct kvstore_options one_file;

/* Of the test, beside dir and store of store_case.h. */
extern char copy_dir[STORE_DIR_BYTES];

void one_file_case_add(TCase *tcase);

/* The files as a kill -9 at this moment would leave them, opened in copy_dir. Nobody writes. */
struct kvstore *open_copy(void);

/* Files that were copied while others wrote, which no kill leaves so: NULL, if a record that was
 * not there yet when its place was copied lies before others that were, and the store is refused as
 * damaged for that. */
struct kvstore *open_copy_under_writers(void);

/* Logs that a compaction replaced and that are kept for who follows changes. */
unsigned past_logs_there(void);

/* Closes the test's store, if it is open, and opens it with these options. */
void must_reopen(const struct kvstore_options *options);

/* Has dir a file of this name? */
bool has_file(const char *name);

/* Puts "key N" with the value "value N/ROUND" for each N below keys; and aborts unless they are
 * there. */
void put_round(int keys, int round);
void check_round(struct kvstore *opened, int keys, int round);

/* Prints the error and aborts on failure. */
void must_compact(void);

#endif
