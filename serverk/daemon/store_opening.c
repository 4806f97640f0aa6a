#include "serverk/daemon/store_opening.h"

#include "common/report/error.h"
#include "serverk/config/access_rules.h"
#include "serverk/config/lab_seam.h"

struct kvstore_options store_opening(const struct server_options *options)
{
    struct kvstore_options opening = {.datafiles = options->datafiles,
                                      .create = true,
                                      .io = options->io,
                                      .cache_bytes = options->cache_bytes,
                                      .max_bytes = options->max_bytes,
                                      .evict = options->evict,
                                      .ordered = options->ordered,
                                      .quotas = options->access ? options->access->quotas : NULL,
                                      .quota_count =
                                          options->access ? options->access->quota_count : 0,
                                      .durability = options->durability,
                                      .sync_interval_ms = options->sync_interval_ms,
                                      .max_value_bytes = options->max_value_bytes,
                                      .verify_every_read = options->verify_every_read,
                                      .direct = options->direct,
                                      .keep_changes_ms = options->keep_changes_ms,
                                      .keep_changes_bytes = options->keep_changes_bytes,
                                      .keep_newest_log = options->mirror != NULL};
    lab.open_store(options, &opening);
    return opening;
}

enum kv_status store_opening_advise(const struct server_options *options, enum kv_status status,
                                    struct kv_error *error)
{
    if (status != KV_USAGE || *options_text_of(options, "dir"))
        return status;
    const struct kv_error bare = *error;
    return kv_error_set(error, status, "%s, or name another: serverk -f DIR", bare.text);
}
