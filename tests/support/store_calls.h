/*
 * store_calls: kvstore's calls as tests use them most: with text for keys and values, and ending
 * the test where something that is not under test fails.
 */
#ifndef MQKV_TESTS_SUPPORT_STORE_CALLS_H
#define MQKV_TESTS_SUPPORT_STORE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "mqkv/kvstore.h"

/* Opens the store, creating it if the options say so. Prints the error and aborts on failure. */
struct kvstore *must_open(const char *dir, const struct kvstore_options *options);
void must_close(struct kvstore *store);

/* Puts without options; aborts on failure. Gives the version. */
uint64_t must_put(struct kvstore *store, const char *key, const char *value);

/* The ticket of the same. */
struct kvstore_ticket must_put_for_ticket(struct kvstore *store, const char *key,
                                          const char *value);

/* The value as text in a buffer of the calling thread, until its next call; NULL if the key is not
 * there. Aborts on any other status. */
const char *get_text(struct kvstore *store, const char *key);

/* The status of a get that wants only the entry. */
enum kv_status get_entry(struct kvstore *store, const char *key, struct kvstore_entry *entry);

/* "key 17": in a buffer of the calling thread, until its next call. */
const char *numbered(const char *what, int number);

/* Puts "key N" with the value "value N" for from <= N < to; and
 * aborts unless they are there. */
void must_put_numbers(struct kvstore *store, int from, int to);
void check_numbers(struct kvstore *store, int from, int to);

/* Sums over all data files. */
struct kvstore_file_statistics total_statistics(struct kvstore *store);

/* Calls holds(context) every few milliseconds until it is true; false after half a minute. */
bool wait_until(bool (*holds)(void *context), void *context);

#endif
