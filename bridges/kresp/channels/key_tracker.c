#include "bridges/kresp/channels/key_tracker.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The last writes of the client, each in the place that its hash names: a write that has lost its
 * place to a later one is told, which is no harm. */
#define OWN_WRITES 2048u

struct own_write {
    uint64_t hash, version;
};

static struct own_write own_write_of(struct kv_slice key, uint64_t version)
{
    return (struct own_write){.hash = XXH3_64bits_withSeed(key.data, key.size, version),
                              .version = version};
}

void key_tracker_init(struct key_tracker *tracker, struct tracking_table *table,
                      struct redis_inbox *inbox, struct tracking_share *share,
                      struct buffer_owner *owner)
{
    *tracker = (struct key_tracker){.table = table};
    tracked_client_init(&tracker->client, inbox, share, owner);
}

static void forget_own_writes(struct key_tracker *tracker)
{
    if (tracker->own_writes)
        buffer_owner_give_back(tracker->client.untold.owner,
                               OWN_WRITES * sizeof *tracker->own_writes);
    free(tracker->own_writes);
    tracker->own_writes = NULL;
}

static bool make_own_writes(struct key_tracker *tracker)
{
    size_t bytes = OWN_WRITES * sizeof *tracker->own_writes;
    if (tracker->own_writes)
        return true;
    if (!buffer_owner_take(tracker->client.untold.owner, bytes))
        return false;
    tracker->own_writes = calloc(OWN_WRITES, sizeof *tracker->own_writes);
    if (!tracker->own_writes)
        buffer_owner_give_back(tracker->client.untold.owner, bytes);
    return tracker->own_writes != NULL;
}

bool key_tracker_start(struct key_tracker *tracker, unsigned mode)
{
    if (mode & TRACKING_NOLOOP) {
        if (!make_own_writes(tracker))
            return false;
    } else {
        forget_own_writes(tracker);
    }
    if (!tracker->mode)
        tracking_table_enter(tracker->table, &tracker->client, mode & TRACKING_BROADCAST);
    tracker->mode = mode | TRACKING_ON;
    tracker->is_told_caching = false;
    return true;
}

void key_tracker_stop(struct key_tracker *tracker)
{
    tracking_table_leave(tracker->table, &tracker->client);
    forget_own_writes(tracker);
    tracker->mode = 0;
    tracker->is_told_caching = false;
}

void key_tracker_note_write(struct key_tracker *tracker, struct kv_slice key, uint64_t version)
{
    if (!tracker->own_writes || version == 0)
        return;
    struct own_write write = own_write_of(key, version);
    tracker->own_writes[write.hash % OWN_WRITES] = write;
}

static bool is_own(const struct key_tracker *tracker, struct kv_slice key, uint64_t version)
{
    if (!tracker->own_writes || version == 0)
        return false;
    struct own_write write = own_write_of(key, version);
    const struct own_write *noted = &tracker->own_writes[write.hash % OWN_WRITES];
    return noted->hash == write.hash && noted->version == version;
}

/* Calls for the keys that are to be told; reply NULL: counts them only. */
static size_t write_keys(const struct key_tracker *tracker, struct kv_slice untold,
                         struct resp_reply *reply)
{
    struct untold_change change;
    size_t count = 0;
    const char *at = untold.data, *end = at + untold.size;
    while (at < end) {
        memcpy(&change, at, sizeof change);
        struct kv_slice key = kv_slice(at + sizeof change, change.size);
        at += sizeof change + change.size;
        if (is_own(tracker, key, change.version))
            continue;
        count++;
        if (reply)
            reply_bulk(reply, key);
    }
    return count;
}

static void write_invalidate(struct resp_reply *reply)
{
    reply_push(reply, 2);
    reply_bulk_text(reply, "invalidate");
}

void key_tracker_take(struct key_tracker *tracker, struct resp_reply *reply)
{
    struct byte_buffer untold = {.owner = tracker->client.untold.owner};
    if (!tracker->mode)
        return;
    bool has_lost = tracking_table_take(tracker->table, &tracker->client, &untold);
    size_t count = 0;
    if (reply->protocol < 3) {
        /* It has gone back to a protocol that cannot tell it, as in Redis. */
    } else if (has_lost) {
        write_invalidate(reply);
        reply_null(reply);
    } else if (byte_buffer_size(&untold) > 0) {
        count = write_keys(tracker, byte_buffer_slice(&untold), NULL);
    }
    if (count > 0) {
        write_invalidate(reply);
        reply_array(reply, count);
        write_keys(tracker, byte_buffer_slice(&untold), reply);
    }
    byte_buffer_free(&untold);
}
