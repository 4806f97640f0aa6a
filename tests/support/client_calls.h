/*
 * client_calls: clientk's calls as tests use them most: with text for keys and values, and ending
 * the test where something that is not under test fails.
 */
#ifndef MQKV_TESTS_SUPPORT_CLIENT_CALLS_H
#define MQKV_TESTS_SUPPORT_CLIENT_CALLS_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

#include "mqkv/clientk.h"

/* Fails the test, with the library's sentence, if the status is another. */
#define assert_status(call, expected)                                                 \
    do {                                                                              \
        enum kv_status status_of_call = (call);                                       \
        ck_assert_msg(status_of_call == (expected), "%s gave %s, not %s (%s)", #call, \
                      kv_status_name(status_of_call), kv_status_name(expected),       \
                      clientk_last_error());                                          \
    } while (0)

struct clientk *must_connect(const char *queue);
struct clientk *must_connect_with(const struct clientk_options *options);

void must_put_text(struct clientk *client, const char *key, const char *value);

/* The entry has exactly this text as its value. */
void assert_text(struct clientk *client, const char *key, const char *expected);

/* Bytes in which every offset and every seed shows. Free with free. */
char *patterned_bytes(size_t size, unsigned seed);

#endif
