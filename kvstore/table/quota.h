/*
 * quota: how many bytes and keys the entries with one prefix have in a store, and the most they may
 * have. A key counts to the longest prefix that it begins with, and to no other; prefixes of one
 * group share an account. While a store is open a quota table may be replaced by another one, file
 * by file: each data file points at the table that it charges.
 *
 * Threads: any; calls about a key hold the lock of its file for writing. A table is freed when no
 * file points at it.
 */
#ifndef MQKV_KVSTORE_TABLE_QUOTA_H
#define MQKV_KVSTORE_TABLE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "kvstore/table/generation.h"

struct quota_table;

/* NULL: out of memory. The quotas are copied. */
struct quota_table *quota_table_create(const struct kvstore_quota *quotas, uint32_t count);

/* NULL is harmless. */
void quota_table_free(struct quota_table *table);

/* If `quotas` have the table's prefixes, in the same groups and order: takes their limits. */
bool quota_table_take_limits(struct quota_table *table, const struct kvstore_quota *quotas,
                             uint32_t count);

/* Returns true if a write may make the entry of `key` one of new_bytes, where there is one of
 * old_bytes unless is_new; a refusal is counted. Exact, except for writes to other files at the
 * same moment. */
bool quota_table_admits(const struct quota_table *table, struct kv_slice key, bool is_new,
                        uint64_t old_bytes, uint64_t new_bytes);

/* Adds `bytes` and `keys`, modulo 2^64, to the account of `key`: a sum may become less. */
void quota_table_charge(const struct quota_table *table, struct kv_slice key, uint64_t bytes,
                        uint64_t keys);

/* Charges all entries of `generation`, whose file's lock the caller holds, at least for reading. A
 * record that cannot be read is charged to nobody. */
void quota_table_charge_all(const struct quota_table *table, const struct generation *generation);

/* What the quota `number` has used: all of its group. */
void quota_table_usage(const struct quota_table *table, uint32_t number,
                       struct kvstore_quota_usage *usage);

#endif
