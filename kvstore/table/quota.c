#include "kvstore/table/quota.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct quota_account {
    _Atomic uint64_t max_bytes, max_keys; /* UINT64_MAX: none */
    _Atomic uint64_t bytes, keys, refusals;
};

struct quota_prefix {
    struct kv_slice prefix; /* its own */
    uint32_t number;        /* of the quota */
    uint64_t group;
    struct quota_account *account; /* its own, or that of the first of its group */
};

struct quota_table {
    uint32_t count;
    struct quota_account *accounts; /* by number of the quota */
    struct quota_prefix prefixes[]; /* the longest first */
};

static uint64_t quota_limit(uint64_t most)
{
    return most ? most : UINT64_MAX;
}

/* Which number has the account of that quota: the first of its group. */
static uint32_t leader_of(const struct kvstore_quota *quotas, uint32_t number)
{
    for (uint32_t i = 0; quotas[number].group != 0 && i < number; i++)
        if (quotas[i].group == quotas[number].group)
            return i;
    return number;
}

static void set_limits(struct quota_account *account, const struct kvstore_quota *quota)
{
    atomic_store(&account->max_bytes, quota_limit(quota->max_bytes));
    atomic_store(&account->max_keys, quota_limit(quota->max_keys));
}

static int longest_first(const void *a, const void *b)
{
    const struct quota_prefix *left = a, *right = b;
    return (left->prefix.size < right->prefix.size) - (left->prefix.size > right->prefix.size);
}

struct quota_table *quota_table_create(const struct kvstore_quota *quotas, uint32_t count)
{
    struct quota_table *table = calloc(1, sizeof *table + count * sizeof table->prefixes[0]);
    if (!table)
        return NULL;
    table->accounts = calloc(count + 1, sizeof *table->accounts);
    for (uint32_t i = 0; table->accounts && i < count; i++) {
        struct quota_prefix *entry = &table->prefixes[i];
        char *prefix = malloc(quotas[i].prefix.size + 1);
        if (!prefix)
            break;
        if (quotas[i].prefix.size > 0)
            memcpy(prefix, quotas[i].prefix.data, quotas[i].prefix.size);
        *entry = (struct quota_prefix){.prefix = kv_slice(prefix, quotas[i].prefix.size),
                                       .number = i,
                                       .group = quotas[i].group,
                                       .account = &table->accounts[leader_of(quotas, i)]};
        set_limits(&table->accounts[i], &quotas[i]);
        table->count++;
    }
    if (table->count < count || !table->accounts) {
        quota_table_free(table);
        return NULL;
    }
    qsort(table->prefixes, table->count, sizeof table->prefixes[0], longest_first);
    return table;
}

void quota_table_free(struct quota_table *table)
{
    if (!table)
        return;
    for (uint32_t i = 0; i < table->count; i++)
        free((void *)(uintptr_t)table->prefixes[i].prefix.data);
    free(table->accounts);
    free(table);
}

bool quota_table_take_limits(struct quota_table *table, const struct kvstore_quota *quotas,
                             uint32_t count)
{
    if (count != table->count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct quota_prefix *entry = &table->prefixes[i];
        if (!kv_slice_equal(entry->prefix, quotas[entry->number].prefix) ||
            entry->group != quotas[entry->number].group)
            return false;
    }
    for (uint32_t i = 0; i < count; i++)
        set_limits(&table->accounts[i], &quotas[i]);
    return true;
}

/* NULL: the key counts to none. */
static struct quota_account *account_of(const struct quota_table *table, struct kv_slice key)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct quota_prefix *entry = &table->prefixes[i];
        if (entry->prefix.size <= key.size &&
            memcmp(entry->prefix.data, key.data, entry->prefix.size) == 0)
            return entry->account;
    }
    return NULL;
}

bool quota_table_admits(const struct quota_table *table, struct kv_slice key, bool is_new,
                        uint64_t old_bytes, uint64_t new_bytes)
{
    struct quota_account *account = account_of(table, key);
    if (!account || (!is_new && new_bytes <= old_bytes))
        return true;
    uint64_t bytes = atomic_load_explicit(&account->bytes, memory_order_relaxed);
    uint64_t keys = atomic_load_explicit(&account->keys, memory_order_relaxed);
    if (bytes + (new_bytes - old_bytes) <=
            atomic_load_explicit(&account->max_bytes, memory_order_relaxed) &&
        keys + is_new <= atomic_load_explicit(&account->max_keys, memory_order_relaxed))
        return true;
    atomic_fetch_add_explicit(&account->refusals, 1, memory_order_relaxed);
    return false;
}

void quota_table_charge(const struct quota_table *table, struct kv_slice key, uint64_t bytes,
                        uint64_t keys)
{
    struct quota_account *account = account_of(table, key);
    if (!account)
        return;
    atomic_fetch_add_explicit(&account->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&account->keys, keys, memory_order_relaxed);
}

void quota_table_charge_all(const struct quota_table *table, const struct generation *generation)
{
    struct index_item items[INDEX_SEGMENT_SLOTS];
    uint64_t hash = 0, size_bytes;
    struct record record;
    while (hash < INDEX_HASH_END) {
        size_t found = index_collect(generation->index, hash, items, INDEX_SEGMENT_SLOTS, &hash);
        for (size_t i = 0; i < found; i++) {
            logfile_begin(&generation->log, READ_BUFFER_VISIT);
            if (logfile_parse(&generation->log, READ_BUFFER_VISIT, items[i].offset_bytes, &record,
                              &size_bytes) == RECORD_VALID)
                quota_table_charge(table, record.key, size_bytes, 1);
        }
    }
}

void quota_table_usage(const struct quota_table *table, uint32_t number,
                       struct kvstore_quota_usage *usage)
{
    *usage = (struct kvstore_quota_usage){0};
    for (uint32_t i = 0; i < table->count; i++) {
        const struct quota_account *account = table->prefixes[i].account;
        if (table->prefixes[i].number == number)
            *usage = (struct kvstore_quota_usage){.bytes = atomic_load(&account->bytes),
                                                  .keys = atomic_load(&account->keys),
                                                  .refusals = atomic_load(&account->refusals)};
    }
}
