#include "clientk/base/client_settings.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/text/parse.h"
#include "common/memory/reserved.h"
#include "wire/message.h"

#define DEFAULT_COMBINE_ABOVE  8u
#define DEFAULT_COMBINE_GROUPS 3u
#define MAX_SESSIONS           128u /* there are 256 queues in all, by default */

/* Returns the value of the environment variable `name`; NULL: it is not set, or empty. */
static const char *environment_value(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static enum kv_status settings_read_session_counts(struct client_settings *settings,
                                                   const struct clientk_options *options,
                                                   struct kv_error *error)
{
    settings->combine_above =
        options->combine_above ? options->combine_above : DEFAULT_COMBINE_ABOVE;
    settings->combine_groups =
        options->combine_groups ? options->combine_groups : DEFAULT_COMBINE_GROUPS;
    if (settings->combine_above > MAX_SESSIONS || settings->combine_groups > MAX_SESSIONS)
        return kv_error_set(error, KV_USAGE,
                            "combine_above %u and combine_groups %u: each must be at most %u",
                            settings->combine_above, settings->combine_groups, MAX_SESSIONS);
    return KV_OK;
}

bool client_settings_interrupted(const struct client_settings *settings)
{
    return settings->interrupted && settings->interrupted();
}

bool client_settings_time_is_over(const struct client_settings *settings, uint64_t deadline_ms)
{
    return clock_monotonic_coarse_ms() >= deadline_ms || client_settings_interrupted(settings);
}

enum kv_status client_settings_check_priority(unsigned priority, struct kv_error *error)
{
    if (priority <= WIRE_MAX_PRIORITY)
        return KV_OK;
    return kv_error_set(error, KV_USAGE, "priority %u: it must be 0 to %u", priority,
                        WIRE_MAX_PRIORITY);
}

/* Finds the uid of the user `name`. False: no user has that name. */
static bool uid_of_name(const char *name, uid_t *uid)
{
    char buffer[4096];
    struct passwd entry, *found = NULL;
    if (getpwnam_r(name, &entry, buffer, sizeof buffer, &found) != 0 || !found)
        return false;
    *uid = entry.pw_uid;
    return true;
}

static enum kv_status settings_read_server_uid(struct client_settings *settings,
                                               const struct clientk_options *options,
                                               struct kv_error *error)
{
    const char *text =
        options->server_uid ? options->server_uid : environment_value("MQKV_SERVER_UID");
    uint64_t number;
    if (!text)
        return KV_OK;
    settings->insists_on_uid = true;
    if (parse_u64(text, 0, UINT32_MAX - 1, &number))
        settings->server_uid = (uid_t)number;
    else if (!uid_of_name(text, &settings->server_uid))
        return kv_error_set(
            error, KV_USAGE,
            "server uid \"%.40s\": it must be a number or the name of a user of this "
            "machine",
            text);
    return KV_OK;
}

static enum kv_status settings_read_replies(struct client_settings *settings,
                                            const struct clientk_options *options,
                                            struct kv_error *error)
{
    const char *text = options->replies ? options->replies : environment_value("MQKV_REPLIES");
    for (int replies = 0; replies < WIRE_REPLIES_CHOICES; replies++) { /* no text: the first */
        if (text && strcmp(text, wire_replies_name(replies)) != 0)
            continue;
        settings->replies = (enum wire_replies)replies;
        return KV_OK;
    }
    return kv_error_set(error, KV_USAGE, "replies \"%.40s\": it must be auto, queue or shared",
                        text);
}

static enum kv_status settings_read_direct(struct client_settings *settings,
                                           const struct clientk_options *options,
                                           struct kv_error *error)
{
    static const char *const names[] = {[CLIENTK_DIRECT_AUTO] = "auto",
                                        [CLIENTK_DIRECT_OFF] = "off",
                                        [CLIENTK_DIRECT_MAP] = "map",
                                        [CLIENTK_DIRECT_PREAD] = "pread"};
    const unsigned count = sizeof names / sizeof names[0];
    settings->direct = options->direct;
    settings->direct_stale_ms = options->direct_stale_ms;
    if ((unsigned)options->direct >= count)
        return kv_error_set(error, KV_USAGE, "direct %u: it must be one of enum clientk_direct",
                            (unsigned)options->direct);
    const char *text = environment_value("MQKV_DIRECT");
    if (options->direct != CLIENTK_DIRECT_AUTO || !text)
        return KV_OK;
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            settings->direct = (enum clientk_direct)i;
            return KV_OK;
        }
    }
    return kv_error_set(error, KV_USAGE,
                        "MQKV_DIRECT \"%.40s\": it must be auto, off, map or pread", text);
}

enum kv_status client_settings_read(struct client_settings *settings,
                                    const struct clientk_options *options, struct kv_error *error)
{
    static const struct clientk_options defaults;
    if (!options)
        options = &defaults;
    *settings = (struct client_settings){
        .timeout_ms = options->timeout_ms ? options->timeout_ms : CLIENTK_DEFAULT_TIMEOUT_MS,
        .priority = options->priority,
        .interrupted = options->interrupted,
        .repeat_writes = options->repeat_writes,
        .fail_fast = options->fail_fast,
        .fail_fast_open = options->fail_fast_open};

    if (!RESERVED_IS_CLEAR(options->reserved))
        return kv_error_set(error, KV_UNSUPPORTED, RESERVED_ADVICE);
    const char *queue = options->queue ? options->queue : environment_value("MQKV_QUEUE");
    if (!queue)
        queue = CLIENTK_DEFAULT_QUEUE;
    if (!wire_name_valid(queue))
        return kv_error_set(error, KV_USAGE,
                            "queue name \"%.80s\": it must be one '/' and then 1 to 64 of "
                            "letters, digits, '.', '_', '-'",
                            queue);
    snprintf(settings->queue, sizeof settings->queue, "%s", queue);

    if (settings_read_server_uid(settings, options, error) != KV_OK ||
        settings_read_direct(settings, options, error) != KV_OK)
        return KV_USAGE;
    const char *spin = options->spin ? options->spin : "auto";
    if (!wire_spin_parse(spin, &settings->spin))
        return kv_error_set(error, KV_USAGE,
                            "spin \"%.40s\": it must be auto, off or 1 to 100000 (microseconds)",
                            spin);
    if (client_settings_check_priority(settings->priority, error) != KV_OK ||
        settings_read_replies(settings, options, error) != KV_OK)
        return KV_USAGE;
    const char *no_segment = environment_value("MQKV_NO_SEGMENT");
    settings->no_segment = no_segment && strcmp(no_segment, "0") != 0;
    return settings_read_session_counts(settings, options, error);
}
