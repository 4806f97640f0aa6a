#include "serverk/daemon/mirroring.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/report/error.h"
#include "bridges/cluster/mirror/mirror_restore.h"

_Static_assert(MIRROR_REFUSES == WRITE_GATE_CLOSED, "two words for one thing");

#define TOO_FAR_BEHIND                                                                      \
    "the copy of the store in the cluster is further behind than --mirror-lag allows; the " \
    "write was not executed"

enum kv_status mirroring_start(struct service *service, struct kv_error *error)
{
    const struct server_options *options = service->options;
    if (!options->mirror)
        return KV_OK;
    const struct mirror_options mirror = {.dir = options->dir,
                                          .nats = options->nats,
                                          .bound_ms = options->mirror_lag_ms,
                                          .over = options->mirror_over};
    enum kv_status status = mirror_start(&mirror, service->store, &service->mirror, error);
    if (status != KV_OK)
        return status;
    service->mirror_gate = (struct write_gate){
        .hold_up = mirror_hold_up, .context = service->mirror, .sentence = TOO_FAR_BEHIND};
    if (options->mirror_over != MIRROR_OVER_NOTHING)
        service->gate = &service->mirror_gate;
    watchers_also_tell(service->watchers, mirror_note_change, service->mirror);
    return KV_OK;
}

void mirroring_stop(struct service *service)
{
    mirror_stop(service->mirror);
}

void mirroring_free(struct service *service)
{
    mirror_free(service->mirror);
    service->mirror = NULL;
}

enum kv_status mirroring_restore(const struct server_options *options,
                                 const struct kvstore_options *store_options,
                                 struct kv_error *error)
{
    struct mirror_restored restored;
    enum kv_status status = mirror_restore(&options->nats, store_options, options->dir,
                                           options->restore_unfinished, &restored, error);
    if (status == KV_OK)
        printf("store %s: %" PRIu64 " keys restored from bucket %s\n", options->dir, restored.keys,
               options->nats.bucket);
    return status;
}
