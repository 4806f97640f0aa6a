/*
 * transaction_parts: the parts of transactions of several files that logs hold, and where logs end
 * since a part is missing: each part names the file that has the next one, around to the first. A
 * log ends before a part without a next one, which may leave others without theirs.
 */
#ifndef MQKV_KVSTORE_TABLE_TRANSACTION_PARTS_H
#define MQKV_KVSTORE_TABLE_TRANSACTION_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transaction_part {
    uint64_t transaction;
    uint64_t begin;     /* offset of its first record */
    uint32_t next_file; /* that has the next part */
};

/* Those of one log, in its order. Numbers ascend, since that of a transaction is given under the
 * locks of its files. Starts from {0}. */
struct transaction_parts {
    struct transaction_part *each;
    size_t count, capacity;
};

/* Adds a part behind all others. False: no memory. */
bool transaction_parts_add(struct transaction_parts *parts, const struct transaction_part *part);

void transaction_parts_free(struct transaction_parts *parts);

struct parted_log {
    const struct transaction_parts *parts;
    bool has_all; /* of every transaction: its end does not move */
    uint64_t end; /* parts from here on do not count */
};

/* Moves the ends of logs, numbered as their files are, before their first parts without a next one,
 * but for those of transactions up to `settled`, until none is left. */
void transaction_parts_end_logs(struct parted_log logs[], uint32_t count, uint64_t settled);

#endif
