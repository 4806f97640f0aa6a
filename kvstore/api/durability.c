/* Waiting for writes to be on disk. */
#include "kvstore/api/store.h"
#include "kvstore/sync/sync.h"

void kvstore_request_sync(struct kvstore *store, struct kvstore_ticket ticket)
{
    if (store->sync && ticket.position != 0 && ticket.file < store->context.datafiles)
        sync_request(store->sync, ticket);
}

bool kvstore_is_durable(const struct kvstore *store, struct kvstore_ticket ticket)
{
    if (!store->sync || ticket.position == 0)
        return true;
    return ticket.file < store->context.datafiles && sync_is_durable(store->sync, ticket);
}

enum kv_status kvstore_wait_durable(struct kvstore *store, struct kvstore_ticket ticket)
{
    if (kvstore_is_durable(store, ticket))
        return KV_OK;
    if (ticket.file >= store->context.datafiles)
        return KV_BAD_REQUEST;
    return sync_wait(store->sync, ticket);
}

void kvstore_set_sync_listener(struct kvstore *store, kvstore_sync_listener listener, void *context)
{
    if (store->sync)
        sync_set_listener(store->sync, listener, context);
}

enum kv_status kvstore_set_sync(struct kvstore *store, enum kvstore_durability durability,
                                uint32_t interval_ms)
{
    struct kvstore_options *options = &store->context.options;
    if ((unsigned)durability > KVSTORE_SYNC_ALWAYS)
        return KV_USAGE;
    if (interval_ms != 0)
        __atomic_store_n(&options->sync_interval_ms, interval_ms, __ATOMIC_RELAXED);
    __atomic_store_n(&options->durability, durability, __ATOMIC_RELAXED);
    if (store->sync)
        sync_hasten(store->sync);
    return KV_OK;
}

static struct kvstore_ticket latest_ticket(const struct kvstore *store, uint32_t number)
{
    struct kvstore_ticket ticket = {number,
                                    atomic_load(&store->context.files[number].appended_bytes)};
    return ticket;
}

enum kv_status kvstore_sync(struct kvstore *store)
{
    if (!store->sync)
        return KV_OK;
    /* All are asked for first, so that they run in parallel. */
    for (uint32_t number = 0; number < store->context.datafiles; number++)
        if (!kvstore_is_durable(store, latest_ticket(store, number)))
            kvstore_request_sync(store, latest_ticket(store, number));
    enum kv_status first_failure = KV_OK;
    for (uint32_t number = 0; number < store->context.datafiles; number++) {
        enum kv_status status = kvstore_wait_durable(store, latest_ticket(store, number));
        if (first_failure == KV_OK)
            first_failure = status;
    }
    return first_failure;
}
