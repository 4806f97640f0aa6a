/*
 * asked_transaction: a transaction of kvstore as tests put it together, with text for keys and
 * values, and what it has answered.
 */
#ifndef MQKV_TESTS_SUPPORT_ASKED_TRANSACTION_H
#define MQKV_TESTS_SUPPORT_ASKED_TRANSACTION_H

#include <stdint.h>

#include "mqkv/kvstore.h"

#define ASKED_MOST        (KVSTORE_MAX_TRANSACTION_STEPS + 1u)
#define ASKED_VALUE_BYTES 64u

/* From {0}. The texts that it is given must live as long as it. */
struct asked_transaction {
    struct kvstore_guard guards[ASKED_MOST];
    struct kvstore_step then[ASKED_MOST], otherwise[ASKED_MOST];
    struct kvstore_transaction asked;
    struct kvstore_step_result results[ASKED_MOST];
    struct kvstore_transacted told;
    char values[ASKED_MOST][ASKED_VALUE_BYTES]; /* of GET, as text */
};

/* Add a guard or a step; its other fields are 0 and may be filled in. value NULL: none. */
struct kvstore_guard *asked_guard(struct asked_transaction *asked, enum kvstore_guard_kind kind,
                                  const char *key);
struct kvstore_step *asked_then(struct asked_transaction *asked, enum kvstore_step_kind kind,
                                const char *key, const char *value);
struct kvstore_step *asked_otherwise(struct asked_transaction *asked, enum kvstore_step_kind kind,
                                     const char *key, const char *value);

/* Asks the store. May be called again: the answers are those of the last call. */
enum kv_status asked_do(struct asked_transaction *asked, struct kvstore *store);

#endif
