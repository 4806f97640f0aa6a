#include "serverk/daemon/reload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "serverk/config/settings.h"
#include "serverk/daemon/notify.h"

struct reload {
    struct server_options seen; /* as the file was when it was read last */
    bool is_own;                /* not those that the daemon was started with */
};

enum kv_status reload_create(const struct server_options *options, struct reload **result,
                             struct kv_error *error)
{
    *result = malloc(sizeof **result);
    if (!*result)
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    **result = (struct reload){.seen = *options};
    return KV_OK;
}

void reload_free(struct reload *reload)
{
    if (reload && reload->is_own)
        options_free(&reload->seen);
    free(reload);
}

void reload_log(struct reload *reload)
{
    struct kv_error error;
    if (!reload->seen.log)
        log_info("SIGUSR1 ignored: the log is standard error");
    else if (log_open(reload->seen.log, &error) == KV_OK)
        log_info("log file opened anew");
    else
        log_error("%s; the log goes on where it was", error.text);
}

static void set_level(const struct server_options *options)
{
    log_set_level(options->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
}

static const char *or_default(const char *text)
{
    return text ? text : "the default";
}

enum follow { FOLLOWED, FAILED, NEEDS_RESTART };

/* What a running daemon makes of the change; *error says what failed. */
static enum follow follow_change(const char *name, const struct server_options *now,
                                 struct kv_error *error)
{
    if (strcmp(name, "verbose") == 0) {
        set_level(now);
        return FOLLOWED;
    }
    if (strcmp(name, "log") != 0 || !now->log)
        return NEEDS_RESTART;
    return log_open(now->log, error) == KV_OK ? FOLLOWED : FAILED;
}

static void compare(const struct server_options *before, const struct server_options *now)
{
    unsigned next = 0;
    struct changed_setting change;
    struct kv_error error;
    while (settings_next_change(before, now, &next, &change)) {
        const char *was = or_default(change.before);
        switch (follow_change(change.name, now, &error)) {
        case FOLLOWED:
            log_info("%s is now %s (it was %s)", change.name, or_default(change.now), was);
            break;
        case FAILED:
            log_error("%s; the log goes on where it was", error.text);
            break;
        case NEEDS_RESTART:
            log_warn("%s stays %s: that it is to be %s takes a restart", change.name, was,
                     or_default(change.now));
        }
    }
}

/* RELOADING=1 with the time, as Type=notify-reload needs it. */
static void tell_reloading(void)
{
    char text[64];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
             clock_monotonic_ns() / 1000);
    notify_send(text);
}

static void read_again(struct reload *reload)
{
    struct kv_error error;
    struct server_options now;
    if (reload->seen.log)
        reload_log(reload);
    if (!reload->seen.config) {
        log_info("SIGHUP: there is no configuration file to read again (-c)");
        return;
    }
    if (options_parse_again(&reload->seen, &now, &error) != OPTIONS_RUN) {
        log_error("SIGHUP: nothing was changed: %s", error.text);
        options_free(&now);
        return;
    }
    compare(&reload->seen, &now);
    if (reload->is_own)
        options_free(&reload->seen);
    reload->seen = now;
    reload->is_own = true;
    log_info("SIGHUP: %s was read again", now.config);
}

void reload_all(struct reload *reload)
{
    tell_reloading();
    read_again(reload);
    notify_send("READY=1");
}
