#include "clientk/session/segment_growth.h"

#include <sys/mman.h>
#include <unistd.h>

#include "clientk/base/own_names.h"
#include "common/time/clock.h"
#include "wire/own_user.h"

/* Of the first segment. */
#define FIRST_BYTES ((uint64_t)256 << 10)
/* Offsets in messages have 32 bits. */
#define MAX_BYTES   ((uint64_t)1 << 31)

static uint64_t segment_size(uint64_t needed_bytes)
{
    uint64_t bytes = FIRST_BYTES;
    while (bytes < needed_bytes)
        bytes *= 2;
    return bytes;
}

/* Whether mode 0600 lets the server in. For a server of another user the segment would have to be
 * open to everybody while it has its name. */
static bool server_may_open(const struct connection *connection)
{
    return wire_uid_is_own(connection->server_uid) || connection->server_uid == 0;
}

/* Tells the server. KV_OK: the exchange has begun. */
static enum kv_status begin_exchange(struct connection *connection, struct segment_offer *offer,
                                     uint64_t deadline_ms)
{
    uint8_t body[WIRE_QUEUE_NAME_BYTES + 16];
    struct write_cursor cursor = write_cursor(body, sizeof body);
    struct wire_segment_offer told = {.bytes = offer->bytes,
                                      .name = kv_slice_from_string(offer->name)};
    if (!wire_put_segment_offer(&cursor, &told))
        return KV_IO;
    return exchange_control_begin(&offer->exchange, connection, WIRE_SEGMENT,
                                  kv_slice(body, write_cursor_used(&cursor)), deadline_ms,
                                  offer->message);
}

/* Creates the segment, with all of its memory at once: so neither side finds /dev/shm full in
 * the middle of a value. False: there is none. */
static bool create_segment(const struct connection *connection, uint64_t bytes,
                           struct segment_offer *offer)
{
    if (connection->settings->no_segment || bytes > MAX_BYTES || !server_may_open(connection))
        return false;
    name_of_own(offer->name, connection->settings->queue, WIRE_REPLY_SEGMENT);
    offer->bytes = segment_size(bytes);
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
        if (begin_exchange(connection, offer, deadline_ms) == KV_OK)
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
    enum kv_status status = exchange_continue(&offer->exchange, connection, wait_ms);
    if (status == KV_TIMEOUT && clock_monotonic_coarse_ms() < offer->deadline_ms &&
        !client_settings_interrupted(connection->settings))
        return KV_TIMEOUT;
    if (status == KV_OK && offer->exchange.answer.status == KV_OK) {
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
    exchange_free(&offer->exchange);
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
