/* The least that a GET can be: a copy of its value out of a file that is mapped. The address is
 * FILE:VALUE_BYTES:KEYS; the file has all values, one after the other, and the bytes of a key say
 * which is its own. Nothing is looked up, compared or verified. */
#include "common/report/error.h"
#include "experiments/peers/backend.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/text/parse.h"

struct copy_connection {
    const uint8_t *values;
    uint64_t value_bytes, keys;
};

static const uint8_t *map_file(const char *path, size_t size)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return MAP_FAILED;
    const uint8_t *values = MAP_FAILED;
    if (posix_fallocate(file, 0, (off_t)size) == 0)
        values = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    close(file);
    return values;
}

static bool open_values(struct copy_connection *connection, char *address)
{
    char *rest = address;
    const char *path = strsep(&rest, ":"), *value_bytes = rest ? strsep(&rest, ":") : NULL;
    if (!rest || !parse_u64(value_bytes, 1, UINT32_MAX, &connection->value_bytes) ||
        !parse_u64(rest, 1, UINT32_MAX, &connection->keys))
        return false;
    connection->values = map_file(path, connection->value_bytes * connection->keys);
    return connection->values != MAP_FAILED;
}

void *backend_connect(const char *address, struct kv_error *error)
{
    struct copy_connection *connection = calloc(1, sizeof *connection);
    char *fields = strdup(address);
    bool opened = connection && fields && open_values(connection, fields);
    free(fields);
    if (opened)
        return connection;
    free(connection);
    kv_error_set(error, KV_NO_SERVER, "%s: no file, or not FILE:VALUE_BYTES:KEYS", address);
    return NULL;
}

void backend_disconnect(void *handle)
{
    struct copy_connection *connection = handle;
    munmap((void *)(uintptr_t)connection->values, connection->value_bytes * connection->keys);
    free(connection);
}

static uint64_t number_of(struct kv_slice key, uint64_t keys)
{
    const char *text = key.data;
    uint64_t number = 0;
    for (size_t i = 0; i < key.size; i++)
        number = number * 31 + (uint8_t)text[i];
    return number % keys;
}

enum kv_status backend_execute(void *handle, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    const struct copy_connection *connection = handle;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = number_of(operations[i].key, connection->keys);
        results[i].status = KV_OK;
        if (operations[i].opcode == CLIENTK_GET)
            results[i].status = backend_set_value(
                &results[i].value, connection->values + number * connection->value_bytes,
                connection->value_bytes);
    }
    return KV_OK;
}
