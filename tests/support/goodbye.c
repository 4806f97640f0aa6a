/*
 * goodbye SERVER COUNT exit|stay: so many sessions, each of which sends a PUT and a BYE right
 * behind it and waits for nothing; with `exit` each in a process that ends then. Says how many of
 * the values are not there afterwards, and exits 1 if there are any.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "tests/support/raw_client.h"
#include "wire/operation.h"

static const struct wire_geometry replies = {2, 512};

static _Noreturn void give_up(const char *what, const struct kv_error *error)
{
    fprintf(stderr, "goodbye: %s: %s\n", what, error->text);
    exit(2);
}

static struct wire_operation operation_on(char key[32], enum wire_opcode opcode, unsigned number)
{
    snprintf(key, 32, "goodbye%u", number);
    return (struct wire_operation){.opcode = opcode,
                                   .key = kv_slice_from_string(key),
                                   .value =
                                       kv_slice_from_string(opcode == WIRE_OP_PUT ? "here" : "")};
}

static void connect_as(struct raw_client *client, const char *server)
{
    struct kv_error error = {0};
    if (raw_connect(client, server, replies, true, &error) != KV_OK)
        give_up("no session", &error);
}

static void put_and_leave(const char *server, unsigned number)
{
    struct raw_client client;
    struct kv_error error = {.text = "no room"};
    char key[32];
    connect_as(&client, server);
    struct wire_operation put = operation_on(key, WIRE_OP_PUT, number);
    uint8_t message[WIRE_HEADER_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    if (raw_request(&client, &put, 1) == 0)
        give_up("PUT is not sent", &error);
    struct wire_header bye = raw_header(&client, WIRE_BYE, 0);
    wire_put_header(&cursor, &bye);
    if (!raw_send(&client, message, sizeof message))
        give_up("BYE is not sent", &error);
    raw_close(&client);
}

static void put_in_child(const char *server, unsigned number)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        put_and_leave(server, number);
        _exit(0);
    }
    struct kv_error error = {.text = "it failed"};
    if (waitpid(child, &status, 0) != child || status != 0)
        give_up("a process", &error);
}

/* What was sent may still be on its way. */
static unsigned count_missing(struct raw_client *client, unsigned count)
{
    unsigned missing = 0;
    for (unsigned number = 0; number < count; number++) {
        char key[32];
        struct wire_operation get = operation_on(key, WIRE_OP_GET, number);
        struct wire_result result;
        missing += raw_call(client, &get, &result) != KV_OK;
    }
    return missing;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    bool in_processes = strcmp(argv[3], "exit") == 0;
    for (unsigned number = 0; number < count; number++)
        if (in_processes)
            put_in_child(argv[1], number);
        else
            put_and_leave(argv[1], number);
    struct raw_client client;
    connect_as(&client, argv[1]);
    unsigned missing = count_missing(&client, count);
    for (unsigned tries = 0; missing > 0 && tries < 20; tries++) {
        clock_sleep_ms(50);
        missing = count_missing(&client, count);
    }
    raw_close(&client);
    printf("%u of %u are missing\n", missing, count);
    return missing > 0;
}
