#include "serverk/daemon/reload.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/text/suggest.h"
#include "common/time/clock.h"
#include "serverk/config/command_line.h"
#include "serverk/config/settings.h"
#include "serverk/daemon/json_writer.h"
#include "common/report/notify.h"
#include "serverk/daemon/private_files.h"
#include "serverk/daemon/setting_change.h"
#include "serverk/session/audit.h"

#define ORIGIN_BYTES 300u

struct reload {
    struct setting_place place;
    struct access_rules
        *rules;           /* read while the daemon ran; NULL: those of the start are in force */
    pthread_mutex_t lock; /* what follows, and the changes themselves */
    /* Of each option, in the order of the table. The texts are its own, on the heap. */
    struct option_origin in_force[OPTIONS_MAX];
    _Atomic uint64_t last_ms; /* of the last reload, since 1970; 0: there was none */
    atomic_bool last_failed;
};

/* What is in force ----------------------------------------------------------------------------- */

/* False: out of memory. */
static bool keep_origin(struct option_origin *kept, const struct option_origin *origin)
{
    char *text = origin->text ? strdup(origin->text) : NULL;
    if (origin->text && !text)
        return false;
    free((void *)(uintptr_t)kept->text);
    *kept = *origin;
    kept->text = text;
    return true;
}

/* Keeps, of the settings `now`, the one at `index` and those that it stands for. */
static void keep_setting(struct reload *reload, unsigned index, const struct option_origin *now)
{
    const char *name = options_rows[index].name;
    keep_origin(&reload->in_force[index], &now[index]);
    for (unsigned i = 0; options_rows[i].name; i++)
        if (now[i].by && strcmp(now[i].by, name) == 0)
            keep_origin(&reload->in_force[i], &now[i]);
}

enum kv_status reload_create(const struct server_options *options, struct reload **result,
                             struct kv_error *error)
{
    struct reload *reload = calloc(1, sizeof *reload);
    bool kept = reload != NULL;
    if (kept)
        pthread_mutex_init(&reload->lock, NULL);
    for (unsigned i = 0; kept && i < OPTIONS_MAX; i++)
        kept = keep_origin(&reload->in_force[i], &options->origins[i]);
    if (!kept) {
        reload_free(reload);
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    }
    reload->place.started_with = options;
    *result = reload;
    return KV_OK;
}

void reload_serve(struct reload *reload, const struct service *service, struct live_settings *live)
{
    reload->place.service = service;
    reload->place.live = live;
}

void reload_free(struct reload *reload)
{
    if (!reload)
        return;
    for (unsigned i = 0; i < OPTIONS_MAX; i++)
        free((void *)(uintptr_t)reload->in_force[i].text);
    access_rules_free(reload->rules);
    pthread_mutex_destroy(&reload->lock);
    free(reload);
}

/* Signals -------------------------------------------------------------------------------------- */

static const char *reload_log_name(const struct reload *reload)
{
    return reload->in_force[options_index("log")].text;
}

static enum kv_status open_audit_anew(const struct reload *reload, struct kv_error *error)
{
    const char *audit = reload->in_force[options_index("audit")].text;
    enum kv_status status = audit ? audit_open(audit, error) : KV_OK;
    if (status != KV_OK)
        log_error("%s; it goes on where it was", error->text);
    return status;
}

static enum kv_status open_log_anew(const struct reload *reload, struct kv_error *error)
{
    enum kv_status status = log_open(reload_log_name(reload), error);
    if (status == KV_OK)
        log_info("log file opened anew");
    else
        log_error("%s; the log goes on where it was", error->text);
    return status;
}

void reload_log(struct reload *reload)
{
    struct kv_error error; /* the log has it */
    pthread_mutex_lock(&reload->lock);
    open_audit_anew(reload, &error);
    if (reload_log_name(reload))
        open_log_anew(reload, &error);
    else if (!reload->in_force[options_index("audit")].text)
        log_info("SIGUSR1 ignored: the log is standard error");
    pthread_mutex_unlock(&reload->lock);
}

static const char *or_default(const char *text)
{
    return text ? text : "the default";
}

static enum kv_status follow_change(struct reload *reload, const struct changed_setting *change,
                                    const struct server_options *now, struct kv_error *error)
{
    struct kv_error reason = {0};
    const char *was = or_default(change->before), *is = or_default(change->now);
    unsigned index = options_index(change->name);
    enum kv_status status = setting_change(&reload->place, change->name, now, &reason);
    if (status == KV_OK) {
        log_info("%s is now %s (it was %s)", change->name, is, was);
        keep_setting(reload, index, now->origins);
        return KV_OK;
    }
    if (status == KV_UNSUPPORTED)
        kv_error_set(error, status, "%s stays %s: that it is to be %s takes a restart%s%s",
                     change->name, was, is, reason.text[0] ? ": " : "", reason.text);
    else
        kv_error_set(error, status, "%s stays %s: %s", change->name, was, reason.text);
    if (status == KV_UNSUPPORTED)
        log_warn("%s", error->text);
    else
        log_error("%s", error->text);
    return status;
}

/* Users and quotas ----------------------------------------------------------------------------- */

/* Sessions that came before there were rules for their user get an account; those of users for whom
 * there is no section end. */
struct rule_change {
    const struct service *service;
    unsigned ended;
};

static bool follow_rules(void *context, struct session *session)
{
    struct rule_change *change = context;
    struct access_user *user;
    struct kv_error error;
    bool reads_only = session->assignment.queue == LANE_PLAN_READ_LANE;
    if (access_enter(change->service->access, session->uid, reads_only, &user, &error) != KV_OK) {
        session_end(change->service->sessions, session, SESSION_KILLED);
        change->ended++;
    } else if (user) {
        atomic_store(&session->access, user);
    }
    return true;
}

/* What else than rules lets users read. */
static enum kv_status close_other_ways(const struct reload *reload,
                                       const struct access_rules *rules, struct kv_error *error)
{
    const struct server_options *options = reload->place.started_with;
    if (!access_rules_restrict(rules) ||
        access_rules_restrict(reload->place.service->access->rules))
        return KV_OK;
    if (options->direct == KVSTORE_DIRECT_GROUP)
        return kv_error_set(error, KV_UNSUPPORTED,
                            "with --direct group members of the group read all keys in place: "
                            "that takes a restart");
    return private_files_make(options->dir, error);
}

/* Puts the rules into effect, for the sessions that there are too; the caller's if that fails.
 * Holds: lock. */
static enum kv_status take_rules(struct reload *reload, struct access_rules *rules,
                                 struct kv_error *error)
{
    const struct service *service = reload->place.service;
    struct rule_change change = {.service = service};
    KV_ASSERT(mutex_is_held(&reload->lock));
    enum kv_status status = close_other_ways(reload, rules, error);
    if (status == KV_OK && service->store)
        status = kvstore_set_quotas(service->store, rules ? rules->quotas : NULL,
                                    rules ? rules->quota_count : 0, error);
    if (status != KV_OK)
        return status;
    pthread_mutex_lock(&service->access->lock);
    access_replace(service->access, rules);
    session_each(service->sessions, follow_rules, &change);
    pthread_mutex_unlock(&service->access->lock);
    access_rules_free(reload->rules);
    reload->rules = rules;
    log_info("%u sections about users and %u quotas are in force now; %u sessions of users without "
             "a section have ended",
             rules ? rules->rule_count : 0, rules ? rules->quota_count : 0, change.ended);
    return KV_OK;
}

/* Takes them out of *now if they are others than those in force. Holds: lock. */
static enum kv_status follow_rule_change(struct reload *reload, struct server_options *now,
                                         struct kv_error *error)
{
    const struct access_rules *in_force = reload->place.service->access->rules;
    if (strcmp(access_rules_text(in_force), access_rules_text(now->access)) == 0 &&
        access_rules_same_users(in_force, now->access))
        return KV_OK;
    enum kv_status status = take_rules(reload, now->access, error);
    if (status == KV_OK)
        now->access = NULL;
    else
        log_error("the sections about users and quotas stay as they were: %s", error->text);
    return status;
}

/* What went wrong first, and how often, while the rest was done. */
struct failures {
    enum kv_status first;
    struct kv_error *error; /* the first */
    unsigned more;
};

/* error: of that status; another one than failures->error. */
static void add_failure(struct failures *failures, enum kv_status status,
                        const struct kv_error *error)
{
    if (status == KV_OK)
        return;
    if (failures->first != KV_OK) {
        failures->more++;
        return;
    }
    failures->first = status;
    *failures->error = *error;
}

/* Options that only the command line has do not change. */
static enum kv_status read_again(struct reload *reload, struct kv_error *error)
{
    struct server_options now;
    unsigned next = 0;
    struct changed_setting change;
    struct kv_error failure = {0};
    struct failures failures = {.first = KV_OK, .error = error};
    add_failure(&failures, open_audit_anew(reload, &failure), &failure);
    if (reload_log_name(reload))
        add_failure(&failures, open_log_anew(reload, &failure), &failure);
    access_rules_remember(reload->place.service->access->rules);
    if (!reload->place.started_with->config) {
        log_info("SIGHUP: there is no configuration file to read again (-c); settings stay");
        return failures.first;
    }
    enum options_outcome outcome =
        command_line_parse_again(reload->place.started_with, &now, &failure);
    access_rules_remember(NULL);
    if (outcome != OPTIONS_RUN) {
        log_error("SIGHUP: nothing was changed: %s", failure.text);
        options_free(&now);
        *error = failure;
        return KV_USAGE;
    }
    while (settings_next_change(reload->in_force, now.origins, &next, &change))
        add_failure(&failures, follow_change(reload, &change, &now, &failure), &failure);
    add_failure(&failures, follow_rule_change(reload, &now, &failure), &failure);
    log_info("SIGHUP: %s was read again", now.config);
    options_free(&now);
    if (failures.more == 0)
        return failures.first;
    failure = *error;
    return kv_error_set(error, failures.first, "%s (and %u more: see the log)", failure.text,
                        failures.more);
}

enum kv_status reload_all(struct reload *reload, struct kv_error *error)
{
    char text[64]; /* with the time, as Type=notify-reload needs it */
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
             clock_monotonic_ns() / 1000);
    notify_send(text);
    pthread_mutex_lock(&reload->lock);
    enum kv_status status = read_again(reload, error);
    pthread_mutex_unlock(&reload->lock);
    atomic_store(&reload->last_failed, status != KV_OK);
    atomic_store(&reload->last_ms, clock_realtime_ms());
    notify_send("READY=1");
    return status;
}

bool reload_last(const struct reload *reload, uint64_t *when_ms)
{
    *when_ms = atomic_load(&reload->last_ms);
    return !atomic_load(&reload->last_failed);
}

bool reload_is_under_way(struct reload *reload)
{
    if (pthread_mutex_trylock(&reload->lock) != 0)
        return true;
    pthread_mutex_unlock(&reload->lock);
    return false;
}

/* The owner's changes -------------------------------------------------------------------------- */

static enum kv_status refuse_name(const char *name, struct kv_error *error)
{
    struct suggestion suggestion = SUGGESTION_NONE;
    for (const struct option_row *row = options_rows; row->name; row++)
        if (row->section)
            suggest_consider(&suggestion, name, row->name);
    return kv_error_set(error, KV_USAGE, "there is no setting '%.40s'%s%s%s", name,
                        suggestion.name ? "; did you mean '" : "",
                        suggestion.name ? suggestion.name : "", suggestion.name ? "'?" : "");
}

/* Holds: lock. */
static enum kv_status set(struct reload *reload, const struct option_row *row,
                          const struct option_origin *origin, struct kv_error *error)
{
    static const struct option_origin none;
    struct option_origin wanted[OPTIONS_MAX];
    unsigned index = (unsigned)(row - options_rows);
    struct server_options now;
    struct kv_error reason = {0};
    KV_ASSERT(mutex_is_held(&reload->lock));
    for (unsigned i = 0; i < OPTIONS_MAX; i++)
        wanted[i] = reload->in_force[i].by ? none : reload->in_force[i];
    wanted[index] = *origin;
    if (command_line_take(wanted, &now, error) != OPTIONS_RUN)
        return KV_USAGE;
    enum kv_status status = setting_change(&reload->place, row->name, &now, &reason);
    if (status == KV_UNSUPPORTED)
        return kv_error_set(error, status,
                            "%s cannot change while the daemon runs%s%s; change it in the "
                            "configuration file or the command line and restart the daemon",
                            row->name, reason.text[0] ? ": " : "", reason.text);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s", reason.text);
    const struct option_origin *kept = &reload->in_force[index];
    struct kv_slice was = kept->text ? kv_slice_from_string(kept->text) : settings_default(row);
    log_info("%s is now %s (it was %.*s): clientk config set", row->name, origin->text,
             (int)was.size, (const char *)was.data);
    keep_setting(reload, index, now.origins);
    return KV_OK;
}

enum kv_status reload_set(struct reload *reload, const char *name, const char *value,
                          struct kv_error *error)
{
    const struct option_row *row = options_find(name);
    const struct option_origin origin = {.text = value, .is_set = true};
    if (!row)
        return refuse_name(name, error);
    pthread_mutex_lock(&reload->lock);
    enum kv_status status = set(reload, row, &origin, error);
    pthread_mutex_unlock(&reload->lock);
    return status;
}

/* What is in force, for people: with its unit, and 0 with what it means. */
static struct kv_slice value_in_force(const struct reload *reload, const struct option_row *row,
                                      const struct option_origin *origin,
                                      char text[SETTINGS_VALUE_BYTES])
{
    if (!origin->text && strcmp(row->name, "datafiles") == 0) {
        snprintf(text, SETTINGS_VALUE_BYTES, "%" PRIu32,
                 engine_datafiles(reload->place.service->engine));
        return kv_slice_from_string(text);
    }
    struct kv_slice value = origin->text
                                ? settings_value(row, origin->text, text)
                                : settings_effective_default(reload->place.started_with, row, text);
    return kv_slice_equal(value, kv_slice_from_string("0")) ? kv_slice_from_string("0: none")
                                                            : value;
}

static void print_setting(const struct reload *reload, struct json *json,
                          const struct option_row *row)
{
    char where[ORIGIN_BYTES], text[SETTINGS_VALUE_BYTES];
    const struct option_origin *origin = &reload->in_force[row - options_rows];
    settings_describe_origin(origin, where, sizeof where);
    json_begin_element(json);
    json_open_object(json);
    json_put_text(json, "name", row->name);
    json_put_bytes(json, "value", value_in_force(reload, row, origin, text));
    json_put_text(json, "origin", where);
    json_put_flag(json, "live", setting_can_change(&reload->place, row->name));
    json_close_object(json);
}

enum kv_status reload_print(struct reload *reload, const char *name, FILE *stream,
                            struct kv_error *error)
{
    struct json json = {.stream = stream};
    if (name && !options_find(name))
        return refuse_name(name, error);
    pthread_mutex_lock(&reload->lock);
    json_open_array(&json);
    for (const struct option_row *row = options_rows; row->name; row++)
        if (row->section && (!name || strcmp(row->name, name) == 0))
            print_setting(reload, &json, row);
    json_close_array(&json);
    pthread_mutex_unlock(&reload->lock);
    return KV_OK;
}
