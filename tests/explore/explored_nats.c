#include "tests/explore/explored_nats.h"

#include <inttypes.h>
#include <nats/nats.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_connect.h"
#include "tests/explore/explore.h"
#include "tests/explore/seeded_schedule.h"

#define HERE        __builtin_return_address(0)
#define HEADERS_MAX 9u
#define EVENTS_MAX  512u
#define NS_PER_MS   UINT64_C(1000000)
#define MAX_PAYLOAD 4096
#define LIMBO_MAX   16u
#define BATCHES_MAX 4u /* open at once */
#define BATCH_MAX   8u /* messages */
#define BATCH_NS    (UINT64_C(10000) * NS_PER_MS)
#define TEXT_BYTES  2048u

struct __natsMsg {
    char subject[96], reply[64];
    char *data;
    int size;
    unsigned header_count;
    struct nats_header {
        char name[48], value[96];
    } headers[HEADERS_MAX];
    natsMsg *next; /* in the queue of a subscription */
};

struct __natsSubscription {
    natsMsgHandler handler;
    void *context;
    natsConnection *connection;
    natsMsg *first, *last;
    bool is_ended; /* nothing is delivered any more; its thread frees it */
};

struct __natsConnection {
    struct nats_events events;
    natsSubscription *subscription;
    bool is_lost, is_closed;
    bool is_to_be_told; /* that it is closed */
    uint64_t last_ns; /* when the last message of a batch comes: they do not overtake each other */
    unsigned uses;    /* the owner's, the network's, and those of what is under way */
};

/* What comes at a time. */
enum network_event { REQUEST_COMES, ANSWER_COMES };

struct event {
    uint64_t due_ns;
    enum network_event kind;
    natsMsg *message; /* NULL: the place is free */
    natsConnection *connection;
    bool waits; /* a request that was sent while the connection was lost */
};

/* A batch that is not complete. */
struct open_batch {
    char id[64]; /* "": the place is free */
    unsigned count;
    natsMsg *messages[BATCH_MAX];
    uint64_t last_ns; /* when its last message came */
};

static struct {
    struct event events[EVENTS_MAX];
    struct open_batch batches[BATCHES_MAX];
    natsConnection *connection; /* the last that was made */
    bool may_fail, is_ending, is_closed, is_telling;
    unsigned delivering; /* threads of subscriptions */
    unsigned left;       /* objects of the library */
    uint64_t no_leader_until_ns;
    unsigned connects;
    struct {
        char id[48];
        uint64_t until_ns;
    } limbo[LIMBO_MAX]; /* writes of which the cluster says until then that they are in process */
    unsigned next_limbo;
} network;

struct explored_cluster explored_cluster;

static void *need(void *memory)
{
    EXPLORE_CHECK(memory, "no memory for the library of NATS");
    return memory;
}

/* One of so many chances. */
static bool fails(unsigned chances)
{
    return network.may_fail && explore_random(chances) == 0;
}

/* Messages ------------------------------------------------------------------------------------- */

natsStatus natsMsg_Create(natsMsg **result, const char *subject, const char *reply,
                          const char *data, int size)
{
    natsMsg *message = need(calloc(1, sizeof *message));
    snprintf(message->subject, sizeof message->subject, "%s", subject);
    snprintf(message->reply, sizeof message->reply, "%s", reply ? reply : "");
    message->data = need(malloc((size_t)size + 1));
    if (size > 0)
        memcpy(message->data, data, (size_t)size);
    message->data[size] = '\0';
    message->size = size;
    network.left++;
    *result = message;
    return NATS_OK;
}

void natsMsg_Destroy(natsMsg *message)
{
    if (!message)
        return;
    network.left--;
    free(message->data);
    free(message);
}

const char *natsMsg_GetSubject(const natsMsg *message)
{
    return message->subject;
}

const char *natsMsg_GetReply(const natsMsg *message)
{
    return message->reply[0] ? message->reply : NULL;
}

const char *natsMsg_GetData(const natsMsg *message)
{
    return message->data;
}

int natsMsg_GetDataLength(const natsMsg *message)
{
    return message->size;
}

natsStatus natsMsgHeader_Set(natsMsg *message, const char *name, const char *value)
{
    EXPLORE_CHECK(message->header_count < HEADERS_MAX, "a message has too many headers");
    struct nats_header *header = &message->headers[message->header_count++];
    snprintf(header->name, sizeof header->name, "%s", name);
    snprintf(header->value, sizeof header->value, "%s", value);
    return NATS_OK;
}

natsStatus natsMsgHeader_Get(natsMsg *message, const char *name, const char **value)
{
    for (unsigned i = 0; i < message->header_count; i++)
        if (strcmp(message->headers[i].name, name) == 0) {
            *value = message->headers[i].value;
            return NATS_OK;
        }
    return NATS_NOT_FOUND;
}

natsStatus natsMsgHeader_Values(natsMsg *message, const char *name, const char ***values,
                                int *count)
{
    const char *value;
    if (natsMsgHeader_Get(message, name, &value) != NATS_OK)
        return NATS_NOT_FOUND;
    *values = need(malloc(sizeof **values));
    **values = value;
    *count = 1;
    return NATS_OK;
}

/* NULL: it has none. */
static const char *header_of(const natsMsg *message, const char *name)
{
    const char *value;
    return natsMsgHeader_Get((natsMsg *)(uintptr_t)message, name, &value) == NATS_OK ? value : NULL;
}

static natsMsg *copy_of(const natsMsg *message)
{
    natsMsg *copy;
    natsMsg_Create(&copy, message->subject, message->reply, message->data, message->size);
    memcpy(copy->headers, message->headers, sizeof copy->headers);
    copy->header_count = message->header_count;
    return copy;
}

/* Connections ---------------------------------------------------------------------------------- */

static void release_connection(natsConnection *connection)
{
    if (connection && --connection->uses == 0) {
        network.left--;
        free(connection);
    }
}

enum kv_status __wrap_nats_connect(const struct natskv_options *options,
                                   const struct nats_events *events, natsConnection **result,
                                   struct kv_error *error);
enum kv_status __wrap_nats_connect(const struct natskv_options *options,
                                   const struct nats_events *events, natsConnection **result,
                                   struct kv_error *error)
{
    (void)options;
    if (network.may_fail && network.connects > 0)
        explore_sleep_ms(explore_random(300));
    if (network.connects > 0 && fails(2)) {
        snprintf(error->text, sizeof error->text, "nobody is there");
        return KV_NO_SERVER;
    }
    network.connects++;
    natsConnection *connection = need(calloc(1, sizeof *connection));
    network.left++;
    connection->events = *events;
    connection->uses = 2;
    network.connection = connection;
    *result = connection;
    return KV_OK;
}

void __wrap_nats_connect_prepare(const struct natskv_options *options);
void __wrap_nats_connect_prepare(const struct natskv_options *options)
{
    (void)options;
}

const char *__wrap_nats_urls_shown(const char *urls, char text[NATS_SHOWN_BYTES]);
const char *__wrap_nats_urls_shown(const char *urls, char text[NATS_SHOWN_BYTES])
{
    snprintf(text, NATS_SHOWN_BYTES, "%s", urls);
    return text;
}

natsConnStatus natsConnection_Status(natsConnection *connection)
{
    schedule_step(HERE);
    return connection->is_closed ? NATS_CONN_STATUS_CLOSED
           : connection->is_lost ? NATS_CONN_STATUS_RECONNECTING
                                 : NATS_CONN_STATUS_CONNECTED;
}

bool natsConnection_IsClosed(natsConnection *connection)
{
    return connection->is_closed;
}

int64_t natsConnection_GetMaxPayload(natsConnection *connection)
{
    (void)connection;
    return MAX_PAYLOAD;
}

natsStatus natsConnection_GetLastError(natsConnection *connection, const char **text)
{
    (void)connection;
    *text = "";
    return NATS_OK;
}

natsStatus natsConnection_GetConnectedUrl(natsConnection *connection, char *text, size_t size)
{
    (void)connection;
    snprintf(text, size, "nats://explored");
    return NATS_OK;
}

/* The network tells of it, and forgets the connection. */
void natsConnection_Close(natsConnection *connection)
{
    if (connection && !connection->is_closed) {
        connection->is_closed = true;
        connection->is_to_be_told = true;
    }
}

void natsConnection_Destroy(natsConnection *connection)
{
    natsConnection_Close(connection);
    release_connection(connection);
}

/* Requests under way --------------------------------------------------------------------------- */

/* How long it takes: mostly little, and at times longer than anybody waits. */
static uint64_t draw_delay_ns(void)
{
    if (fails(10))
        return explore_random(8000) * NS_PER_MS;
    return explore_random(network.may_fail ? 5000 : 500) * UINT64_C(1000);
}

/* Takes over the message. */
static void send_later(enum network_event kind, natsMsg *message, natsConnection *connection,
                       bool waits)
{
    struct event *event = network.events;
    while (event < network.events + EVENTS_MAX && event->message)
        event++;
    EXPLORE_CHECK(event < network.events + EVENTS_MAX, "too many messages are under way");
    uint64_t due_ns = explore_clock_ns() + draw_delay_ns();
    if (header_of(message, "Nats-Batch-Id")) {
        if (due_ns <= connection->last_ns)
            due_ns = connection->last_ns + 1;
        connection->last_ns = due_ns;
    }
    *event = (struct event){.due_ns = due_ns,
                            .kind = kind,
                            .message = message,
                            .connection = connection,
                            .waits = waits};
    connection->uses++;
}

natsStatus natsConnection_PublishMsg(natsConnection *connection, natsMsg *message)
{
    schedule_step(HERE);
    natsStatus status = NATS_OK;
    if (connection->is_closed)
        status = NATS_CONNECTION_CLOSED;
    else if (message->size > MAX_PAYLOAD)
        status = NATS_MAX_PAYLOAD;
    else
        send_later(REQUEST_COMES, copy_of(message), connection, connection->is_lost);
    return status;
}

/* The stream ----------------------------------------------------------------------------------- */

/* The sequence of the subject's last message; 0: there is none. */
static uint64_t last_of(const char *subject)
{
    for (uint64_t i = explored_cluster.last_sequence; i > 0; i--)
        if (strcmp(explored_cluster.messages[i].subject, subject) == 0)
            return i;
    return 0;
}

static uint64_t sequence_of_id(const char *id)
{
    for (uint64_t i = explored_cluster.last_sequence; i > 0; i--)
        if (strcmp(explored_cluster.messages[i].id, id) == 0)
            return i;
    return 0;
}

static void answer(const natsMsg *request, natsConnection *connection, const char *status,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));

static void answer(const natsMsg *request, natsConnection *connection, const char *status,
                   const char *format, ...)
{
    char text[TEXT_BYTES];
    natsMsg *message;
    va_list arguments;
    if (!request->reply[0])
        return;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    natsMsg_Create(&message, request->reply, NULL, text, size);
    if (status)
        natsMsgHeader_Set(message, "Status", status);
    if (fails(10))
        natsMsg_Destroy(message);
    else
        send_later(ANSWER_COMES, message, connection, false);
}

static void store_message(const natsMsg *request, const char *id)
{
    const char *value;
    EXPLORE_CHECK(explored_cluster.last_sequence + 1 < NATS_STORED_MAX, "the stream is full");
    struct stored_message *stored = &explored_cluster.messages[++explored_cluster.last_sequence];
    snprintf(stored->subject, sizeof stored->subject, "%s", request->subject);
    EXPLORE_CHECK((size_t)request->size < sizeof stored->value, "a value is too large");
    memcpy(stored->value, request->data, (size_t)request->size + 1);
    snprintf(stored->id, sizeof stored->id, "%s", id);
    stored->is_tombstone =
        natsMsgHeader_Get((natsMsg *)(uintptr_t)request, "KV-Operation", &value) == NATS_OK;
}

/* Whether a copy of this request is being executed. */
static bool is_in_limbo(const char *id)
{
    for (unsigned i = 0; i < LIMBO_MAX; i++)
        if (strcmp(network.limbo[i].id, id) == 0 && network.limbo[i].until_ns > explore_clock_ns())
            return true;
    return false;
}

static void put_into_limbo(const char *id)
{
    unsigned at = network.next_limbo++ % LIMBO_MAX;
    snprintf(network.limbo[at].id, sizeof network.limbo[at].id, "%s", id);
    network.limbo[at].until_ns = explore_clock_ns() + explore_random(4000) * NS_PER_MS;
}

/* Batches -------------------------------------------------------------------------------------- */

static void drop_batch(struct open_batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++)
        natsMsg_Destroy(batch->messages[i]);
    *batch = (struct open_batch){.id = ""};
}

static void drop_batches(void)
{
    for (unsigned i = 0; i < BATCHES_MAX; i++)
        drop_batch(&network.batches[i]);
}

/* The open batch of that id, or a place for it; NULL: there is none. Old ones are dropped. */
static struct open_batch *batch_of(const char *id)
{
    struct open_batch *place = NULL;
    for (unsigned i = 0; i < BATCHES_MAX; i++) {
        struct open_batch *batch = &network.batches[i];
        if (batch->id[0] && batch->last_ns + BATCH_NS < explore_clock_ns())
            drop_batch(batch);
        if (strcmp(batch->id, id) == 0)
            return batch;
        if (!batch->id[0])
            place = batch;
    }
    return place;
}

static void refuse(const natsMsg *request, natsConnection *connection, unsigned kind, unsigned code)
{
    answer(request, connection, NULL,
           "{\"error\":{\"code\":%u,\"err_code\":%u,\"description\":\"refused\"}}", kind, code);
}

/* Returns the error code for which the stream does not take the message of a batch; 0: it does. */
static unsigned refusal_of(const natsMsg *message)
{
    const char *id = header_of(message, "Nats-Msg-Id");
    const char *expected = header_of(message, "Nats-Expected-Last-Subject-Sequence");
    const char *other = header_of(message, "Nats-Expected-Last-Subject-Sequence-Subject");
    EXPLORE_CHECK(id, "a write has no id");
    if (is_in_limbo(id))
        return 10158;
    if (sequence_of_id(id) > 0)
        return 10201;
    bool is_changed =
        expected && strtoull(expected, NULL, 10) != last_of(other ? other : message->subject);
    return is_changed ? 10071 : 0;
}

/* Stores all messages of a batch, or none. */
static void commit_batch(struct open_batch *batch, natsConnection *connection)
{
    const natsMsg *last = batch->messages[batch->count - 1];
    for (unsigned i = 0; i < batch->count; i++) {
        unsigned code = refusal_of(batch->messages[i]);
        if (code == 0)
            continue;
        refuse(last, connection, 400, code);
        return;
    }
    bool comes_to_nothing = fails(24), lasts = fails(6);
    if (comes_to_nothing || fails(16)) {
        bool not_now = fails(2);
        if (!comes_to_nothing)
            refuse(last, connection, not_now ? 503 : 400, not_now ? 10009 : 10164);
        for (unsigned i = 0; i < batch->count && comes_to_nothing; i++)
            put_into_limbo(header_of(batch->messages[i], "Nats-Msg-Id"));
        return;
    }
    for (unsigned i = 0; i < batch->count; i++) {
        const char *id = header_of(batch->messages[i], "Nats-Msg-Id");
        store_message(batch->messages[i], id);
        if (lasts)
            put_into_limbo(id);
    }
    answer(last, connection, NULL,
           "{\"stream\":\"KV_x_0\",\"seq\":%" PRIu64 ",\"batch\":\"%s\",\"count\":%u}",
           explored_cluster.last_sequence, batch->id, batch->count);
}

static void take_batch_message(const natsMsg *request, natsConnection *connection)
{
    const char *id = header_of(request, "Nats-Batch-Id");
    const char *number = header_of(request, "Nats-Batch-Sequence");
    EXPLORE_CHECK(number, "a message of a batch has no number");
    struct open_batch *batch = batch_of(id);
    if (!batch || strtoul(number, NULL, 10) != batch->count + 1) {
        if (batch)
            drop_batch(batch);
        refuse(request, connection, 400, batch ? 10176 : 10210);
        return;
    }
    EXPLORE_CHECK(batch->count < BATCH_MAX, "a batch is too large");
    snprintf(batch->id, sizeof batch->id, "%s", id);
    batch->messages[batch->count++] = copy_of(request);
    batch->last_ns = explore_clock_ns();
    if (!header_of(request, "Nats-Batch-Commit"))
        return;
    commit_batch(batch, connection);
    drop_batch(batch);
}

/* A write: refused, lost, or executed and acknowledged. */
static void write_message(natsMsg *request, natsConnection *connection)
{
    const char *id = "", *expected = NULL;
    natsMsgHeader_Get(request, "Nats-Msg-Id", &id);
    natsMsgHeader_Get(request, "Nats-Expected-Last-Subject-Sequence", &expected);
    EXPLORE_CHECK(id[0], "a write has no id");
    uint64_t earlier = sequence_of_id(id);
    if (is_in_limbo(id)) {
        answer(request, connection, NULL,
               "{\"error\":{\"code\":409,\"err_code\":10158,\"description\":\"in process\"}}");
    } else if (earlier > 0) {
        answer(request, connection, NULL,
               "{\"stream\":\"KV_x_0\",\"seq\":%" PRIu64 ",\"duplicate\":true}", earlier);
    } else if (fails(24)) {
        answer(request, connection, NULL,
               "{\"error\":{\"code\":503,\"err_code\":10023,\"description\":\"no room\"}}");
    } else if (fails(16)) {
        answer(request, connection, NULL,
               "{\"error\":{\"code\":503,\"err_code\":10009,\"description\":\"not now\"}}");
    } else if (fails(24)) {
        put_into_limbo(id); /* it comes to nothing, after a while */
    } else if (expected && strtoull(expected, NULL, 10) != last_of(request->subject)) {
        answer(request, connection, NULL,
               "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong\"}}");
    } else {
        store_message(request, id);
        if (fails(6))
            put_into_limbo(id);
        answer(request, connection, NULL, "{\"stream\":\"KV_x_0\",\"seq\":%" PRIu64 "}",
               explored_cluster.last_sequence);
    }
}

static void to_base64(const char *bytes, size_t size, char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        unsigned count = size - i < 3 ? (unsigned)(size - i) : 3;
        uint32_t group = 0;
        for (unsigned j = 0; j < 3; j++)
            group = group << 8 | (j < count ? (unsigned char)bytes[i + j] : 0);
        for (unsigned j = 0; j < 4; j++)
            *text++ = j <= count ? digits[group >> (18 - 6 * j) & 63] : '=';
    }
    *text = '\0';
}

static void read_as_json(const natsMsg *request, natsConnection *connection, uint64_t sequence)
{
    const struct stored_message *stored = &explored_cluster.messages[sequence];
    char headers[256], headers_text[512], value_text[1024];
    if (fails(16)) {
        answer(request, connection, NULL, "{\"error\":{\"code\":503,\"err_code\":10008}}");
        return;
    }
    if (sequence == 0) {
        answer(request, connection, NULL, "{\"error\":{\"code\":404,\"err_code\":10037}}");
        return;
    }
    int size = snprintf(headers, sizeof headers, "NATS/1.0\r\nNats-Msg-Id: %s\r\n%s\r\n",
                        stored->id, stored->is_tombstone ? "KV-Operation: DEL\r\n" : "");
    to_base64(headers, (size_t)size, headers_text);
    to_base64(stored->value, strlen(stored->value), value_text);
    answer(request, connection, NULL,
           "{\"message\":{\"subject\":\"%s\",\"seq\":%" PRIu64 ",\"hdrs\":\"%s\",\"data\":\"%s\"}}",
           stored->subject, sequence, headers_text, value_text);
}

static void read_as_message(const natsMsg *request, natsConnection *connection, uint64_t sequence)
{
    const struct stored_message *stored = &explored_cluster.messages[sequence];
    char number[24];
    natsMsg *message;
    if (sequence == 0) {
        answer(request, connection, "404", "%s", "");
        return;
    }
    natsMsg_Create(&message, request->reply, NULL, stored->value, (int)strlen(stored->value));
    snprintf(number, sizeof number, "%" PRIu64, sequence);
    natsMsgHeader_Set(message, "Nats-Sequence", number);
    natsMsgHeader_Set(message, "Nats-Msg-Id", stored->id);
    if (stored->is_tombstone)
        natsMsgHeader_Set(message, "KV-Operation", "DEL");
    send_later(ANSWER_COMES, message, connection, false);
}

static void read_message(const natsMsg *request, natsConnection *connection, bool is_direct)
{
    static const char before[] = "{\"last_by_subj\":\"";
    char subject[64] = "";
    EXPLORE_CHECK(strncmp(request->data, before, sizeof before - 1) == 0, "a read of %s",
                  request->data);
    const char *begin = request->data + sizeof before - 1;
    snprintf(subject, sizeof subject, "%.*s", (int)strcspn(begin, "\""), begin);
    if (is_direct)
        read_as_message(request, connection, last_of(subject));
    else
        read_as_json(request, connection, last_of(subject));
}

static int print_stream(char text[TEXT_BYTES])
{
    return snprintf(text, TEXT_BYTES,
                    "{\"config\":{\"name\":\"KV_x_0\",\"num_replicas\":%u,"
                    "\"max_msgs_per_subject\":1,\"allow_direct\":true,\"allow_atomic\":true,"
                    "\"metadata\":{\"mqkv-format\":\"1\",\"mqkv-shards\":\"1\","
                    "\"_nats.ver\":\"2.12.15\"}},\"state\":{\"messages\":%" PRIu64
                    ",\"bytes\":1,\"first_seq\":1,\"last_seq\":%" PRIu64 "}}",
                    explored_cluster.replicas, explored_cluster.last_sequence,
                    explored_cluster.last_sequence);
}

static void take_request(natsMsg *request, natsConnection *connection)
{
    char text[TEXT_BYTES];
    if (fails(40))
        network.no_leader_until_ns = explore_clock_ns() + explore_random(3000) * NS_PER_MS;
    if (fails(header_of(request, "Nats-Batch-Id") ? 30 : 12))
        return;
    if (network.may_fail && network.no_leader_until_ns > explore_clock_ns())
        answer(request, connection, "503", "%s", "");
    else if (header_of(request, "Nats-Batch-Id"))
        take_batch_message(request, connection);
    else if (strncmp(request->subject, "$KV.", 4) == 0)
        write_message(request, connection);
    else if (strncmp(request->subject, "$JS.API.DIRECT.GET.", 19) == 0)
        read_message(request, connection, true);
    else if (strncmp(request->subject, "$JS.API.STREAM.MSG.GET.", 23) == 0)
        read_message(request, connection, false);
    else if (print_stream(text) > 0)
        answer(request, connection, NULL, "%s", text);
}

/* Its caller waits; nothing has failed yet when natskv asks for its bucket. */
natsStatus natsConnection_RequestString(natsMsg **reply, natsConnection *connection,
                                        const char *subject, const char *text, int64_t timeout_ms)
{
    char answered[TEXT_BYTES] = "{\"api\":{\"level\":2}}";
    int size = (int)strlen(answered);
    (void)connection, (void)text, (void)timeout_ms;
    if (strcmp(subject, "$JS.API.INFO") != 0)
        size = print_stream(answered);
    return natsMsg_Create(reply, "answer", NULL, answered, size);
}

/* Answers -------------------------------------------------------------------------------------- */

static bool has_delivery(const void *what)
{
    const natsSubscription *subscription = what;
    return subscription->first || subscription->is_ended;
}

static void free_subscription(natsSubscription *subscription)
{
    while (subscription->first) {
        natsMsg *message = subscription->first;
        subscription->first = message->next;
        natsMsg_Destroy(message);
    }
    network.left--;
    free(subscription);
}

static void deliver_answers(void *argument)
{
    natsSubscription *subscription = argument;
    for (;;) {
        explore_wait_until(has_delivery, subscription);
        if (subscription->is_ended)
            break;
        natsMsg *message = subscription->first;
        subscription->first = message->next;
        subscription->handler(NULL, subscription, message, subscription->context);
    }
    free_subscription(subscription);
    network.delivering--;
}

natsStatus natsConnection_Subscribe(natsSubscription **result, natsConnection *connection,
                                    const char *subject, natsMsgHandler handler, void *context)
{
    (void)subject;
    natsSubscription *subscription = need(calloc(1, sizeof *subscription));
    network.left++;
    subscription->handler = handler;
    subscription->context = context;
    subscription->connection = connection;
    connection->subscription = subscription;
    network.delivering++;
    explore_other_thread(schedule_process(), deliver_answers, subscription);
    *result = subscription;
    return NATS_OK;
}

natsStatus natsSubscription_SetPendingLimits(natsSubscription *subscription, int messages,
                                             int bytes)
{
    (void)subscription, (void)messages, (void)bytes;
    return NATS_OK;
}

void natsSubscription_Destroy(natsSubscription *subscription)
{
    if (subscription) {
        subscription->connection->subscription = NULL;
        subscription->is_ended = true;
    }
}

static void take_answer(natsMsg *message, const natsConnection *connection)
{
    natsSubscription *subscription = connection->subscription;
    if (!subscription || connection->is_closed) {
        natsMsg_Destroy(message);
        return;
    }
    message->next = NULL;
    if (subscription->first)
        subscription->last->next = message;
    else
        subscription->first = message;
    subscription->last = message;
}

/* The network ---------------------------------------------------------------------------------- */

static struct event *next_event(void)
{
    struct event *next = NULL;
    for (unsigned i = 0; i < EVENTS_MAX; i++) {
        struct event *event = &network.events[i];
        if (event->message && !event->waits && (!next || event->due_ns < next->due_ns))
            next = event;
    }
    return next;
}

static void drop_event(struct event *event)
{
    natsConnection *connection = event->connection;
    event->message = NULL;
    release_connection(connection);
}

static void take_event(struct event *event)
{
    natsMsg *message = event->message;
    natsConnection *connection = event->connection;
    connection->uses++;
    drop_event(event);
    if (event->kind == REQUEST_COMES) {
        take_request(message, connection);
        natsMsg_Destroy(message);
    } else {
        take_answer(message, connection);
    }
    release_connection(connection);
}

static void tell(natsConnection *connection, void (*event)(natsConnection *, void *))
{
    network.is_telling = true;
    event(connection, connection->events.context);
    network.is_telling = false;
}

/* Answers to a connection that is lost do not come; requests may. */
static void lose_connection(natsConnection *connection)
{
    connection->is_lost = true;
    for (unsigned i = 0; i < EVENTS_MAX; i++) {
        struct event *event = &network.events[i];
        if (event->message && event->connection == connection &&
            (event->kind == ANSWER_COMES || explore_random(2) == 0)) {
            natsMsg_Destroy(event->message);
            drop_event(event);
        }
    }
    tell(connection, connection->events.lost);
    explore_sleep_ms(explore_random(3000));
    if (connection->is_closed)
        return;
    if (explore_random(3) == 0) {
        connection->is_closed = connection->is_to_be_told = true;
        return;
    }
    connection->is_lost = false;
    for (unsigned i = 0; i < EVENTS_MAX; i++)
        if (network.events[i].connection == connection)
            network.events[i].waits = false;
    tell(connection, connection->events.found_again);
}

/* Tells of a connection that is closed. What was to be sent on it is not. */
static void forget_closed(natsConnection *connection)
{
    for (unsigned i = 0; i < EVENTS_MAX; i++) {
        struct event *event = &network.events[i];
        if (event->message && event->waits && event->connection == connection) {
            natsMsg_Destroy(event->message);
            drop_event(event);
        }
    }
    tell(connection, connection->events.closed);
    connection->is_to_be_told = false;
    if (network.connection == connection)
        network.connection = NULL;
    release_connection(connection);
}

static bool is_to_be_told(void)
{
    return network.connection && network.connection->is_to_be_told;
}

static bool is_over(void)
{
    return network.is_ending && network.is_closed && !next_event();
}

static bool has_work(const void *unused)
{
    (void)unused;
    const struct event *next = next_event();
    return is_to_be_told() || is_over() ||
           (next && (network.is_ending || next->due_ns <= explore_clock_ns()));
}

static void run_network(void *unused)
{
    (void)unused;
    while (!is_over()) {
        struct event *next = next_event();
        if (is_to_be_told())
            forget_closed(network.connection);
        else if (network.connection && !network.connection->is_closed && next && fails(60))
            lose_connection(network.connection);
        else if (next && has_work(NULL))
            take_event(next);
        else
            schedule_wait(has_work, NULL, next ? next->due_ns : UINT64_MAX, HERE);
    }
    drop_batches();
}

/* Nothing of the library runs any more. */
static bool is_library_silent(const void *unused)
{
    (void)unused;
    return network.delivering == 0 && !network.is_telling && !is_to_be_told();
}

natsStatus nats_CloseAndWait(int64_t timeout_ms)
{
    (void)timeout_ms;
    schedule_wait(is_library_silent, NULL, UINT64_MAX, HERE);
    network.is_closed = true;
    schedule_note_wake();
    return NATS_OK;
}

natsStatus natsInbox_Create(natsInbox **inbox)
{
    *inbox = need(strdup("_INBOX.explored"));
    return NATS_OK;
}

void natsInbox_Destroy(natsInbox *inbox)
{
    free(inbox);
}

const char *natsStatus_GetText(natsStatus status)
{
    return status == NATS_OK ? "OK" : "failed";
}

/* Scans and sweeps, which no harness does. */

natsStatus natsConnection_SubscribeSync(natsSubscription **result, natsConnection *connection,
                                        const char *subject)
{
    (void)result, (void)connection, (void)subject;
    return NATS_ERR;
}

natsStatus natsConnection_PublishRequestString(natsConnection *connection, const char *subject,
                                               const char *reply, const char *text)
{
    (void)connection, (void)subject, (void)reply, (void)text;
    return NATS_ERR;
}

natsStatus natsSubscription_NextMsg(natsMsg **message, natsSubscription *subscription,
                                    int64_t timeout_ms)
{
    (void)message, (void)subscription, (void)timeout_ms;
    return NATS_ERR;
}

/* Life ----------------------------------------------------------------------------------------- */

void explored_nats_begin(unsigned process, bool may_fail)
{
    memset(&network, 0, sizeof network);
    memset(&explored_cluster, 0, sizeof explored_cluster);
    explored_cluster.replicas = explore_random(2) == 0 ? 1 : 3;
    network.may_fail = may_fail;
    explore_other_thread(process, run_network, NULL);
}

void explored_nats_end(void)
{
    network.may_fail = false;
    network.is_ending = true;
    schedule_note_wake();
}

unsigned explored_nats_left(void)
{
    return network.left;
}
