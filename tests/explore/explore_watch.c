/* Requests that wait for changes, beside writers, sessions that end, and clients that die. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/explore_daemon.h"
#include "wire/change.h"

#define FILES   1u
#define WRITER  (DAEMON_CLIENTS - 1) /* the last client; the others watch */
#define PUTS    4u
#define SOON_NS UINT64_C(2000000000)
#define WAIT_MS 20000u

static struct {
    uint64_t put_ns[PUTS]; /* when it was answered; 0: not yet */
    bool is_over;          /* the writer has left */
} watched;

/* The number that the value of a change is. */
static unsigned take_change(struct read_cursor *page)
{
    struct wire_change change;
    char text[16] = "";
    unsigned number = PUTS;
    EXPLORE_CHECK(wire_get_change(page, &change) == KV_OK, "a malformed change");
    memcpy(text, change.value.data, change.value.size < 15 ? change.value.size : 15);
    EXPLORE_CHECK(sscanf(text, "%u", &number) == 1 && number < PUTS, "a change by nobody: %s",
                  text);
    return number;
}

/* Each change comes once, in order, and soon. */
static unsigned read_page(const struct wire_result *result, unsigned next,
                          uint8_t position[WIRE_POSITION_BYTES])
{
    struct read_cursor page = read_cursor(result->value.data, result->value.size);
    const uint8_t *behind = read_bytes(&page, WIRE_POSITION_BYTES);
    EXPLORE_CHECK(behind != NULL, "changes without a position");
    memcpy(position, behind, WIRE_POSITION_BYTES);
    while (read_cursor_left(&page) > 0) {
        unsigned number = take_change(&page);
        EXPLORE_CHECK(number == next, "change %u comes, and not %u", number, next);
        uint64_t put_ns = watched.put_ns[number];
        EXPLORE_CHECK(!explore_keeps_time() || put_ns == 0 || explore_clock_ns() - put_ns < SOON_NS,
                      "a change is told late, by %" PRIu64 " ms",
                      (explore_clock_ns() - put_ns) / 1000000);
        next++;
    }
    return next;
}

static void follow(struct daemon_client *client)
{
    uint8_t message[WIRE_MIN_REPLY_BYTES], position[WIRE_POSITION_BYTES];
    struct wire_operation operation = {.opcode = WIRE_OP_WATCH, .limit = WAIT_MS};
    struct wire_result result;
    unsigned next = PUTS;
    if (!explore_client_ask(client, &operation, &result, message))
        return;
    EXPLORE_CHECK(result.status == KV_OK && result.value.size == WIRE_POSITION_BYTES,
                  "a watch that begins gives status %d", result.status);
    memcpy(position, result.value.data, WIRE_POSITION_BYTES);
    while (next != PUTS || !watched.is_over) {
        operation.value = kv_slice(position, sizeof position);
        operation.limit = watched.is_over ? 0 : WAIT_MS;
        if (!explore_client_ask(client, &operation, &result, message))
            return;
        EXPLORE_CHECK(result.status == KV_OK, "a watch gives status %d", result.status);
        if (result.number == 0)
            continue;
        if (next == PUTS) { /* it began in the midst of them */
            struct read_cursor page = read_cursor(result.value.data, result.value.size);
            read_bytes(&page, WIRE_POSITION_BYTES);
            next = take_change(&page);
        }
        next = read_page(&result, next, position);
        if (explore_random(8) == 0)
            return; /* it leaves, or so it seems, while it waits no more */
    }
}

static void write_some(struct daemon_client *client)
{
    uint8_t message[WIRE_MIN_REPLY_BYTES];
    for (unsigned i = 0; i < PUTS; i++) {
        char text[16];
        struct wire_result result;
        snprintf(text, sizeof text, "%u", i);
        struct wire_operation operation = {.opcode = WIRE_OP_PUT,
                                           .key = kv_slice_from_string("key"),
                                           .value = kv_slice_from_string(text)};
        explore_sleep_ms(explore_random(3) == 0 ? explore_random(400) : 0);
        if (!explore_client_ask(client, &operation, &result, message))
            return;
        EXPLORE_CHECK(result.status == KV_OK, "a put gives status %d", result.status);
        watched.put_ns[i] = explore_clock_ns();
    }
}

static void be_a_client(void *argument)
{
    struct daemon_client *client = explore_client((unsigned)(uintptr_t)argument);
    if (explore_client_open(client) == CLIENT_JOINED) {
        if (client->number == WRITER)
            write_some(client);
        else
            follow(client);
        if (explore_random(3) > 0)
            explore_client_say_bye(client);
    }
    if (client->number == WRITER)
        watched.is_over = true;
    explore_client_close(client);
    explore_exit();
}

static void run(void)
{
    const struct daemon_plan plan = {
        .workers = 2, .mode = 0600, .datafiles = FILES, .is_sound = true};
    memset(&watched, 0, sizeof watched);
    explore_daemon_start(&plan);
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++) {
        explore_thread(FIRST_CLIENT + i, be_a_client, (void *)(uintptr_t)i);
        if (i != WRITER)
            explore_may_kill(FIRST_CLIENT + i);
    }
    explore_wait_for_threads();
    explore_quietly(true);
    explore_kill(DAEMON);
    explore_daemon_forget();
}

EXPLORE_HARNESS(explore_watch) = {
    .name = "watch",
    .invariant = "a client that waits for changes gets each once, in order, and soon",
    .run = run,
    .most_in_a_process = 100,
    .most_still_ms = 100,
};
