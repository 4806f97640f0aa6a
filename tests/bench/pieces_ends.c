/* ends_pieces: messages of 16 operations as client and server build them, without sending them. */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/message/request_builder.h"
#include "serverk/execute/reply.h"
#include "tests/bench/pieces.h"

#define OPERATIONS    16u
#define MESSAGE_BYTES 8192u

static char value[PIECE_VALUE_BYTES];

/* Client --------------------------------------------------------------------------------------- */

static struct request_builder batch;
static struct connection connection;

static void make_connection(uint64_t keys)
{
    (void)keys;
    connection = (struct connection){
        .lane = -1,
        .bulk_lane = -1,
        .reply_geometry = {.message_bytes = MESSAGE_BYTES},
        .welcome = {.lane_bytes = MESSAGE_BYTES,
                    .bulk_bytes = MESSAGE_BYTES,
                    .flags = WIRE_WELCOME_SHORT_REPLIES},
    };
}

static void build_requests(uint64_t calls)
{
    uint64_t request_id;
    for (uint64_t i = 0; i < calls; i += OPERATIONS) {
        if (!builder_begin(&batch, &connection, 0, 0))
            errx(4, "out of memory");
        for (uint64_t k = i; k < i + OPERATIONS; k++) {
            struct wire_operation operation = {.opcode = k % 2 == 0 ? WIRE_OP_GET : WIRE_OP_PUT,
                                               .key = kv_slice(piece_key(k), PIECE_KEY_BYTES),
                                               .value =
                                                   kv_slice(value, k % 2 == 0 ? 0 : sizeof value)};
            if (builder_add(&batch, &operation, 0) != BUILDER_ADDED)
                errx(4, "an operation was not added");
        }
        piece_sink += builder_finish(&batch, &connection, 0, &request_id);
    }
}

static void free_batch(void)
{
    builder_free(&batch);
}

/* Server --------------------------------------------------------------------------------------- */

static struct session session;
static struct fragment_budget budget;
static uint8_t buffer[MESSAGE_BYTES];

static void make_session(uint64_t keys)
{
    (void)keys;
    session.reply_bytes = MESSAGE_BYTES;
    fragments_init(&session.fragments, 0);
}

static void build_replies(uint64_t calls)
{
    struct wire_header request = {.kind = WIRE_REQUEST, .count = OPERATIONS};
    for (uint64_t i = 0; i < calls; i += OPERATIONS) {
        struct reply reply;
        if (reply_start(&reply, &session, &budget, false, &request, buffer, sizeof buffer, NULL,
                        0) != KV_OK)
            errx(4, "a reply was not begun");
        for (uint64_t k = 0; k < OPERATIONS; k++) {
            struct reply_place place = reply_place(&reply, 0);
            if (place.kind != PLACE_MESSAGE || place.capacity < sizeof value)
                errx(4, "there is no place for a value");
            memcpy(place.at, value, sizeof value);
            struct wire_result result = {.status = KV_OK,
                                         .flags = WIRE_RESULT_HAS_VERSION,
                                         .version = k + 1,
                                         .value = kv_slice(NULL, sizeof value)};
            if (!reply_add_placed(&reply, &result, &place))
                errx(4, "a result was not added");
        }
        piece_sink += reply_finish(&reply).size;
    }
}

static void end_session(void)
{
    fragments_clear(&session.fragments, &budget);
}

const struct piece ends_pieces[] = {
    {"client", "build a request, per operation", 0, 0, make_connection, build_requests, free_batch},
    {"server", "build a reply, per value", 0, 0, make_session, build_replies, end_session},
    {0},
};
