/*
 * order_guard: keeps the order of operations on one key within a message when some of them may be
 * refused for want of room for their value, and are sent again after the others of their message: what
 * would overtake such an operation must wait for the next message.
 */
#ifndef MQKV_CLIENTK_ORDER_GUARD_H
#define MQKV_CLIENTK_ORDER_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/operation.h"

/* A filter of the hashes of the keys of such operations: it may keep apart what need not be. */
struct order_guard {
    uint64_t refusable_keys[16]; /* 1,024 bits; not valid while empty */
    bool refusable_write; /* an EXCHANGE is among them: then reads must not overtake either */
    bool empty;
};

/* For an empty message. */
void order_guard_reset(struct order_guard *guard);

/* True if the operation may join those in the message; then it is noted. */
bool order_guard_admits(struct order_guard *guard, const struct wire_operation *operation);

#endif
