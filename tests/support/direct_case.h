/*
 * direct_case: a reader without messages (clientk/direct) of a handmade store, between begin and
 * end; the test's own process stands for the daemon.
 */
#ifndef MQKV_TESTS_SUPPORT_DIRECT_CASE_H
#define MQKV_TESTS_SUPPORT_DIRECT_CASE_H

#include <stdint.h>
#include <sys/types.h>

#include "clientk/direct/direct.h"
#include "tests/support/handmade_store.h"

/* From begin to end. */
extern struct handmade_store made;
extern struct direct direct;
extern struct direct_reader reader;

void direct_case_begin(enum clientk_direct mode, uint32_t datafiles, uint32_t stale_ms);
void direct_case_end(void);

/* One data file, which is not read on after its daemon. */
void direct_case_begin_mapped(void);
void direct_case_begin_pread(void);

/* The offer of a daemon that is the process of that pid; of another user than this one. */
void direct_case_offer(pid_t pid, uint64_t instance);
void direct_case_offer_of(uid_t uid, pid_t pid, uint64_t instance);

/* The value of the key is that text; NULL: it is absent. */
void assert_read(const char *key, const char *expected);

/* The key cannot be read without a message. */
void assert_asks(const char *key);

void direct_case_put(const char *key, const char *value);

/* "key0", "key1", ..., each with "value" and its number. */
#define DIRECT_CASE_KEYS 600
void direct_case_put_keys(void);
void assert_keys(void);

#endif
