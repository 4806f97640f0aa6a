#include "serverk/dispatch/dispatch.h"

#include "lab/dispatch/request_processes.h"
#include "lab/dispatch/request_threads.h"

/* Makes the feed of the pool; NULL: its workers handle messages themselves. */
typedef enum kv_status (*feed_maker)(const struct service *service, struct pool_feed *feed,
                                     struct kv_error *error);

static const feed_maker makers[DISPATCH_MODELS] = {
    [DISPATCH_POOL] = NULL,
    [DISPATCH_EVENT] = NULL,
    [DISPATCH_THREAD] = request_threads_create,
    [DISPATCH_PROCESS] = request_processes_create,
};

enum kv_status dispatch_start(const struct service *service, struct pool **pool,
                              struct kv_error *error)
{
    struct pool_feed feed = {0};
    feed_maker make = makers[service->options->dispatch];
    enum kv_status status = make ? make(service, &feed, error) : KV_OK;
    return status == KV_OK ? pool_start(service, &feed, pool, error) : status;
}
