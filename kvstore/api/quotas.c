#include "kvstore/api/quotas.h"

#include "common/report/error.h"
#include "kvstore/core/thread.h"
#include "kvstore/table/quota.h"

/* A table that the files are to charge. */
struct quota_change {
    struct kvstore *store;
    struct quota_table *table; /* NULL: none */
};

/* Only writers look at share.quotas, and they are kept out; readers are not. */
static enum kv_status change_file(void *argument, uint32_t number, struct kv_error *error)
{
    const struct quota_change *change = argument;
    struct lockset *locks = change->store->context.locks;
    struct datafile *file = &change->store->context.files[number];
    (void)error;
    lockset_read_lock(locks, number);
    if (change->table)
        quota_table_charge_all(change->table, file->current);
    file->share.quotas = change->table;
    lockset_read_unlock(locks, number);
    return KV_OK;
}

static enum kv_status make_quota_table(const struct kvstore *store,
                                       const struct kvstore_quota *quotas, uint32_t count,
                                       struct quota_table **table, struct kv_error *error)
{
    *table = count > 0 ? quota_table_create(quotas, count) : NULL;
    return *table || count == 0
               ? KV_OK
               : kv_error_set(error, KV_NO_MEMORY, "%s: no memory for quotas", store->context.dir);
}

enum kv_status quotas_begin(struct kvstore *store, struct kv_error *error)
{
    const struct kvstore_options *options = &store->context.options;
    struct quota_change change = {.store = store};
    enum kv_status status =
        make_quota_table(store, options->quotas, options->quota_count, &change.table, error);
    store->quotas = change.table;
    if (!change.table)
        return status;
    return thread_run_parallel(store->context.datafiles, change_file, &change, error);
}

enum kv_status kvstore_set_quotas(struct kvstore *store, const struct kvstore_quota *quotas,
                                  uint32_t count, struct kv_error *error)
{
    struct quota_change change = {.store = store};
    if (count > KVSTORE_MAX_QUOTAS)
        return kv_error_set(error, KV_USAGE, "%u quotas: there can be %u at most", count,
                            KVSTORE_MAX_QUOTAS);
    if (store->quotas && quota_table_take_limits(store->quotas, quotas, count))
        return KV_OK;
    enum kv_status status = make_quota_table(store, quotas, count, &change.table, error);
    if (status != KV_OK)
        return status;
    for (uint32_t number = 0; number < store->context.datafiles; number++)
        change_file(&change, number, NULL);
    pthread_mutex_lock(&store->quota_lock);
    struct quota_table *before = store->quotas;
    store->quotas = change.table;
    pthread_mutex_unlock(&store->quota_lock);
    quota_table_free(before);
    return KV_OK;
}

void kvstore_quota_usage(struct kvstore *store, uint32_t number, struct kvstore_quota_usage *usage)
{
    *usage = (struct kvstore_quota_usage){0};
    pthread_mutex_lock(&store->quota_lock);
    if (store->quotas)
        quota_table_usage(store->quotas, number, usage);
    pthread_mutex_unlock(&store->quota_lock);
}
