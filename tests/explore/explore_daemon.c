#include "tests/explore/explore_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serverk/config/dispatch_model.h"
#include "serverk/dispatch/pool.h"
#include "serverk/execute/execution.h"
#include "serverk/lanes/lane_names.h"
#include "tests/explore/explore.h"
#include "tests/explore/machine.h"
#include "wire/queue.h"

#define NAME EXPLORED_NAME

/* A client that comes so soon after it has asked finds its lane open: 100 ms, counted in whole
 * ones. */
#define OPEN_NS UINT64_C(99000000)

#define SESSIONS    16u
#define STORES_MAX  4u
#define LONG_MS     20u
#define REPLY_DEPTH 3u
#define SEND_MS     60000u /* the clock jumps less while others can go on */
#define LONG_MARK   'L'    /* ends the key of a request that keeps its worker */

/* Of the main thread's epoll set, beside the ids of sessions. */
#define TIMER_TAG UINT64_MAX
#define LANES_TAG (UINT64_MAX - 1)
#define STOP_TAG  (UINT64_MAX - 2)

static struct {
    struct daemon_plan plan;
    struct server_options options;
    struct service service;
    struct live_settings live;
    struct fragment_budget budget;
    struct pool_feed feed;
    struct pool *pool;
    int epoll;
    int stop_event;
    _Atomic bool serves, stopping, has_ended;
    struct session_counts counts;
    struct daemon_client clients[DAEMON_CLIENTS];
} explored;

/* Executing ------------------------------------------------------------------------------------ */

static void execute(struct kv_slice key)
{
    char text[16] = "";
    unsigned client, request;
    memcpy(text, key.data, key.size < sizeof text ? key.size : sizeof text - 1);
    if (sscanf(text, "%u.%u", &client, &request) != 2 || client >= DAEMON_CLIENTS ||
        request >= CLIENT_REQUESTS)
        explore_fail("a request that nobody sent: %s", text);
    atomic_fetch_add(&explored.clients[client].fates[request].executed, 1);
}

static enum kv_status answer_stats(const void *context, struct kv_slice section, char **text,
                                   size_t *size)
{
    (void)context;
    execute(section);
    if (((const char *)section.data)[section.size - 1] == LONG_MARK)
        explore_sleep_ms(LONG_MS);
    *text = NULL;
    *size = 0;
    return KV_OK;
}

/* The daemon ----------------------------------------------------------------------------------- */

/* These try all names that there may be, which takes longer than a schedule. */
enum kv_status __wrap_lane_names_remove_stale(struct lane_names *names, unsigned *removed,
                                              struct kv_error *error);
enum kv_status __wrap_lane_names_remove_stale(struct lane_names *names, unsigned *removed,
                                              struct kv_error *error)
{
    (void)names, (void)removed, (void)error;
    return KV_OK;
}

unsigned __wrap_guest_lanes_remove_stale(const char *base);
unsigned __wrap_guest_lanes_remove_stale(const char *base)
{
    (void)base;
    return 0;
}

static void watch(int fd, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = tag}};
    if (fd >= 0)
        epoll_ctl(explored.epoll, EPOLL_CTL_ADD, fd, &event);
}

/* On the disk of the machine. It is made by the first schedule of a process. */
static void open_store(struct service *service)
{
    static bool is_kept[STORES_MAX];
    const struct kvstore_options options = {
        .datafiles = explored.plan.datafiles, .create = true, .durability = KVSTORE_SYNC_ALWAYS};
    bool may_fail = explore_random(2) == 0 && !explored.plan.is_sound;
    struct machine_faults faults = {.syncs = may_fail ? 4 + explore_random(20) : 0};
    struct kv_error error = {.text = ""};
    machine_begin();
    if (!is_kept[options.datafiles]) {
        struct kvstore *made = NULL;
        if (kvstore_open(EXPLORED_STORE, &options, &made, &error) != KV_OK ||
            kvstore_close(made, &error) != KV_OK)
            explore_fail("no store: %s", error.text);
        machine_keep(options.datafiles);
        is_kept[options.datafiles] = true;
    } else {
        machine_put_back(options.datafiles);
    }
    if (kvstore_open(EXPLORED_STORE, &options, &service->store, &error) != KV_OK)
        explore_fail("the store cannot be opened: %s", error.text);
    machine_set_faults(&faults);
}

static void set_up(void)
{
    struct service *service = &explored.service;
    struct kv_error error = {.text = ""};
    explored.options = (struct server_options){.queue = NAME,
                                               .workers = explored.plan.workers,
                                               .dispatch = &dispatch_pool,
                                               .lanes = LANES_AUTO,
                                               .spin = {.mode = WIRE_SPIN_OFF},
                                               .replies = WIRE_REPLIES_QUEUE,
                                               .max_value_bytes = 4096,
                                               .durability = KVSTORE_SYNC_ALWAYS,
                                               .mode = explored.plan.mode};
    live_settings_take(&explored.live, &explored.options);
    pthread_mutex_init(&explored.budget.lock, NULL);
    explored.budget.message_max_bytes = explored.budget.max_bytes = 1u << 20;
    struct lanes_options lanes = {.name = NAME,
                                  .mode = LANES_AUTO,
                                  .workers = explored.plan.workers,
                                  .queue_mode = explored.plan.mode,
                                  .group = (gid_t)-1,
                                  .read_group = (gid_t)-1};
    *service = (struct service){.options = &explored.options,
                                .live = &explored.live,
                                .budget = &explored.budget,
                                .feed = &explored.feed,
                                .notes = request_notes_create(),
                                .write_stats = answer_stats,
                                .statistics = statistics_create(explored.plan.workers + 1)};
    if (lanes_open(&lanes, &service->lanes, &error) != KV_OK)
        explore_fail("no lanes: %s", error.text);
    explored.epoll = epoll_create1(EPOLL_CLOEXEC);
    explored.stop_event = eventfd(0, EFD_NONBLOCK);
    if (explored.plan.datafiles > 0)
        open_store(service);
    service->sessions =
        session_table_create(SESSIONS, service->lanes, explored.epoll, &explored.budget);
    if (service->store) {
        service->commit = commit_create(service->store, service->sessions, &explored.budget);
        service->watchers = watchers_create(service->store, service->sessions, &explored.budget,
                                            service->live, execute_request, execution_runners);
    }
    service->farewells = farewells_create(explored.plan.workers, service->sessions);
    session_set_death_listener(service->sessions, farewells_process_died, service->farewells);
    service->terms = (struct hello_terms){.sessions = service->sessions,
                                          .queue = NAME,
                                          .instance = 1,
                                          .live = &explored.live,
                                          .replies = WIRE_REPLIES_QUEUE};
    if (lanes_have_door(service->lanes)) {
        service->shares = aligned_alloc(_Alignof(struct shares), sizeof(struct shares));
        *service->shares = (struct shares){.workers = explored.plan.workers};
    }
    service->parking = parking_create(explored.plan.workers, explored.plan.workers);
    service->aside = aside_create();
    watch(farewells_timer(service->farewells), TIMER_TAG);
    watch(lanes_timer(service->lanes), LANES_TAG);
    watch(explored.stop_event, STOP_TAG);
    if (pool_start(service, &explored.pool, &error) != KV_OK)
        explore_fail("no workers: %s", error.text);
}

/* As server.c does it. */
static void take_down(void)
{
    struct service *service = &explored.service;
    pool_stop(explored.pool);
    pool_drain(explored.pool);
    lanes_unlink(service->lanes);
    pool_drain(explored.pool);
    pool_free(explored.pool);
    session_set_death_listener(service->sessions, NULL, NULL);
    farewells_free(service->farewells);
    session_counts(service->sessions, &explored.counts);
    session_table_free(service->sessions);
    parking_free(service->parking);
    aside_free(service->aside);
    free(service->shares);
    free(service->statistics);
    lanes_close(service->lanes);
    request_notes_free(service->notes);
    close(explored.epoll);
    close(explored.stop_event);
}

/* As control.c does it. False: it is to stop. */
static bool serve_event(uint64_t tag)
{
    switch (tag) {
    case TIMER_TAG:
        farewells_tick(explored.service.farewells, NAME);
        return true;
    case LANES_TAG:
        lanes_tick(explored.service.lanes);
        return true;
    case STOP_TAG:
        return false;
    default:
        session_client_died(explored.service.sessions, (uint32_t)tag);
        return true;
    }
}

static void serve(void *unused)
{
    struct epoll_event events[8];
    bool goes_on = true;
    (void)unused;
    explore_quietly(true);
    set_up();
    explore_quietly(false);
    atomic_store(&explored.serves, true);
    while (goes_on) {
        int count = epoll_wait(explored.epoll, events, 8, -1);
        for (int i = 0; i < count && goes_on; i++)
            goes_on = serve_event(events[i].data.u64);
    }
    take_down();
    atomic_store(&explored.has_ended, true);
    explore_exit();
}

static bool is_true(const void *flag)
{
    return atomic_load((const _Atomic bool *)flag);
}

void explore_daemon_start(const struct daemon_plan *plan)
{
    memset(&explored, 0, sizeof explored);
    explored.plan = *plan;
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
        explored.clients[i].number = i;
    explore_forget_statics();
    explore_simulate_processes();
    explore_other_thread(DAEMON, serve, NULL);
    explore_wait_until(is_true, &explored.serves);
}

static bool is_nobody_there(const void *unused)
{
    struct session_counts counts;
    (void)unused;
    session_counts(explored.service.sessions, &counts);
    return counts.live == 0;
}

/* The daemon has an end of the event; here it has none. */
static void ring_stop(void *unused)
{
    (void)unused;
    eventfd_write(explored.stop_event, 1);
}

void explore_daemon_stop(struct session_counts *counts)
{
    if (!explored.plan.leaves_clients)
        explore_wait_until(is_nobody_there, NULL);
    atomic_store(&explored.stopping, true);
    explore_other_thread(DAEMON, ring_stop, NULL);
    explore_wait_until(is_true, &explored.has_ended);
    explore_wait_for_all();
    *counts = explored.counts;
}

/* Clients -------------------------------------------------------------------------------------- */

void explore_daemon_forget(void)
{
    machine_bury(DAEMON);
    machine_end();
    explore_forget_statics();
}

struct daemon_client *explore_client(unsigned number)
{
    return &explored.clients[number];
}

/* False: the server is gone, and has sent nothing more. */
static bool wait_for_message(const struct daemon_client *client)
{
    struct pollfd events[2] = {{.fd = (int)client->reply, .events = POLLIN},
                               {.fd = client->server, .events = POLLIN}};
    poll(events, 2, -1);
    return events[0].revents != 0;
}

static void send_hello(struct daemon_client *client)
{
    uint8_t message[WIRE_HEADER_BYTES + WIRE_QUEUE_NAME_BYTES + 64];
    struct write_cursor cursor = write_cursor(message, sizeof message);
    struct wire_header header = {.kind = WIRE_HELLO, .request_id = 1};
    struct wire_hello hello = {.nonce = client->nonce,
                               .pid = (uint32_t)getpid(),
                               .reply_depth = REPLY_DEPTH,
                               .threads = 1,
                               .reply_bytes = WIRE_MIN_REPLY_BYTES,
                               .reply_queue = kv_slice_from_string(client->reply_name),
                               .abilities = WIRE_HELLO_GUEST_LANES};
    wire_put_header(&cursor, &header);
    wire_put_hello(&cursor, &hello);
    client->asked_ns = explore_clock_ns();
    wire_send(client->door, message, write_cursor_used(&cursor), WIRE_MAX_PRIORITY, SEND_MS);
}

/* The next message of the session, whose header must be to this client. */
static struct read_cursor receive(const struct daemon_client *client,
                                  uint8_t message[WIRE_MIN_REPLY_BYTES], struct wire_header *header)
{
    ssize_t size = mq_receive(client->reply, (char *)message, WIRE_MIN_REPLY_BYTES, NULL);
    struct read_cursor cursor = read_cursor(message, size > 0 ? (size_t)size : 0);
    EXPLORE_CHECK(size > 0, "a reply queue gives nothing");
    EXPLORE_CHECK(wire_get_header(&cursor, header) == KV_OK, "a malformed reply");
    EXPLORE_CHECK(header->secret == client->nonce, "a message that is another client's");
    return cursor;
}

static enum client_outcome open_lane(struct daemon_client *client)
{
    char *name = client->lane_name;
    const struct wire_welcome *welcome = &client->welcome;
    bool guest = welcome->lane_family == WIRE_FAMILY_GUESTS;
    wire_queue_name(name, NAME, guest ? WIRE_GUEST_LANE : WIRE_LANE, 0, welcome->lane);
    if (!guest && welcome->lane == 0) {
        client->lane = client->door;
        return CLIENT_JOINED;
    }
    enum kv_status status = wire_queue_open(name, true, &client->lane, NULL, NULL);
    if (status == KV_OK)
        return CLIENT_JOINED;
    client->lane = (mqd_t)-1;
    if (guest && status == KV_DENIED) {
        EXPLORE_CHECK(explore_clock_ns() - client->asked_ns >= OPEN_NS,
                      "a lane is closed to the one who has just asked for it");
        return CLIENT_LATE;
    }
    EXPLORE_CHECK(atomic_load(&explored.stopping), "a lane that there is not: %s", name);
    return CLIENT_ALONE;
}

static enum client_outcome read_welcome(struct daemon_client *client)
{
    uint8_t message[WIRE_MIN_REPLY_BYTES];
    struct wire_header header;
    if (!wait_for_message(client))
        return CLIENT_ALONE;
    struct read_cursor body = receive(client, message, &header);
    if (header.kind == WIRE_REFUSED)
        return CLIENT_REFUSED;
    EXPLORE_CHECK(header.kind == WIRE_WELCOME && wire_get_welcome(&body, &client->welcome) == KV_OK,
                  "a HELLO is answered by something else");
    EXPLORE_CHECK(client->session == 0 || client->session == header.session,
                  "a HELLO that came twice has two sessions");
    client->session = header.session;
    client->was_welcome = true;
    return CLIENT_JOINED;
}

enum client_outcome explore_client_open(struct daemon_client *client)
{
    const struct wire_geometry geometry = {.depth = REPLY_DEPTH,
                                           .message_bytes = WIRE_MIN_REPLY_BYTES};
    pid_t server = 0;
    client->lane = (mqd_t)-1;
    client->session = 0;
    client->in_flight = 0;
    client->nonce = ((uint64_t)client->number << 32) + 1 + client->names;
    client->server = -1;
    client->reply = (mqd_t)-1;
    if (wire_queue_open(NAME, true, &client->door, NULL, NULL) != KV_OK) {
        client->door = (mqd_t)-1;
        return CLIENT_ALONE;
    }
    client->server = wire_lane_server_pidfd(client->door, &server);
    if (client->server < 0)
        return CLIENT_ALONE;
    wire_queue_name(client->reply_name, NAME, WIRE_REPLY_QUEUE, getpid(), client->names++);
    if (wire_queue_create(client->reply_name, geometry, 0622, true, &client->reply, NULL) !=
            KV_OK ||
        wire_lock_queue(client->reply, NULL) != 0)
        explore_fail("a client has no reply queue");
    bool asks_twice = explore_random(3) == 0;
    send_hello(client);
    if (asks_twice)
        send_hello(client);
    enum client_outcome outcome = read_welcome(client);
    if (outcome == CLIENT_JOINED && asks_twice)
        outcome = read_welcome(client);
    mq_unlink(client->reply_name);
    return outcome == CLIENT_JOINED ? open_lane(client) : outcome;
}

/* The worst that its answer says. */
static void note_put(struct request_fate *fate, const struct wire_header *header,
                     struct read_cursor *body)
{
    fate->status = header->status;
    for (unsigned i = 0; i < header->count; i++) {
        struct wire_result result;
        EXPLORE_CHECK(wire_get_result(body, &result) == KV_OK, "a malformed result");
        if (result.status != KV_OK)
            fate->status = result.status;
    }
    /* OVERLOADED: the clock has jumped while the message was executed. */
    EXPLORE_CHECK(fate->status == KV_OK || fate->status == KV_OVERLOADED ||
                      ((fate->status == KV_NOT_DURABLE || fate->status == KV_READ_ONLY) &&
                       machine_has_failed()),
                  "a PUT gives status %d", fate->status);
}

bool explore_client_take(struct daemon_client *client)
{
    uint8_t message[WIRE_MIN_REPLY_BYTES];
    struct wire_header header;
    if (!wait_for_message(client))
        return false;
    struct read_cursor body = receive(client, message, &header);
    EXPLORE_CHECK(header.kind == WIRE_REPLY && header.session == client->session,
                  "a message of kind %d of session %" PRIu32, header.kind, header.session);
    EXPLORE_CHECK(header.request_id < client->sent, "an answer to no request");
    struct request_fate *fate = &client->fates[header.request_id];
    EXPLORE_CHECK(fate->answered++ == 0, "a request is answered twice");
    client->in_flight--;
    if (explored.plan.datafiles > 0) {
        note_put(fate, &header, &body);
        return true;
    }
    EXPLORE_CHECK(header.status == KV_OK, "an answer with status %d", header.status);
    EXPLORE_CHECK(atomic_load(&fate->executed) == 1, "a request is answered before it is executed");
    return true;
}

struct explored_put explore_put_of(unsigned client, unsigned request)
{
    struct explored_put put;
    for (unsigned i = 0; i < KEYS_OF_PUT; i++)
        snprintf(put.keys[i], sizeof put.keys[i], "%u.%u.%u", client, request, i);
    return put;
}

static size_t build_put(const struct daemon_client *client, unsigned number, uint8_t message[256])
{
    struct explored_put put = explore_put_of(client->number, number);
    struct write_cursor cursor = write_cursor(message, 256);
    struct wire_header header = {.kind = WIRE_REQUEST,
                                 .session = client->session,
                                 .count = KEYS_OF_PUT,
                                 .request_id = number,
                                 .secret = client->welcome.cookie};
    wire_put_header(&cursor, &header);
    for (unsigned i = 0; i < KEYS_OF_PUT; i++) {
        struct wire_operation operation = {.opcode = WIRE_OP_PUT,
                                           .key = kv_slice_from_string(put.keys[i]),
                                           .value = kv_slice_from_string(put.keys[i])};
        wire_put_operation(&cursor, &operation);
    }
    return write_cursor_used(&cursor);
}

/* A long one is sent as a part that has all of it: the steward executes none of those. */
static size_t build_request(const struct daemon_client *client, unsigned number, bool is_long,
                            uint8_t message[256])
{
    uint8_t whole[128];
    char key[16];
    snprintf(key, sizeof key, "%u.%u%s", client->number, number, is_long ? "L" : "");
    struct write_cursor cursor = write_cursor(whole, sizeof whole);
    struct wire_operation operation = {.opcode = WIRE_OP_STATS, .key = kv_slice_from_string(key)};
    struct wire_header header = {.kind = WIRE_REQUEST,
                                 .session = client->session,
                                 .count = 1,
                                 .request_id = number,
                                 .secret = client->welcome.cookie};
    wire_put_header(&cursor, &header);
    wire_put_operation(&cursor, &operation);
    size_t size = write_cursor_used(&cursor);
    cursor = write_cursor(message, 256);
    if (is_long) {
        struct wire_part part = {.total_bytes = (uint32_t)size, .bytes = kv_slice(whole, size)};
        header.kind = WIRE_PART;
        header.count = 0;
        wire_put_header(&cursor, &header);
        wire_put_part(&cursor, &part);
    } else {
        write_bytes(&cursor, whole, size);
    }
    return write_cursor_used(&cursor);
}

bool explore_client_send(struct daemon_client *client)
{
    uint8_t message[256];
    if (client->in_flight == client->welcome.credits && !explore_client_take(client))
        return false;
    unsigned number = client->sent++;
    EXPLORE_CHECK(number < CLIENT_REQUESTS, "the harness sends too many");
    struct request_fate *fate = &client->fates[number];
    bool is_long = explored.plan.has_long_ones && explore_random(4) == 0;
    size_t size = explored.plan.datafiles > 0 ? build_put(client, number, message)
                                              : build_request(client, number, is_long, message);
    atomic_store(&fate->is_tried, true);
    if (wire_send(client->lane, message, size, 0, SEND_MS) != 0) {
        EXPLORE_CHECK(atomic_load(&explored.stopping) || explore_is_gone(DAEMON),
                      "a client waits a minute for its lane");
        return false;
    }
    atomic_store(&fate->is_in_time, !atomic_load(&explored.stopping));
    atomic_store(&fate->is_sent, true);
    client->in_flight++;
    return true;
}

bool explore_client_ask(struct daemon_client *client, const struct wire_operation *operation,
                        struct wire_result *result, uint8_t message[WIRE_MIN_REPLY_BYTES])
{
    struct wire_header header = {.kind = WIRE_REQUEST,
                                 .session = client->session,
                                 .count = 1,
                                 .request_id = CLIENT_REQUESTS,
                                 .secret = client->welcome.cookie};
    uint8_t request[256];
    struct write_cursor cursor = write_cursor(request, sizeof request);
    wire_put_header(&cursor, &header);
    EXPLORE_CHECK(client->in_flight == 0 && wire_put_operation(&cursor, operation), "no request");
    if (wire_send(client->lane, request, write_cursor_used(&cursor), 0, SEND_MS) != 0 ||
        !wait_for_message(client))
        return false;
    struct read_cursor body = receive(client, message, &header);
    EXPLORE_CHECK(header.kind == WIRE_REPLY && header.request_id == CLIENT_REQUESTS,
                  "an answer to something else");
    *result = (struct wire_result){.status = header.status};
    EXPLORE_CHECK(header.count == 0 || wire_get_result(&body, result) == KV_OK,
                  "a malformed result");
    return true;
}

void explore_client_intrude(struct daemon_client *client, const char *name)
{
    uint8_t message[256];
    mqd_t lane;
    if (client->sent == CLIENT_REQUESTS || strcmp(name, client->lane_name) == 0 ||
        wire_queue_open(name, true, &lane, NULL, NULL) != KV_OK)
        return;
    unsigned number = client->sent++;
    size_t size = build_request(client, number, false, message);
    atomic_store(&client->fates[number].is_tried, true);
    atomic_store(&client->fates[number].is_forbidden, true);
    mq_send(lane, (const char *)message, size, 0);
    mq_close(lane);
}

void explore_client_say_bye(const struct daemon_client *client)
{
    uint8_t message[WIRE_HEADER_BYTES];
    struct wire_header header = {.kind = WIRE_BYE,
                                 .session = client->session,
                                 .request_id = CLIENT_REQUESTS,
                                 .secret = client->welcome.cookie};
    struct write_cursor cursor = write_cursor(message, sizeof message);
    wire_put_header(&cursor, &header);
    wire_send(client->lane, message, write_cursor_used(&cursor), 0, SEND_MS);
}

void explore_client_close(struct daemon_client *client)
{
    if (client->lane != client->door && client->lane != (mqd_t)-1)
        mq_close(client->lane);
    if (client->door != (mqd_t)-1)
        mq_close(client->door);
    if (client->reply != (mqd_t)-1)
        mq_close(client->reply);
    if (client->server >= 0)
        close(client->server);
}

void explore_daemon_judge(void)
{
    for (unsigned i = 0; i < DAEMON_CLIENTS; i++)
        for (unsigned j = 0; j < CLIENT_REQUESTS; j++) {
            struct request_fate *fate = &explored.clients[i].fates[j];
            unsigned executed = atomic_load(&fate->executed);
            if (explored.plan.datafiles > 0)
                continue;
            EXPLORE_CHECK(executed <= 1, "request %u of client %u was executed twice", j, i);
            EXPLORE_CHECK(executed == 0 || atomic_load(&fate->is_tried), "nobody sent it");
            EXPLORE_CHECK(executed == 0 || !atomic_load(&fate->is_forbidden),
                          "request %u of client %u came through the lane of another user", j, i);
            EXPLORE_CHECK(executed == 1 || !atomic_load(&fate->is_in_time),
                          "request %u of client %u was sent, and not executed", j, i);
        }
}
