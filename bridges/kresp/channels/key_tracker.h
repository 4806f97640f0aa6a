/*
 * key_tracker: what one client has asked to be told of changed keys (CLIENT TRACKING), and what it
 * is told.
 *
 * Threads: that of its client.
 */
#ifndef MQKV_KRESP_CHANNELS_KEY_TRACKER_H
#define MQKV_KRESP_CHANNELS_KEY_TRACKER_H

#include "bridges/kresp/channels/tracking_table.h"

enum tracking_mode {
    TRACKING_ON = 1 << 0,
    TRACKING_BROADCAST = 1 << 1, /* told by prefixes, else of what it has read */
    TRACKING_OPTIN = 1 << 2,     /* only what it reads right behind CLIENT CACHING YES */
    TRACKING_OPTOUT = 1 << 3,    /* all but what it reads right behind CLIENT CACHING NO */
    TRACKING_NOLOOP = 1 << 4     /* not told of what it has changed itself */
};

struct own_write;

struct key_tracker {
    struct tracking_table *table;
    struct tracked_client client;
    unsigned mode;                /* of enum tracking_mode; 0: off */
    bool is_told_caching;         /* CLIENT CACHING counts for the next command, or transaction */
    struct own_write *own_writes; /* with NOLOOP */
};

/* Makes a tracker that is off. The others outlive it; its memory is counted to owner. */
void key_tracker_init(struct key_tracker *tracker, struct tracking_table *table,
                      struct redis_inbox *inbox, struct tracking_share *share,
                      struct buffer_owner *owner);

/* Turns it on, or changes the mode, but for BROADCAST, which must be as it was. False: no
 * memory. */
bool key_tracker_start(struct key_tracker *tracker, unsigned mode);

/* Turns it off; forgets everything. */
void key_tracker_stop(struct key_tracker *tracker);

/* Returns true if the client is to be told of what it reads now. */
static inline bool key_tracker_wants_reads(const struct key_tracker *tracker)
{
    unsigned mode = tracker->mode;
    if (!(mode & TRACKING_ON) || (mode & TRACKING_BROADCAST))
        return false;
    return mode & TRACKING_OPTIN    ? tracker->is_told_caching
           : mode & TRACKING_OPTOUT ? !tracker->is_told_caching
                                    : true;
}

/* The client has written the key, which got this version. */
void key_tracker_note_write(struct key_tracker *tracker, struct kv_slice key, uint64_t version);

/* Writes what the client is to be told behind its replies. No key that it has read must be without
 * its reply. */
void key_tracker_take(struct key_tracker *tracker, struct resp_reply *reply);

#endif
