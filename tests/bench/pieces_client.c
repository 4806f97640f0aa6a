/*
 * pieces_client: a call of the client library from end to end, but for the two system calls: what
 * it sends goes nowhere, and what it receives is an answer that was made before. So nothing but the
 * library's own work is counted, and about thirty instructions a call of this file.
 */
#include <err.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clientk/api/handle.h"
#include "mqkv/clientk.h"
#include "tests/bench/pieces.h"
#include "tests/support/handmade_store.h"
#include "tests/support/sham_server.h"
#include "wire/operation.h"

#define REQUEST_ID_OFFSET 16 /* in the header of a message (docs/PROTOCOL.md) */

static struct clientk *client;
static struct clientk_value got;
static char queue[32];
static pid_t server;
static char value[PIECE_VALUE_BYTES];

/* The system calls (tests.mk: --wrap) ---------------------------------------------------------- */

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

/* Pieces --------------------------------------------------------------------------------------- */

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

/* Reads without a message, of a store that was made here; a descriptor stands for the process of a
 * daemon that never ends. */

#define DIRECT_KEYS  512u
#define DIRECT_BATCH 16u

static struct handmade_store made;

static void prepare_direct(uint64_t keys)
{
    (void)keys;
    open_client();
    handmade_store_make(&made, 1);
    for (uint64_t i = 0; i < DIRECT_KEYS; i++)
        handmade_put(&made, kv_slice(piece_key(i), PIECE_KEY_BYTES), kv_slice(value, sizeof value),
                     0);
    struct wire_welcome welcome = {.direct = WIRE_DIRECT_OFFERED,
                                   .instance = 2,
                                   .store_device = made.device,
                                   .store_inode = made.inode};
    int pidfd = eventfd(0, EFD_CLOEXEC);
    direct_welcome(&client->direct, &welcome, geteuid(), (struct direct_server){.fd = pidfd});
    close(pidfd);
}

static void check_direct(void)
{
    struct clientk_info info;
    clientk_info(client, &info);
    if (info.direct_reads == 0 || info.direct_asks > 0)
        errx(4, "reads went by message: %s", info.direct_reason);
}

static void get_direct(uint64_t calls)
{
    for (uint64_t i = 0; i < calls; i++)
        if (clientk_get(client, kv_slice(piece_key(i % DIRECT_KEYS), PIECE_KEY_BYTES), &got) !=
            KV_OK)
            errx(4, "%s", clientk_last_error());
    piece_sink += got.size;
    check_direct();
}

static void get_direct_batches(uint64_t calls)
{
    static struct clientk_operation operations[DIRECT_BATCH];
    static struct clientk_result results[DIRECT_BATCH];
    static uint8_t keys[DIRECT_BATCH][PIECE_KEY_BYTES];
    for (unsigned i = 0; i < DIRECT_BATCH; i++) {
        memcpy(keys[i], piece_key(i), PIECE_KEY_BYTES);
        operations[i].opcode = CLIENTK_GET;
        operations[i].key = kv_slice(keys[i], PIECE_KEY_BYTES);
    }
    for (uint64_t i = 0; i < calls; i += DIRECT_BATCH)
        if (clientk_execute(client, operations, DIRECT_BATCH, results) != KV_OK)
            errx(4, "%s", clientk_last_error());
    piece_sink += results[0].value.size;
    check_direct();
}

static void close_direct(void)
{
    handmade_store_remove(&made);
    close_client();
}

const struct piece client_pieces[] = {
    {"client", "GET without a message", 0, 0, prepare_direct, get_direct, close_direct},
    {"client", "GET without a message, of 16", 0, 0, prepare_direct, get_direct_batches,
     close_direct},
    {"client", "GET without the system calls", 0, 0, prepare_gets, get, close_client},
    {"client", "PUT without the system calls", 0, 0, prepare_puts, put, close_client},
    {0},
};
