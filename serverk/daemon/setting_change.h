/*
 * setting_change: what a changed setting means for a running daemon.
 *
 * Threads: one change at a time.
 */
#ifndef MQKV_SERVERK_DAEMON_SETTING_CHANGE_H
#define MQKV_SERVERK_DAEMON_SETTING_CHANGE_H

#include <stdbool.h>

#include "mqkv/error.h"
#include "serverk/config/live_settings.h"
#include "serverk/config/options.h"
#include "serverk/dispatch/service.h"

/* The daemon whose settings change: what it was started with, its parts, and the settings that its
 * threads look at; all borrowed. */
struct setting_place {
    const struct server_options *started_with;
    const struct service *service;
    struct live_settings *live;
};

/* Returns whether the setting of that name changes in this daemon while it runs, at least from some
 * values to others. */
bool setting_can_change(const struct setting_place *place, const char *name);

/* Puts the setting `name` of `now` into effect at the place. KV_UNSUPPORTED, with the reason as the
 * sentence, or "": it takes a restart; KV_IO, ...: it could not be done, and is as it was. */
enum kv_status setting_change(const struct setting_place *place, const char *name,
                              const struct server_options *now, struct kv_error *error);

#endif
