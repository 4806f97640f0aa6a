#include "clientk/session/segment_growth.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "wire/own_user.h"

/* The size of the first segment; each further one is twice as large, or more. */
#define FIRST_BYTES ((uint64_t)256 << 10)
/* The size of the largest: offsets in messages have 32 bits. */
#define MAX_BYTES   ((uint64_t)1 << 31)

/* Begins the round trip that tells the server of the offer. */
static enum kv_status begin_offer(struct connection *connection, struct segment_offer *offer,
                                  uint64_t deadline_ms)
{
    uint8_t body[WIRE_QUEUE_NAME_BYTES + 16];
    struct write_cursor cursor = write_cursor(body, sizeof body);
    struct wire_segment_offer told = {.bytes = offer->bytes,
                                      .name = kv_slice_from_string(offer->name)};
    if (!wire_put_segment_offer(&cursor, &told))
        return KV_IO;
    return round_trip_control_begin(&offer->round_trip, connection, WIRE_SEGMENT,
                                    kv_slice(body, write_cursor_used(&cursor)), deadline_ms,
                                    offer->message);
}

/* Creates the segment, with all of its memory at once, so that neither side finds /dev/shm full in
 * the middle of a value. False: no segment can be had. */
static bool create_segment(const struct connection *connection, uint64_t bytes,
                           struct segment_offer *offer)
{
    /* For a server of another user the segment would have to be open to everybody while it has its
     * name; mode 0600 lets in the own user and root. */
    bool server_may_open = wire_uid_is_own(connection->server_uid) || connection->server_uid == 0;
    if (connection->settings->no_segment || bytes > MAX_BYTES || !server_may_open)
        return false;
    connection_new_name(connection, WIRE_REPLY_SEGMENT, offer->name);
    for (offer->bytes = FIRST_BYTES; offer->bytes < bytes;)
        offer->bytes *= 2;
    if (wire_segment_create(offer->name, offer->bytes, 0600, &offer->segment, NULL) != KV_OK) {
        offer->segment = NULL;
        return false;
    }
    if (wire_segment_at(offer->segment, 0, offer->bytes))
        return true;
    segment_offer_drop(offer);
    return false;
}

bool segment_offer_begin(struct connection *connection, uint64_t bytes, uint64_t deadline_ms,
                         struct segment_offer *offer)
{
    struct large_values *values = &connection->values;
    if (values->unavailable || bytes <= values->bytes)
        return false;
    *offer = (struct segment_offer){.deadline_ms = deadline_ms};
    if (create_segment(connection, bytes, offer)) {
        if (begin_offer(connection, offer, deadline_ms) == KV_OK)
            return true;
        segment_offer_drop(offer);
    }
    values->unavailable = true;
    return false;
}

enum kv_status segment_offer_continue(struct connection *connection, struct segment_offer *offer,
                                      uint64_t wait_ms)
{
    struct large_values *values = &connection->values;
    KV_ASSERT(offer->segment && offer->name[0] != '\0');
    enum kv_status status = round_trip_continue(&offer->round_trip, connection, wait_ms);
    if (status == KV_TIMEOUT && clock_monotonic_coarse_ms() < offer->deadline_ms &&
        !client_settings_interrupted(connection->settings))
        return KV_TIMEOUT;
    if (status == KV_OK && offer->round_trip.answer.status == KV_OK) {
        KV_ASSERT(offer->segment && offer->bytes > values->bytes);
        wire_segment_close(values->segment);
        values->segment = offer->segment;
        values->bytes = offer->bytes;
        offer->segment = NULL;
    } else if (status == KV_OK) {
        values->unavailable = true;
    } else {
        connection->suspect = true; /* whether the server will take the offer yet is not known */
    }
    segment_offer_drop(offer);
    return status;
}

void segment_offer_drop(struct segment_offer *offer)
{
    if (offer->name[0] != '\0')
        shm_unlink(offer->name);
    offer->name[0] = '\0';
    wire_segment_close(offer->segment);
    offer->segment = NULL;
    round_trip_free(&offer->round_trip);
}

enum kv_status value_segment_grow(struct connection *connection, uint64_t bytes,
                                  uint64_t deadline_ms)
{
    struct segment_offer offer;
    if (!segment_offer_begin(connection, bytes, deadline_ms, &offer))
        return KV_OK;
    enum kv_status status = segment_offer_continue(connection, &offer, deadline_ms);
    if (status == KV_TIMEOUT)
        segment_offer_drop(&offer);
    connection->suspect |= status != KV_OK;
    return status;
}
