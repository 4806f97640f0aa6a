/* memcached through its text protocol (doc/protocol.txt of memcached 1.6), whole replies read into
 * one buffer a connection. */
#include "common/report/error.h"
#include "experiments/peers/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct memcached_connection {
    int socket;
    char *out; /* commands of one call */
    size_t out_bytes, out_capacity;
    char *in; /* received and not yet used: in[in_at .. in_end) */
    size_t in_at, in_end, in_capacity;
};

void *backend_connect(const char *address, struct kv_error *error)
{
    struct memcached_connection *connection = calloc(1, sizeof *connection);
    struct sockaddr_un where = {.sun_family = AF_UNIX};

    if (!connection)
        return NULL;
    snprintf(where.sun_path, sizeof where.sun_path, "%s", address);
    connection->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->socket < 0 ||
        connect(connection->socket, (struct sockaddr *)&where, sizeof where) != 0) {
        kv_error_set_errno(error, "%s", address);
        backend_disconnect(connection);
        return NULL;
    }
    return connection;
}

void backend_disconnect(void *handle)
{
    struct memcached_connection *connection = handle;
    if (connection->socket >= 0)
        close(connection->socket);
    free(connection->out);
    free(connection->in);
    free(connection);
}

static bool grow(char **buffer, size_t *capacity, size_t needed)
{
    if (needed <= *capacity)
        return true;
    size_t wanted = needed * 2;
    char *grown = realloc(*buffer, wanted);
    if (!grown)
        return false;
    *buffer = grown;
    *capacity = wanted;
    return true;
}

static bool append(struct memcached_connection *connection, const void *data, size_t size)
{
    if (!grow(&connection->out, &connection->out_capacity, connection->out_bytes + size))
        return false;
    if (size > 0)
        memcpy(connection->out + connection->out_bytes, data, size);
    connection->out_bytes += size;
    return true;
}

static bool append_command(struct memcached_connection *connection,
                           const struct clientk_operation *operation)
{
    static const char *const names[] = {[CLIENTK_GET] = "get ",
                                        [CLIENTK_EXISTS] = "get ",
                                        [CLIENTK_PUT] = "set ",
                                        [CLIENTK_DELETE] = "delete "};
    char tail[32] = "\r\n";
    if (operation->opcode > CLIENTK_DELETE)
        return false;
    const char *name = names[operation->opcode];
    if (operation->opcode == CLIENTK_PUT)
        snprintf(tail, sizeof tail, " 0 0 %zu\r\n", operation->value.size);
    return append(connection, name, strlen(name)) &&
           append(connection, operation->key.data, operation->key.size) &&
           append(connection, tail, strlen(tail)) &&
           (operation->opcode != CLIENTK_PUT ||
            (append(connection, operation->value.data, operation->value.size) &&
             append(connection, "\r\n", 2)));
}

static bool send_all(struct memcached_connection *connection)
{
    for (size_t sent = 0; sent < connection->out_bytes;) {
        ssize_t now = send(connection->socket, connection->out + sent, connection->out_bytes - sent,
                           MSG_NOSIGNAL);
        if (now < 0 && errno != EINTR)
            return false;
        sent += now > 0 ? (size_t)now : 0;
    }
    return true;
}

static bool receive_more(struct memcached_connection *connection)
{
    if (connection->in_at == connection->in_end)
        connection->in_at = connection->in_end = 0;
    if (!grow(&connection->in, &connection->in_capacity, connection->in_end + 65536))
        return false;
    ssize_t now = recv(connection->socket, connection->in + connection->in_end,
                       connection->in_capacity - connection->in_end, 0);
    if (now > 0)
        connection->in_end += (size_t)now;
    return now > 0 || (now < 0 && errno == EINTR);
}

/* The next line without its end; NULL: the connection broke. Valid until the next call. */
static const char *take_line(struct memcached_connection *connection, size_t *line_bytes)
{
    for (;;) {
        char *start = connection->in + connection->in_at;
        size_t have = connection->in_end - connection->in_at;
        char *end = have > 0 ? memmem(start, have, "\r\n", 2) : NULL;
        if (end) {
            *line_bytes = (size_t)(end - start);
            connection->in_at += *line_bytes + 2;
            return start;
        }
        if (!receive_more(connection))
            return NULL;
    }
}

static const char *take_bytes(struct memcached_connection *connection, size_t size)
{
    while (connection->in_end - connection->in_at < size)
        if (!receive_more(connection))
            return NULL;
    connection->in_at += size;
    return connection->in + connection->in_at - size;
}

static bool starts(const char *line, size_t line_bytes, const char *word)
{
    return line_bytes >= strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

static enum kv_status take_value(struct memcached_connection *connection, const char *line,
                                 size_t line_bytes, struct clientk_result *result)
{
    const char *size_at = memrchr(line, ' ', line_bytes);
    size_t size = size_at ? strtoul(size_at + 1, NULL, 10) : 0;
    const char *bytes = take_bytes(connection, size + 2);
    if (!bytes)
        return KV_IO;
    result->status = backend_set_value(&result->value, bytes, size);
    return take_line(connection, &line_bytes) ? KV_OK : KV_IO; /* END */
}

static enum kv_status take_reply(struct memcached_connection *connection,
                                 struct clientk_result *result)
{
    size_t line_bytes;
    const char *line = take_line(connection, &line_bytes);
    if (!line)
        return KV_IO;
    if (starts(line, line_bytes, "VALUE "))
        return take_value(connection, line, line_bytes, result);
    if (starts(line, line_bytes, "END") || starts(line, line_bytes, "NOT_FOUND"))
        result->status = KV_NOT_FOUND;
    else
        result->status = starts(line, line_bytes, "STORED") || starts(line, line_bytes, "DELETED")
                             ? KV_OK
                             : KV_IO;
    return result->status == KV_IO ? KV_IO : KV_OK;
}

enum kv_status backend_execute(void *handle, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    struct memcached_connection *connection = handle;
    connection->out_bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (!append_command(connection, &operations[i]))
            return KV_UNSUPPORTED;
    if (!send_all(connection))
        return KV_IO;
    for (size_t i = 0; i < count; i++) {
        enum kv_status status = take_reply(connection, &results[i]);
        if (status != KV_OK)
            return status;
    }
    return KV_OK;
}
