/* The bare echo (echo.h): messages of the sizes that mqkv's would have, nothing done. The address
 * is NAME:VALUE_BYTES:GROUPS, or NAME:VALUE_BYTES:GROUPS:shared for answers through shared memory.
 * An operation does not say how large the value is that a GET would find; and threads share
 * messages in so many groups, as those of mqkv's library do when there are many (0: each thread has
 * its own). */
#include "common/report/error.h"
#include "experiments/peers/backend.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/base/large_values.h"
#include "common/text/parse.h"
#include "experiments/peers/echo.h"
#include "experiments/peers/echo_group.h"
#include "experiments/peers/echo_link.h"
#include "wire/message.h"

#define MAX_GROUPS 8u

struct echo_connection {
    struct echo_link *link;   /* its own, or ... */
    struct echo_group *group; /* ... NULL, and one that is shared */
    struct wire_waiter waiter;
    uint64_t value_bytes; /* that a GET finds */
};

struct address {
    char base[ECHO_NAME_BYTES];
    uint64_t value_bytes, groups;
    bool shares_replies;
};

/* Of the process: the threads of a load are those of one client. */
static struct {
    pthread_mutex_t lock;
    struct echo_group groups[MAX_GROUPS];
    unsigned users, next;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool parse_address(const char *text, struct address *address)
{
    char *fields = strdup(text), *rest = fields;
    const char *base = fields ? strsep(&rest, ":") : NULL;
    const char *value_bytes = fields ? strsep(&rest, ":") : NULL;
    const char *groups = value_bytes ? strsep(&rest, ":") : NULL;
    address->shares_replies = rest;
    bool good = groups && strlen(base) < sizeof address->base &&
                parse_u64(value_bytes, 0, UINT32_MAX, &address->value_bytes) &&
                parse_u64(groups, 0, MAX_GROUPS, &address->groups) &&
                (!rest || strcmp(rest, "shared") == 0);
    if (good)
        memcpy(address->base, base, strlen(base) + 1);
    free(fields);
    return good;
}

/* The group that the next thread belongs to, with its link; NULL: the sentence is in *error. */
static struct echo_group *join_group(const struct address *address, struct kv_error *error)
{
    pthread_mutex_lock(&shared.lock);
    struct echo_group *group = &shared.groups[shared.next++ % address->groups];
    if (!group->link)
        group->link = echo_link_open(address->base, 0, address->shares_replies, error);
    bool joined = group->link != NULL;
    shared.users += joined;
    pthread_mutex_unlock(&shared.lock);
    return joined ? group : NULL;
}

static void leave_group(void)
{
    pthread_mutex_lock(&shared.lock);
    if (--shared.users == 0) {
        for (unsigned i = 0; i < MAX_GROUPS; i++) {
            if (shared.groups[i].link)
                echo_link_close(shared.groups[i].link);
            shared.groups[i].link = NULL;
        }
    }
    pthread_mutex_unlock(&shared.lock);
}

static bool goes_through_segment(uint64_t value_bytes)
{
    return value_bytes > VALUE_INLINE_MAX_BYTES;
}

void *backend_connect(const char *text, struct kv_error *error)
{
    struct echo_connection *connection = calloc(1, sizeof *connection);
    struct address address = {0};
    if (!connection || !parse_address(text, &address)) {
        free(connection);
        kv_error_set(error, KV_USAGE, "%s: NAME:VALUE_BYTES:GROUPS[:shared] is expected", text);
        return NULL;
    }
    connection->value_bytes = address.value_bytes;
    wire_waiter_init(&connection->waiter, (struct wire_spin){.mode = WIRE_SPIN_AUTO});
    uint32_t segment_bytes =
        goes_through_segment(address.value_bytes) ? (uint32_t)address.value_bytes : 0;
    if (address.groups > 0)
        connection->group = join_group(&address, error);
    else
        connection->link =
            echo_link_open(address.base, segment_bytes, address.shares_replies, error);
    if (connection->group || connection->link)
        return connection;
    free(connection);
    return NULL;
}

void backend_disconnect(void *handle)
{
    struct echo_connection *connection = handle;
    if (connection->group)
        leave_group();
    else
        echo_link_close(connection->link);
    free(connection);
}

/* What the operation and its result take in mqkv's messages, and beside them. */
static void add_sizes(const struct echo_connection *connection,
                      const struct clientk_operation *operation, struct echo_sizes *sizes)
{
    bool is_put = operation->opcode == CLIENTK_PUT;
    bool takes = is_put && goes_through_segment(operation->value.size);
    bool gives = !is_put && goes_through_segment(connection->value_bytes);
    struct wire_operation request = {.opcode = is_put ? WIRE_OP_PUT : WIRE_OP_GET,
                                     .flags = takes ? WIRE_VALUE_IN_SEGMENT : 0,
                                     .key = operation->key,
                                     .value = operation->value};
    struct wire_result result = {.flags =
                                     WIRE_RESULT_HAS_VERSION | (gives ? WIRE_RESULT_IN_SEGMENT : 0),
                                 .value = kv_slice(NULL, is_put ? 0 : connection->value_bytes)};
    sizes->request_bytes += wire_operation_size(&request);
    sizes->reply_bytes += wire_result_size(&result);
    sizes->taken_bytes += takes ? (uint32_t)operation->value.size : 0;
    sizes->given_bytes += gives ? (uint32_t)connection->value_bytes : 0;
}

static enum kv_status execute_alone(const struct echo_connection *connection,
                                    const struct clientk_operation *operations,
                                    struct echo_sizes *sizes, struct clientk_result *results)
{
    struct wire_segment *segment = echo_link_segment(connection->link);
    size_t most = echo_link_message_bytes(connection->link);
    sizes->request_bytes += WIRE_HEADER_BYTES;
    sizes->reply_bytes += WIRE_HEADER_BYTES;
    if (sizes->request_bytes > most || sizes->reply_bytes > most)
        return KV_BUFFER_TOO_SMALL;
    /* A value that needs the segment has it for itself: what does not fit is refused here. */
    if (sizes->taken_bytes > 0 &&
        !(segment && wire_segment_write(segment, 0, operations->value.data, sizes->taken_bytes)))
        return KV_BUFFER_TOO_SMALL;
    enum kv_status status = echo_link_exchange(connection->link, sizes);
    if (status != KV_OK || sizes->given_bytes == 0)
        return status;
    const void *value = segment ? wire_segment_at(segment, 0, sizes->given_bytes) : NULL;
    return value ? backend_set_value(&results->value, value, sizes->given_bytes)
                 : KV_BUFFER_TOO_SMALL;
}

static enum kv_status execute_together(struct echo_connection *connection,
                                       const struct echo_sizes *sizes)
{
    struct echo_group *group = connection->group;
    size_t most = echo_link_message_bytes(group->link) - WIRE_HEADER_BYTES;
    if (sizes->request_bytes > most || sizes->reply_bytes > most)
        return KV_BUFFER_TOO_SMALL;
    struct echo_call call = {.request_bytes = sizes->request_bytes,
                             .reply_bytes = sizes->reply_bytes};
    return echo_group_execute(group, &call, &connection->waiter);
}

enum kv_status backend_execute(void *handle, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    struct echo_connection *connection = handle;
    struct echo_sizes sizes = {0};
    for (size_t i = 0; i < count; i++)
        add_sizes(connection, &operations[i], &sizes);
    bool through_segment = sizes.taken_bytes > 0 || sizes.given_bytes > 0;
    enum kv_status status = KV_UNSUPPORTED;
    if (connection->group && !through_segment)
        status = execute_together(connection, &sizes);
    else if (connection->link && (count == 1 || !through_segment))
        status = execute_alone(connection, operations, &sizes, results);
    for (size_t i = 0; i < count; i++)
        results[i].status = status;
    return status;
}
