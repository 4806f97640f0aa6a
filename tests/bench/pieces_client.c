/*
 * pieces_client: a call of the client library from end to end, but for the two system calls: what
 * it sends goes nowhere, and what it receives is an answer that was made before. So nothing but the
 * library's own work is counted, and about thirty instructions a call of this file.
 */
#include <err.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clientk/api/handle.h"
#include "mqkv/clientk.h"
#include "tests/bench/pieces.h"
#include "tests/support/sham_server.h"
#include "wire/operation.h"

#define REQUEST_ID_OFFSET 16 /* in the header of a message (docs/PROTOCOL.md) */

static struct clientk *client;
static struct clientk_value got;
static char queue[32];
static pid_t server;
static char value[PIECE_VALUE_BYTES];

/* The system calls (tests.mk: --wrap)
 * ------------------------------------------------------------ */

static bool answers; /* from here, without the kernel */
static uint8_t answer[256];
static size_t answer_bytes;

int __real_mq_send(mqd_t to, const char *message, size_t size, unsigned priority);
int __wrap_mq_send(mqd_t to, const char *message, size_t size, unsigned priority);
ssize_t __real_mq_receive(mqd_t from, char *message, size_t size, unsigned *priority);
ssize_t __wrap_mq_receive(mqd_t from, char *message, size_t size, unsigned *priority);

int __wrap_mq_send(mqd_t to, const char *message, size_t size, unsigned priority)
{
    if (!answers)
        return __real_mq_send(to, message, size, priority);
    memcpy(answer + REQUEST_ID_OFFSET, message + REQUEST_ID_OFFSET, sizeof(uint64_t));
    return 0;
}

ssize_t __wrap_mq_receive(mqd_t from, char *message, size_t size, unsigned *priority)
{
    if (!answers)
        return __real_mq_receive(from, message, size, priority);
    memcpy(message, answer, answer_bytes);
    return (ssize_t)answer_bytes;
}

static void make_answer(const struct wire_result *result)
{
    struct write_cursor cursor = write_cursor(answer, sizeof answer);
    struct wire_header header = {
        .kind = WIRE_REPLY, .count = 1, .secret = client->combiners[0].window.connection.nonce};
    wire_put_header(&cursor, &header);
    if (!wire_put_result(&cursor, result))
        errx(4, "the answer does not fit");
    answer_bytes = write_cursor_used(&cursor);
}

/* Pieces
 * ----------------------------------------------------------------------------------------- */

static void serve_pings(const struct sham_session *session, const struct wire_header *request,
                        const struct wire_operation *operation)
{
    struct wire_result result = {.status = KV_OK};
    if (operation)
        sham_answer(session, request, KV_OK, &result);
}

static void open_client(void)
{
    snprintf(queue, sizeof queue, "/microbench-%ld", (long)getpid());
    server = sham_server_start(queue, serve_pings);
    struct kv_error error = {.status = KV_OK};
    struct clientk_options options = {.queue = queue};
    if (clientk_open(&options, &client, &error) != KV_OK || clientk_ping(client, NULL) != KV_OK)
        errx(4, "%s", error.status != KV_OK ? error.text : clientk_last_error());
}

static void prepare_gets(uint64_t keys)
{
    (void)keys;
    open_client();
    struct wire_result result = {.status = KV_OK,
                                 .flags = WIRE_RESULT_HAS_VERSION,
                                 .version = 1,
                                 .value = kv_slice(value, sizeof value)};
    make_answer(&result);
    answers = true;
}

static void prepare_puts(uint64_t keys)
{
    (void)keys;
    open_client();
    struct wire_result result = {.status = KV_OK, .flags = WIRE_RESULT_HAS_VERSION, .version = 1};
    make_answer(&result);
    answers = true;
}

static void get(uint64_t calls)
{
    struct kv_slice key = kv_slice(piece_key(1), PIECE_KEY_BYTES);
    for (uint64_t i = 0; i < calls; i++)
        if (clientk_get(client, key, &got) != KV_OK)
            errx(4, "%s", clientk_last_error());
    piece_sink += got.size;
}

static void put(uint64_t calls)
{
    struct kv_slice key = kv_slice(piece_key(1), PIECE_KEY_BYTES);
    for (uint64_t i = 0; i < calls; i++)
        if (clientk_put(client, key, kv_slice(value, sizeof value), NULL, NULL) != KV_OK)
            errx(4, "%s", clientk_last_error());
}

static void close_client(void)
{
    answers = false;
    clientk_value_free(&got);
    clientk_close(client);
    sham_server_stop(server, queue);
}

const struct piece client_pieces[] = {
    {"client", "GET without the system calls", 0, 0, prepare_gets, get, close_client},
    {"client", "PUT without the system calls", 0, 0, prepare_puts, put, close_client},
    {0},
};
