/*
 * message_storm QUEUE SEED COUNT: sends the daemon what no client should: messages of every length
 * from 0 to the largest, and then COUNT random ones: noise, headers with noise behind them,
 * requests with flipped bits, requests cut short; half of them under a live session. Now and then a
 * polite client must get its own answer. Prints the seed; exits 1 if an answer is missing or wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/parse.h"
#include "common/numbers/random.h"
#include "tests/support/raw_client.h"

/* A hostile session is given up after so many messages: it may have said BYE long ago. */
#define SESSION_MESSAGES 100
#define POLITE_EVERY     100
#define FLIPPED_BITS_MAX 8
#define OPERATIONS_MAX   6

static const struct wire_geometry small_replies = {2, 1024};

static bool connect_client(struct raw_client *client, const char *server)
{
    struct kv_error error = {0};
    if (raw_connect(client, server, small_replies, true, &error) == KV_OK)
        return true;
    fprintf(stderr, "message_storm: %s\n", error.text);
    return false;
}

/* Takes the replies that came, so that the session is not ended for them. */
static void swallow_replies(struct raw_client *client)
{
    struct wire_header header;
    while (raw_receive(client, &header, 0) > 0)
        ;
}

static void fill_random(struct random_state *random, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_next(random);
}

static struct wire_operation random_operation(struct random_state *random, const uint8_t *noise)
{
    struct wire_operation operation = {
        .opcode = (enum wire_opcode)(1 + random_below(random, WIRE_OPCODES - 1)),
        .flags = random_below(random, 4) ? 0 : (uint16_t)(1u << random_below(random, 16)),
        .expiry_ms = random_next(random),
        .version = random_next(random),
        .value_offset = (uint32_t)random_next(random),
        .cursor = random_below(random, 2) ? 0 : random_next(random),
        .limit = (uint32_t)random_next(random)};
    operation.key = kv_slice(noise, random_below(random, 40));
    operation.value = kv_slice(noise, random_below(random, 200));
    return operation;
}

/* A request of random operations under the client's session; returns its size. */
static size_t build_request(struct raw_client *client, struct random_state *random,
                            uint8_t *message, size_t size)
{
    uint8_t noise[256];
    fill_random(random, noise, sizeof noise);
    struct wire_header header = raw_header(client, (enum wire_kind)WIRE_REQUEST, 0);
    if (random_below(random, 8) == 0)
        header.kind = (enum wire_kind)(1 + random_below(random, WIRE_MORE));
    if (random_below(random, 8) == 0)
        header.window_bytes = (uint32_t)random_next(random);
    if (random_below(random, 8) == 0)
        header.session = (uint32_t)random_next(random);
    uint16_t count = (uint16_t)random_below(random, OPERATIONS_MAX);
    header.count = random_below(random, 8) ? count : (uint16_t)random_next(random);
    struct write_cursor cursor = write_cursor(message, size);
    wire_put_header(&cursor, &header);
    for (uint16_t i = 0; i < count; i++) {
        struct wire_operation operation = random_operation(random, noise);
        wire_put_operation(&cursor, &operation);
    }
    return write_cursor_used(&cursor);
}

static bool send_hostile(struct raw_client *client, struct random_state *random)
{
    uint8_t message[RAW_MESSAGE_BYTES];
    size_t size = build_request(client, random, message, sizeof message);
    switch (random_below(random, 4)) {
    case 0: /* as it is */
        break;
    case 1: /* noise behind the header */
        size = WIRE_HEADER_BYTES + random_below(random, 2000);
        fill_random(random, message + WIRE_HEADER_BYTES, size - WIRE_HEADER_BYTES);
        break;
    case 2: /* flipped bits */
        for (uint64_t flips = 1 + random_below(random, FLIPPED_BITS_MAX); flips > 0; flips--)
            message[random_below(random, size)] ^= (uint8_t)(1u << random_below(random, 8));
        break;
    default: /* cut short */
        size = random_below(random, size);
        break;
    }
    return raw_send(client, message, size);
}

static bool polite_answer(struct raw_client *polite, uint64_t number)
{
    struct wire_result result;
    struct wire_operation put = {.opcode = WIRE_OP_PUT,
                                 .key = kv_slice_from_string("the polite client's key"),
                                 .value = kv_slice(&number, sizeof number)};
    struct wire_operation get = {.opcode = WIRE_OP_GET, .key = put.key};
    if (raw_call(polite, &put, &result) == KV_OK && raw_call(polite, &get, &result) == KV_OK &&
        kv_slice_equal(result.value, put.value))
        return true;
    fprintf(stderr, "message_storm: no answer, or a wrong one, after message %llu\n",
            (unsigned long long)number);
    return false;
}

/* Messages of every length: noise, and noise that begins like a request of a live session. */
static bool send_every_length(struct raw_client *hostile, struct raw_client *polite,
                              struct random_state *random)
{
    uint8_t message[RAW_MESSAGE_BYTES];
    size_t largest = polite->welcome.bulk_bytes;
    for (size_t size = 0; size <= largest && size <= sizeof message; size++) {
        fill_random(random, message, sizeof message);
        if (!raw_send(polite, message, size))
            return false;
        struct wire_header header = raw_header(hostile, WIRE_REQUEST, 1);
        struct write_cursor cursor = write_cursor(message, sizeof message);
        wire_put_header(&cursor, &header);
        if (!raw_send(hostile, message, size))
            return false;
        swallow_replies(hostile);
        if (size % POLITE_EVERY == 0 && !polite_answer(polite, size))
            return false;
    }
    return true;
}

static bool send_random(const char *server, struct raw_client *hostile, struct raw_client *polite,
                        struct random_state *random, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        if (i % SESSION_MESSAGES == 0) {
            raw_close(hostile);
            if (!connect_client(hostile, server))
                return false;
        }
        if (!send_hostile(hostile, random))
            return false;
        swallow_replies(hostile);
        if (i % POLITE_EVERY == 0 && !polite_answer(polite, i))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    uint64_t seed, count;
    if (argc != 4 || !parse_u64(argv[2], 0, UINT64_MAX, &seed) ||
        !parse_u64(argv[3], 0, UINT64_MAX, &count)) {
        fprintf(stderr, "usage: message_storm /QUEUE SEED COUNT\n");
        return 2;
    }
    printf("seed %s\n", argv[2]);
    struct random_state random;
    random_seed(&random, seed);
    struct raw_client polite, hostile;
    if (!connect_client(&polite, argv[1]) || !connect_client(&hostile, argv[1]))
        return 1;
    bool survived = send_every_length(&hostile, &polite, &random) &&
                    send_random(argv[1], &hostile, &polite, &random, count) &&
                    polite_answer(&polite, count);
    raw_close(&hostile);
    raw_close(&polite);
    return survived ? 0 : 1;
}
