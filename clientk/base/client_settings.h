/*
 * client_settings: the options of a handle, checked and with their defaults filled in. Constant
 * once clientk_open has returned.
 */
#ifndef MQKV_CLIENTK_BASE_CLIENT_SETTINGS_H
#define MQKV_CLIENTK_BASE_CLIENT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/clientk.h"
#include "mqkv/error.h"
#include "wire/queue.h"
#include "wire/reply_ring.h"
#include "wire/wait.h"

struct client_settings {
    char queue[WIRE_QUEUE_NAME_BYTES];
    uint32_t timeout_ms;
    struct wire_spin spin;
    uint32_t combine_above;
    uint32_t combine_groups;
    unsigned priority; /* at first; clientk_set_priority changes that of connections */
    bool repeat_writes;
    bool fail_fast, fail_fast_open;
    bool (*interrupted)(void); /* NULL: calls wait until their timeout */
    /* The uid that the server must have: the caller asked for it, or the first server had it. */
    bool insists_on_uid, uid_was_met;
    uid_t server_uid;
    enum wire_replies replies;
    enum clientk_direct direct;
    uint32_t direct_stale_ms;
    bool no_segment; /* MQKV_NO_SEGMENT=1: large values go in fragments */
};

/* Whether the program wants waits to end now. It runs the program's own code, so it is not to be
 * called for every poll of a queue. */
bool client_settings_interrupted(const struct client_settings *settings);

/* Whether a wait until deadline_ms (CLOCK_MONOTONIC) is over, by the clock or by interruption. */
bool client_settings_time_is_over(const struct client_settings *settings, uint64_t deadline_ms);

/* KV_OK, or KV_USAGE and the sentence if it is above the highest. */
enum kv_status client_settings_check_priority(unsigned priority, struct kv_error *error);

/* options may be NULL. KV_OK or KV_USAGE. */
enum kv_status client_settings_read(struct client_settings *settings,
                                    const struct clientk_options *options, struct kv_error *error);

#endif
