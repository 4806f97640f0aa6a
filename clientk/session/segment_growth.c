#include "clientk/session/segment_growth.h"

#include <sys/mman.h>
#include <unistd.h>

#include "clientk/base/own_names.h"
#include "clientk/session/exchange.h"

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

/* Tells the server about the segment. KV_OK if it was told, *taken if it agreed. */
static enum kv_status offer_segment(struct connection *connection, const char *name, uint64_t bytes,
                                    uint64_t deadline_ms, bool *taken)
{
    uint8_t body[WIRE_QUEUE_NAME_BYTES + 16];
    struct write_cursor cursor = write_cursor(body, sizeof body);
    struct wire_segment_offer offer = {.bytes = bytes, .name = kv_slice_from_string(name)};
    if (!wire_put_segment_offer(&cursor, &offer))
        return KV_IO;
    struct exchange exchange = {.message = NULL};
    enum kv_status status =
        exchange_control(&exchange, connection, WIRE_SEGMENT,
                         kv_slice(body, write_cursor_used(&cursor)), deadline_ms);
    *taken = status == KV_OK && exchange.answer.status == KV_OK;
    exchange_free(&exchange);
    return status;
}

/* Whether mode 0600 lets the server in. For a server of another user the segment would have to be
 * open to everybody while it has its name. */
static bool server_may_open(const struct connection *connection)
{
    return connection->server_uid == geteuid() || connection->server_uid == 0;
}

enum kv_status value_segment_grow(struct connection *connection, uint64_t bytes,
                                  uint64_t deadline_ms)
{
    struct large_values *values = &connection->values;
    if (values->unavailable || bytes <= values->bytes)
        return KV_OK;
    if (connection->settings->no_segment || bytes > MAX_BYTES || !server_may_open(connection)) {
        values->unavailable = true;
        return KV_OK;
    }
    char name[WIRE_QUEUE_NAME_BYTES];
    name_of_own(name, connection->settings->queue, WIRE_REPLY_SEGMENT);
    struct wire_segment *segment;
    uint64_t size = segment_size(bytes);
    if (wire_segment_create(name, size, 0600, &segment, NULL) != KV_OK) {
        values->unavailable = true;
        return KV_OK;
    }
    /* All of its memory at once: so neither side finds /dev/shm full in the middle of a value. */
    bool taken = wire_segment_at(segment, 0, size) != NULL;
    enum kv_status status = KV_OK;
    if (taken)
        status = offer_segment(connection, name, size, deadline_ms, &taken);
    shm_unlink(name);
    if (status == KV_OK && taken) {
        wire_segment_close(values->segment);
        values->segment = segment;
        values->bytes = size;
        return KV_OK;
    }
    wire_segment_close(segment);
    values->unavailable = status == KV_OK;
    /* Whether the server will take the offer yet is not known. */
    connection->suspect |= status != KV_OK;
    return status;
}
