/*
 * client_settings: the options of a handle, checked and with their defaults filled in. They are
 * constant once clientk_open has returned.
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
    unsigned priority; /* the first one; clientk_set_priority changes that of connections */
    bool repeat_writes;
    bool fail_fast, fail_fast_open;
    bool (*interrupted)(void); /* NULL: nothing interrupts a wait */
    /* Whether the server must have the uid server_uid: the caller said so, or (uid_was_met) the
     * first server had it. */
    bool insists_on_uid, uid_was_met;
    uid_t server_uid;
    enum wire_replies replies;
    enum clientk_direct direct;
    uint32_t direct_stale_ms;
    bool no_segment; /* MQKV_NO_SEGMENT=1: large values go in fragments */
};

/* Returns true if the program wants waits to end now. This function runs code of the program, so it
 * is not for every poll of a queue. */
bool client_settings_interrupted(const struct client_settings *settings);

/* Returns true if a wait until deadline_ms (CLOCK_MONOTONIC) is over, by the clock or by
 * interruption. */
bool client_settings_time_is_over(const struct client_settings *settings, uint64_t deadline_ms);

/* Checks that `priority` is not above the highest. KV_OK; KV_USAGE with the sentence. */
enum kv_status client_settings_check_priority(unsigned priority, struct kv_error *error);

/* Reads *options (NULL: the defaults) and the environment into *settings. KV_OK; KV_USAGE,
 * KV_UNSUPPORTED with the sentence. */
enum kv_status client_settings_read(struct client_settings *settings,
                                    const struct clientk_options *options, struct kv_error *error);

#endif
