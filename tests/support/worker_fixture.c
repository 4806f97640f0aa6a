#include "tests/support/worker_fixture.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/local_engine.h"
#include "serverk/config/dispatch_model.h"
#include "serverk/daemon/stats_json.h"
#include "serverk/dispatch/pool.h"
#include "common/time/clock.h"
#include "tests/support/test_names.h"

static void must(enum kv_status status, const struct kv_error *error)
{
    ck_assert_msg(status == KV_OK, "%s", error->text);
}

/* A test that fails ends without fixture_close, but not without atexit. */
static char queue_to_remove[WIRE_QUEUE_NAME_BYTES];
static char dir_to_remove[STORE_DIR_BYTES];

static void remove_what_is_left(void)
{
    char lock[WIRE_QUEUE_NAME_BYTES];
    if (dir_to_remove[0])
        store_dir_remove(dir_to_remove);
    wire_queue_name(lock, queue_to_remove, WIRE_LOCK, 0, 0);
    mq_unlink(queue_to_remove);
    mq_unlink(lock);
}

static void open_store(struct worker_fixture *fixture)
{
    struct kv_error error = {0};
    const struct kvstore_options options = {.create = true,
                                            .datafiles = 3,
                                            .ordered = fixture->options.ordered,
                                            .durability = fixture->options.durability,
                                            .max_value_bytes = fixture->options.max_value_bytes};
    store_dir_make(fixture->dir);
    strcpy(dir_to_remove, fixture->dir);
    must(local_engine_open(fixture->dir, &options, &fixture->service.engine, &error), &error);
    fixture->service.store = fixture->service.engine->store;
}

static void open_fixture(struct worker_fixture *fixture, enum kvstore_durability durability,
                         uint32_t max_value_bytes, bool ordered)
{
    struct kv_error error = {0};
    *fixture = (struct worker_fixture){0};
    test_queue_name(fixture->name, sizeof fixture->name);
    strcpy(queue_to_remove, fixture->name);
    atexit(remove_what_is_left);
    fixture->options = (struct server_options){.queue = fixture->name,
                                               .dir = fixture->dir,
                                               .workers = 1,
                                               .dispatch = &dispatch_pool,
                                               .lanes = LANES_SHARED,
                                               .durability = durability,
                                               .max_value_bytes = max_value_bytes,
                                               .ordered = ordered,
                                               .mode = 0600};
    open_store(fixture);
    const struct lanes_options lanes = {.name = fixture->name,
                                        .mode = LANES_SHARED,
                                        .workers = 1,
                                        .queue_mode = 0600,
                                        .group = (gid_t)-1};
    struct service *service = &fixture->service;
    service->options = &fixture->options;
    live_settings_take(&fixture->live, &fixture->options);
    service->live = &fixture->live;
    static const struct pool_feed no_feed = {.handle = NULL};
    service->feed = &no_feed;
    service->access = &fixture->access;
    service->notes = request_notes_create();
    must(lanes_open(&lanes, &service->lanes, &error), &error);
    fixture->budget.message_max_bytes = max_value_bytes + FRAGMENTS_EXTRA_BYTES;
    fixture->budget.max_bytes = 8 * (uint64_t)fixture->budget.message_max_bytes;
    service->budget = &fixture->budget;
    fixture->epoll = epoll_create1(EPOLL_CLOEXEC);
    service->sessions = session_table_create(8, service->lanes, fixture->epoll, service->budget);
    service->commit = commit_create(service->store, service->sessions, service->budget);
    service->statistics = statistics_create(
        dispatch_model_writers(service->options->dispatch, service->options->workers));
    fixture->stats.service = service;
    service->write_stats = stats_json;
    service->stats_context = &fixture->stats;
    service->terms = (struct hello_terms){
        .sessions = service->sessions, .queue = fixture->name, .live = service->live};
    ck_assert(worker_init(&fixture->worker, service, service->statistics));
    fixture->worker.receiver.lanes = service->lanes;
    fixture->worker.receiver.served = lanes_served(service->lanes);
    fixture->worker.receiver.sessions = service->sessions;
    fixture->worker.receiver.statistics = fixture->worker.statistics;
    fixture->worker.receiver.buffer = malloc(FIXTURE_MESSAGE_BYTES);
    fixture->worker.receiver.buffer_bytes = FIXTURE_MESSAGE_BYTES;
}

void fixture_open(struct worker_fixture *fixture, enum kvstore_durability durability,
                  uint32_t max_value_bytes)
{
    open_fixture(fixture, durability, max_value_bytes, false);
}

void fixture_open_ordered(struct worker_fixture *fixture, enum kvstore_durability durability,
                          uint32_t max_value_bytes)
{
    struct kvstore_order_facts facts;
    open_fixture(fixture, durability, max_value_bytes, true);
    do {
        clock_sleep_ms(1);
        kvstore_order_facts(fixture->service.store, &facts);
    } while (!facts.whole);
}

void fixture_close(struct worker_fixture *fixture)
{
    struct service *service = &fixture->service;
    struct kv_error error = {0};
    commit_drain(service->commit);
    free(fixture->worker.receiver.buffer);
    worker_free(&fixture->worker);
    session_table_free(service->sessions);
    engine_close(service->engine, &error);
    commit_free(service->commit);
    free(service->statistics);
    lanes_close(service->lanes);
    close(fixture->epoll);
    remove_what_is_left();
}

void fixture_connect(struct worker_fixture *fixture, struct fixture_client *client,
                     struct wire_geometry replies)
{
    fixture_connect_process(fixture, client, replies, (int)syscall(SYS_pidfd_open, getpid(), 0));
}

void fixture_connect_process(struct worker_fixture *fixture, struct fixture_client *client,
                             struct wire_geometry replies, int pidfd)
{
    static unsigned number;
    struct kv_error error = {0};
    *client = (struct fixture_client){0};
    wire_queue_name(client->reply_name, fixture->name, WIRE_REPLY_QUEUE, getpid(), ++number);
    must(wire_queue_create(client->reply_name, replies, 0600, true, &client->replies, &error),
         &error);
    struct session_start start = {.pidfd = pidfd,
                                  .reply_bytes = replies.message_bytes,
                                  .reply_depth = replies.depth,
                                  .threads = 1,
                                  .nonce = 0x1234,
                                  .pid = getpid(),
                                  .named_pid = getpid(),
                                  .uid = geteuid(),
                                  .reply_name = client->reply_name};
    must(wire_queue_open(client->reply_name, true, &start.reply_queue, NULL, &error), &error);
    mq_unlink(client->reply_name);
    client->session = session_open(fixture->service.sessions, &start);
    ck_assert_ptr_nonnull(client->session);
}

void fixture_disconnect(struct worker_fixture *fixture, struct fixture_client *client)
{
    session_end(fixture->service.sessions, client->session, SESSION_BYE);
    session_release(fixture->service.sessions, client->session);
    mq_close(client->replies);
}

struct wire_header fixture_header(struct fixture_client *client, enum wire_kind kind,
                                  uint16_t count)
{
    return (struct wire_header){.kind = kind,
                                .session = client->session->id,
                                .count = count,
                                .request_id = ++client->request_id,
                                .secret = client->session->cookie};
}

void fixture_handle(struct worker_fixture *fixture, const void *message, size_t size)
{
    ck_assert_uint_le(size, FIXTURE_MESSAGE_BYTES);
    if (size > 0)
        memcpy(fixture->worker.receiver.buffer, message, size);
    worker_handle(&fixture->worker, size);
}

void fixture_request(struct worker_fixture *fixture, const struct wire_header *header,
                     const struct wire_operation *operations)
{
    uint8_t message[FIXTURE_MESSAGE_BYTES];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    wire_put_header(&cursor, header);
    for (unsigned i = 0; i < header->count; i++)
        ck_assert(wire_put_operation(&cursor, &operations[i]));
    fixture_handle(fixture, message, write_cursor_used(&cursor));
}

bool fixture_reply(struct fixture_client *client, unsigned wait_ms, struct wire_header *header,
                   struct read_cursor *cursor)
{
    struct pollfd ready = {.fd = (int)client->replies, .events = POLLIN};
    poll(&ready, 1, (int)wait_ms);
    ssize_t size =
        mq_receive(client->replies, (char *)client->message, sizeof client->message, NULL);
    if (size < 0)
        return false;
    *cursor = read_cursor(client->message, (size_t)size);
    ck_assert_int_eq(wire_get_header(cursor, header), KV_OK);
    ck_assert_uint_eq(header->secret, client->session->nonce);
    return true;
}

struct wire_operation fixture_operation(enum wire_opcode opcode, const char *key, const char *value)
{
    return (struct wire_operation){.opcode = opcode,
                                   .key = kv_slice_from_string(key),
                                   .value = kv_slice_from_string(value),
                                   .min = INT64_MIN,
                                   .max = INT64_MAX};
}

struct wire_result fixture_call(struct worker_fixture *fixture, struct fixture_client *client,
                                struct wire_operation operation)
{
    struct wire_header request = fixture_header(client, WIRE_REQUEST, 1), header;
    struct read_cursor cursor;
    struct wire_result result;
    fixture_request(fixture, &request, &operation);
    ck_assert(fixture_reply(client, 5000, &header, &cursor));
    ck_assert_int_eq(header.kind, WIRE_REPLY);
    ck_assert_int_eq(header.status, KV_OK);
    ck_assert_uint_eq(header.request_id, request.request_id);
    ck_assert_uint_eq(header.count, 1);
    ck_assert_int_eq(wire_get_result(&cursor, &result), KV_OK);
    ck_assert_uint_eq(read_cursor_left(&cursor), 0);
    return result;
}
