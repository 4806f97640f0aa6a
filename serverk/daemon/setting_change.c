#include "serverk/daemon/setting_change.h"

#include <string.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "serverk/session/audit.h"

/* Puts the option of `now` into effect. KV_UNSUPPORTED, with the reason as the sentence: it takes a
 * restart. */
typedef enum kv_status (*change_function)(const struct setting_place *place,
                                          const struct server_options *now, struct kv_error *error);

static enum kv_status change_level(const struct setting_place *place,
                                   const struct server_options *now, struct kv_error *error)
{
    (void)place, (void)error;
    log_set_level(now->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
    return KV_OK;
}

/* The sandbox allows the directories of the files that there were at the start. */
static bool is_shut_out(const struct setting_place *place, const char *file_at_start)
{
    return !file_at_start && place->started_with->sandbox;
}

static enum kv_status change_log(const struct setting_place *place,
                                 const struct server_options *now, struct kv_error *error)
{
    if (!now->log)
        return kv_error_set(error, KV_UNSUPPORTED, "standard error may be gone");
    if (is_shut_out(place, place->started_with->log))
        return kv_error_set(
            error, KV_UNSUPPORTED,
            "the sandbox has no directory for it since there was none at the start");
    struct kv_error failure;
    enum kv_status status = log_open(now->log, &failure);
    return status == KV_OK
               ? KV_OK
               : kv_error_set(error, status, "%s; the log goes on where it was%s", failure.text,
                              status == KV_DENIED ? " (the sandbox allows its old directory only)"
                                                  : "");
}

static enum kv_status change_sync(const struct setting_place *place,
                                  const struct server_options *now, struct kv_error *error)
{
    if (!place->service->store)
        return kv_error_set(error, KV_UNSUPPORTED, "the store is elsewhere");
    enum kv_status status =
        kvstore_set_sync(place->service->store, now->durability, now->sync_interval_ms);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s", kv_status_text(status));
    atomic_store(&place->live->sync_interval_ms, now->sync_interval_ms);
    atomic_store(&place->live->durability, (unsigned)now->durability);
    return KV_OK;
}

/* Entries that are too many make room before it returns, where there is eviction. */
static enum kv_status change_max_bytes(const struct setting_place *place,
                                       const struct server_options *now, struct kv_error *error)
{
    if (!place->service->store || place->started_with->max_bytes == 0 || now->max_bytes == 0)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "a bound can become another while the daemon runs, but not come or go");
    return kvstore_set_max_bytes(place->service->store, now->max_bytes, error);
}

static enum kv_status change_as_cache(const struct setting_place *place,
                                      const struct server_options *now, struct kv_error *error)
{
    if (place->started_with->as_cache_bytes == 0 || now->as_cache_bytes == 0)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "a cache can become larger or smaller while the daemon runs, but not "
                            "come or go");
    return change_max_bytes(place, now, error);
}

/* Buffers are as large as the start had it. */
static enum kv_status change_max_value(const struct setting_place *place,
                                       const struct server_options *now, struct kv_error *error)
{
    uint32_t most = place->started_with->max_value_bytes;
    if (!place->service->store)
        return kv_error_set(error, KV_UNSUPPORTED, "the store is elsewhere");
    if (now->max_value_bytes > most)
        return kv_error_set(error, KV_UNSUPPORTED, "the daemon was started for at most %u bytes",
                            most);
    atomic_store(&place->live->max_value_bytes, now->max_value_bytes);
    return kvstore_set_max_value_bytes(place->service->store, now->max_value_bytes);
}

static bool end_unless_admitted(void *context, struct session *session)
{
    struct session_table *sessions = context;
    bool is_reader = session->assignment.queue == LANE_PLAN_READ_LANE;
    if (!is_reader && !session_table_admits(sessions, session->uid))
        session_end(sessions, session, SESSION_KILLED);
    return true;
}

static enum kv_status change_mode(const struct setting_place *place,
                                  const struct server_options *now, struct kv_error *error)
{
    const struct service *service = place->service;
    enum kv_status status = lanes_set_mode(service->lanes, now->mode, now->group, error);
    if (status == KV_OK)
        session_each(service->sessions, end_unless_admitted, service->sessions);
    return status;
}

static enum kv_status change_slow(const struct setting_place *place,
                                  const struct server_options *now, struct kv_error *error)
{
    (void)error;
    request_notes_set_slow(place->service->notes, now->slow_ms);
    return KV_OK;
}

static enum kv_status change_audit(const struct setting_place *place,
                                   const struct server_options *now, struct kv_error *error)
{
    if (now->audit && is_shut_out(place, place->started_with->audit))
        return kv_error_set(
            error, KV_UNSUPPORTED,
            "the sandbox has no directory for it since there was none at the start");
    return audit_open(now->audit, error);
}

/* What changes in a running daemon. */
static const struct {
    const char *name;
    change_function change;
} live_options[] = {
    {"verbose", change_level},       {"log", change_log},    {"sync", change_sync},
    {"max-value", change_max_value}, {"mode", change_mode},  {"slow", change_slow},
    {"audit", change_audit},         {"group", change_mode}, {"max-bytes", change_max_bytes},
    {"as-cache", change_as_cache},
};

static change_function change_of(const char *name)
{
    for (size_t i = 0; i < sizeof live_options / sizeof live_options[0]; i++)
        if (strcmp(name, live_options[i].name) == 0)
            return live_options[i].change;
    return NULL;
}

bool setting_can_change(const struct setting_place *place, const char *name)
{
    const struct server_options *start = place->started_with;
    if ((strcmp(name, "log") == 0 && is_shut_out(place, start->log)) ||
        (strcmp(name, "audit") == 0 && is_shut_out(place, start->audit)))
        return false;
    return change_of(name) != NULL;
}

enum kv_status setting_change(const struct setting_place *place, const char *name,
                              const struct server_options *now, struct kv_error *error)
{
    change_function change = change_of(name);
    if (!change)
        return kv_error_set(error, KV_UNSUPPORTED, "%s", "");
    return change(place, now, error);
}
