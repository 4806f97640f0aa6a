/*
 * held_session QUEUE: opens a session with a segment in the way of a client that is killed too
 * early: it unlinks neither of the names. Prints "ready" and sleeps until it is killed.
 */
#include <stdio.h>
#include <unistd.h>

#include "tests/support/raw_client.h"
#include "wire/value_segment.h"

static bool offer_segment(struct raw_client *client)
{
    const uint64_t bytes = 65536;
    char name[WIRE_QUEUE_NAME_BYTES];
    struct wire_segment *segment;
    struct kv_error error = {0};
    wire_queue_name(name, client->server, WIRE_REPLY_SEGMENT, getpid(), 1);
    if (wire_segment_create(name, bytes, 0600, &segment, &error) != KV_OK) {
        fprintf(stderr, "held_session: %s\n", error.text);
        return false;
    }
    struct wire_header header = raw_header(client, WIRE_SEGMENT, 0);
    struct wire_segment_offer offer = {.bytes = bytes, .name = kv_slice_from_string(name)};
    uint8_t message[512];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    wire_put_header(&cursor, &header);
    wire_put_segment_offer(&cursor, &offer);
    struct wire_header answer = {0};
    return raw_send(client, message, write_cursor_used(&cursor)) &&
           raw_receive(client, &answer, 5000) > 0 && answer.kind == WIRE_REPLY &&
           answer.status == KV_OK;
}

int main(int argc, char **argv)
{
    struct raw_client client;
    struct kv_error error = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: held_session /QUEUE\n");
        return 2;
    }
    if (raw_connect(&client, argv[1], (struct wire_geometry){2, 1024}, false, &error) != KV_OK) {
        fprintf(stderr, "held_session: %s\n", error.text);
        return 1;
    }
    if (!offer_segment(&client)) {
        fprintf(stderr, "held_session: the segment was not taken\n");
        raw_close(&client);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
