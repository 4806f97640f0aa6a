#include "experiments/peers/backend.h"
#include "common/report/error.h"
#include "mqkv/clientk_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct clientk {
    char *address;
    pthread_key_t connection; /* of each thread */
};

enum kv_status backend_set_value(struct clientk_value *value, const void *data, size_t size)
{
    if (size + 1 > value->capacity) {
        void *grown = realloc(value->data, size + 1);
        if (!grown)
            return KV_NO_MEMORY;
        value->data = grown;
        value->capacity = size + 1;
    }
    memcpy(value->data, data, size);
    ((char *)value->data)[size] = '\0';
    value->size = size;
    return KV_OK;
}

static void *own_connection(struct clientk *client, struct kv_error *error)
{
    void *connection = pthread_getspecific(client->connection);
    if (!connection && (connection = backend_connect(client->address, error)) != NULL)
        pthread_setspecific(client->connection, connection);
    return connection;
}

static enum kv_status open_address(struct clientk *client, const char *address,
                                   struct kv_error *error)
{
    if (!address || !(client->address = strdup(address)))
        return kv_error_set(error, KV_USAGE, "name the peer's socket with -m");
    return own_connection(client, error) ? KV_OK : KV_NO_SERVER;
}

enum kv_status clientk_open(const struct clientk_options *options, struct clientk **client,
                            struct kv_error *error)
{
    struct clientk *opened = calloc(1, sizeof *opened);
    if (!opened)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a client");
    if (pthread_key_create(&opened->connection, backend_disconnect) != 0) {
        free(opened);
        return kv_error_set(error, KV_LIMIT, "no thread keys left");
    }
    enum kv_status status = open_address(opened, options ? options->queue : NULL, error);
    if (status == KV_OK)
        *client = opened;
    else
        clientk_close(opened);
    return status;
}

void clientk_close(struct clientk *client)
{
    if (!client)
        return;
    void *connection = pthread_getspecific(client->connection);
    if (connection)
        backend_disconnect(connection);
    pthread_key_delete(client->connection);
    free(client->address);
    free(client);
}

enum kv_status clientk_execute(struct clientk *client, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    struct kv_error error = {0};
    void *connection = own_connection(client, &error);
    enum kv_status status =
        connection ? backend_execute(connection, operations, count, results) : KV_NO_SERVER;
    for (size_t i = 0; status != KV_OK && i < count; i++)
        results[i].status = status;
    return status;
}

static enum kv_status execute_one(struct clientk *client, const struct clientk_operation *operation,
                                  struct clientk_value *value)
{
    struct clientk_result result = {.value = *value};
    enum kv_status status = clientk_execute(client, operation, 1, &result);
    *value = result.value;
    return status == KV_OK ? result.status : status;
}

enum kv_status clientk_get(struct clientk *client, struct kv_slice key, struct clientk_value *value)
{
    return execute_one(client, &(struct clientk_operation){.opcode = CLIENTK_GET, .key = key},
                       value);
}

enum kv_status clientk_put(struct clientk *client, struct kv_slice key, struct kv_slice value,
                           const struct clientk_write_options *options, uint64_t *version)
{
    struct clientk_value unused = {0};
    (void)options;
    if (version)
        *version = 0;
    return execute_one(
        client, &(struct clientk_operation){.opcode = CLIENTK_PUT, .key = key, .value = value},
        &unused);
}

void clientk_value_free(struct clientk_value *value)
{
    free(value->data);
    *value = (struct clientk_value){0};
}

const char *clientk_last_error(void)
{
    return "the peer failed";
}

/* What the clientk program also links to, but a bench of a peer has no use for. */
/* NOLINTBEGIN(misc-unused-parameters): they look at nothing */

#define NOT_FOR_PEERS(name, ...)     \
    enum kv_status name(__VA_ARGS__) \
    {                                \
        return KV_UNSUPPORTED;       \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
NOT_FOR_PEERS(clientk_exists, struct clientk *c, struct kv_slice k, struct clientk_value *v)
NOT_FOR_PEERS(clientk_delete, struct clientk *c, struct kv_slice k,
              const struct clientk_write_options *o, uint64_t *version)
NOT_FOR_PEERS(clientk_add, struct clientk *c, struct kv_slice k, int64_t d,
              const struct clientk_add_options *o, int64_t *s, uint64_t *version)
NOT_FOR_PEERS(clientk_append, struct clientk *c, struct kv_slice k, struct kv_slice s,
              const struct clientk_write_options *o, uint64_t *n, uint64_t *version)
NOT_FOR_PEERS(clientk_exchange, struct clientk *c, struct kv_slice k, struct kv_slice v,
              const struct clientk_write_options *o, struct clientk_value *old, bool *found,
              uint64_t *version)
NOT_FOR_PEERS(clientk_touch, struct clientk *c, struct kv_slice k, uint64_t expiry_ms,
              const struct clientk_write_options *o, uint64_t *version)
NOT_FOR_PEERS(clientk_scan, struct clientk *c, struct kv_slice p, bool keys_only, uint64_t *cursor,
              uint64_t limit, clientk_visit visit, void *context)
NOT_FOR_PEERS(clientk_scan_atomic, struct clientk *c, struct kv_slice p, bool keys_only,
              clientk_visit visit, void *context)
NOT_FOR_PEERS(clientk_set_priority, struct clientk *c, unsigned priority)
NOT_FOR_PEERS(clientk_stats, struct clientk *c, const char *section, struct clientk_value *json)
NOT_FOR_PEERS(clientk_admin, struct clientk *c, const char *command, struct kv_slice argument,
              struct clientk_value *answer)
NOT_FOR_PEERS(clientk_ping, struct clientk *c, uint64_t *round_trip_ns)
NOT_FOR_PEERS(clientk_delete_prefix, struct clientk *c, struct kv_slice p, uint64_t *cursor,
              uint64_t *deleted)
NOT_FOR_PEERS(clientk_cursor_open, struct clientk *c, const struct clientk_range *range,
              struct clientk_cursor **cursor)
NOT_FOR_PEERS(clientk_cursor_next, struct clientk_cursor *cursor, struct clientk_entry *entry)
NOT_FOR_PEERS(clientk_count_range, struct clientk *c, const struct clientk_range *range,
              uint64_t *count)
NOT_FOR_PEERS(clientk_delete_range, struct clientk *c, const struct clientk_range *range,
              uint64_t *deleted)
NOT_FOR_PEERS(clientk_sync, struct clientk *c)
NOT_FOR_PEERS(clientk_transact, struct clientk *c, const struct clientk_transaction *transaction,
              struct clientk_result *results, struct clientk_transacted *transacted)
NOT_FOR_PEERS(clientk_get_together, struct clientk *c, const struct kv_slice *keys, size_t count,
              struct clientk_result *results)
NOT_FOR_PEERS(clientk_watch_open, struct clientk *c, const struct clientk_watch_options *options,
              struct clientk_watch **watch, struct kv_error *error)
NOT_FOR_PEERS(clientk_watch_next, struct clientk_watch *watch, int timeout_ms,
              struct clientk_change *change)
NOT_FOR_PEERS(clientk_watch_position, struct clientk_watch *watch, struct clientk_value *text)
NOT_FOR_PEERS(clientk_watch_transaction, const struct clientk_watch *watch,
              struct clientk_change_transaction *transaction)

NOT_FOR_PEERS(clientk_queue_open, struct clientk *c, struct kv_slice name,
              const struct clientk_queue_options *options, struct clientk_queue **queue,
              struct kv_error *error)
NOT_FOR_PEERS(clientk_queue_put, struct clientk_queue *q, const struct kv_slice *payloads,
              size_t count, const struct clientk_put_job_options *options, uint64_t *ids,
              size_t *put)
NOT_FOR_PEERS(clientk_queue_take, struct clientk_queue *q, size_t count, int timeout_ms,
              struct clientk_job *jobs, size_t *taken)
NOT_FOR_PEERS(clientk_queue_ack, struct clientk_queue *q, const struct clientk_job *jobs,
              size_t count)
NOT_FOR_PEERS(clientk_queue_fail, struct clientk_queue *q, const struct clientk_job *job,
              struct kv_slice reason, int64_t delay_ms, bool *dead)
NOT_FOR_PEERS(clientk_queue_release, struct clientk_queue *q, const struct clientk_job *job,
              uint64_t delay_ms)
NOT_FOR_PEERS(clientk_queue_bury, struct clientk_queue *q, const struct clientk_job *job,
              struct kv_slice reason)
NOT_FOR_PEERS(clientk_queue_extend, struct clientk_queue *q, struct clientk_job *job,
              uint64_t lease_ms)
NOT_FOR_PEERS(clientk_queue_read_receipt, struct kv_slice text, struct clientk_job *job)
NOT_FOR_PEERS(clientk_queue_length, struct clientk_queue *q, struct clientk_queue_lengths *lengths)
NOT_FOR_PEERS(clientk_queue_list, struct clientk_queue *q, enum clientk_job_state state,
              uint64_t limit, clientk_visit_job visit, void *context)
NOT_FOR_PEERS(clientk_queue_revive, struct clientk_queue *q, uint64_t limit, uint64_t *count)
NOT_FOR_PEERS(clientk_queue_drop, struct clientk_queue *q, enum clientk_job_state state,
              uint64_t limit, uint64_t *count)

void clientk_queue_receipt(const struct clientk_job *job, char text[CLIENTK_RECEIPT_BYTES])
{
    (void)job;
    text[0] = '\0';
}

void clientk_queue_close(struct clientk_queue *queue)
{
    (void)queue;
}

void clientk_job_free(struct clientk_job *job)
{
    (void)job;
}

void clientk_cursor_close(struct clientk_cursor *cursor)
{
    (void)cursor;
}

void clientk_watch_close(struct clientk_watch *watch)
{
    (void)watch;
}

void clientk_info(struct clientk *client, struct clientk_info *info)
{
    *info = (struct clientk_info){.max_value_bytes = UINT32_MAX};
}
/* NOLINTEND(misc-unused-parameters) */
