/* wire_pieces: the codec. */
#include <err.h>

#include "tests/bench/pieces.h"
#include "wire/operation.h"

static uint8_t message[256];
static size_t message_bytes;
static char value[PIECE_VALUE_BYTES];

static struct wire_operation put_of(uint64_t i)
{
    return (struct wire_operation){.opcode = WIRE_OP_PUT,
                                   .key = kv_slice(piece_key(i), PIECE_KEY_BYTES),
                                   .value = kv_slice(value, sizeof value)};
}

static void encode_operation(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        struct write_cursor cursor = write_cursor(message, sizeof message);
        struct wire_operation operation = put_of(i);
        if (!wire_put_operation(&cursor, &operation))
            errx(4, "an operation was not encoded");
        message_bytes = sizeof message - write_cursor_left(&cursor);
    }
}

static void prepare_operation(uint64_t keys)
{
    (void)keys;
    encode_operation(1);
}

static void decode_operation(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        struct read_cursor cursor = read_cursor(message, message_bytes);
        struct wire_operation operation;
        if (wire_get_operation(&cursor, &operation) != KV_OK)
            errx(4, "an operation was not decoded");
        piece_sink += operation.value.size;
    }
}

static void encode_result(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        struct write_cursor cursor = write_cursor(message, sizeof message);
        struct wire_result result = {.status = KV_OK,
                                     .flags = WIRE_RESULT_HAS_VERSION,
                                     .version = i + 1,
                                     .value = kv_slice(value, sizeof value)};
        if (!wire_put_result(&cursor, &result))
            errx(4, "a result was not encoded");
        message_bytes = sizeof message - write_cursor_left(&cursor);
    }
}

static void prepare_result(uint64_t keys)
{
    (void)keys;
    encode_result(1);
}

static void decode_result(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++) {
        struct read_cursor cursor = read_cursor(message, message_bytes);
        struct wire_result result;
        if (wire_get_result(&cursor, &result) != KV_OK)
            errx(4, "a result was not decoded");
        piece_sink += result.value.size;
    }
}

const struct piece wire_pieces[] = {
    {"wire", "encode a PUT", 0, 0, NULL, encode_operation, NULL},
    {"wire", "decode a PUT", 0, 0, prepare_operation, decode_operation, NULL},
    {"wire", "encode the result of a GET", 0, 0, NULL, encode_result, NULL},
    {"wire", "decode the result of a GET", 0, 0, prepare_result, decode_result, NULL},
    {0},
};
