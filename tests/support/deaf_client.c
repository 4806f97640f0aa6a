/*
 * deaf_client QUEUE ROUNDS: in each round a client opens a session and sends requests, more than it
 * has room for replies, without ever reading one; and after it, in the same process, a polite
 * client must get its own answer. Prints "N polite answers"; exits 1 at the first one missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/raw_client.h"

#define DEAF_REQUESTS 20

static const struct wire_operation ping = {.opcode = WIRE_OP_PING};

/* Requests to a session that has ended meanwhile are sent all the same: nobody tells a deaf
 * client. */
static bool be_deaf(const char *server)
{
    struct raw_client client;
    struct kv_error error = {0};
    bool connected =
        raw_connect(&client, server, (struct wire_geometry){2, 512}, true, &error) == KV_OK;
    if (!connected)
        fprintf(stderr, "deaf_client: %s\n", error.text);
    for (int i = 0; connected && i < DEAF_REQUESTS; i++)
        connected = raw_request(&client, &ping, 1) != 0;
    raw_close(&client);
    return connected;
}

static bool get_own_value(struct raw_client *client, int round)
{
    char text[32];
    snprintf(text, sizeof text, "round %d", round);
    struct wire_result result;
    struct wire_operation put = {.opcode = WIRE_OP_PUT,
                                 .key = kv_slice_from_string("polite"),
                                 .value = kv_slice_from_string(text)};
    struct wire_operation get = {.opcode = WIRE_OP_GET, .key = put.key};
    return raw_call(client, &put, &result) == KV_OK && raw_call(client, &get, &result) == KV_OK &&
           kv_slice_equal(result.value, put.value);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: deaf_client /QUEUE ROUNDS\n");
        return 2;
    }
    struct raw_client polite;
    struct kv_error error = {0};
    if (raw_connect(&polite, argv[1], (struct wire_geometry){2, 1024}, true, &error) != KV_OK) {
        fprintf(stderr, "deaf_client: %s\n", error.text);
        return 1;
    }
    int rounds = atoi(argv[2]), answers = 0;
    while (answers < rounds && be_deaf(argv[1]) && get_own_value(&polite, answers))
        answers++;
    raw_close(&polite);
    printf("%d polite answers\n", answers);
    return answers == rounds ? 0 : 1;
}
