#include "kvstore/api/store.h"
#include "kvstore/maintenance/order_filler.h"

void kvstore_fork_begin(struct kvstore *store)
{
    lockset_write_lock_all(store->context.locks);
    store->was_forked = true;
}

void kvstore_fork_end(struct kvstore *store)
{
    lockset_write_unlock_all(store->context.locks);
}

void kvstore_fork_in_child(struct kvstore *store)
{
    lockset_renew(store->context.locks);
    if (store->order_filler)
        order_filler_in_child(store->order_filler);
    store->cache = NULL; /* stays as it is: another thread may have been at work in it */
}
