#include "experiments/peers/backend_versioned.h"

#include <inttypes.h>
#include <stdio.h>

#define NUMBER_BYTES 24u

static enum kv_status add(void *connection, const struct clientk_operation *operation,
                          struct clientk_result *result)
{
    char text[NUMBER_BYTES];
    uint64_t version;
    bool refused = true;
    enum kv_status status = KV_OK;
    while (refused && status == KV_OK) {
        status = versioned_get(connection, operation->key, &version, &result->value);
        if (status != KV_OK)
            break;
        result->number =
            (version > 0 ? versioned_number(connection, &result->value) : 0) + operation->delta;
        int size = snprintf(text, sizeof text, "%" PRId64, result->number);
        status = versioned_put(connection, operation->key, kv_slice(text, (size_t)size), &version,
                               &refused);
    }
    return status;
}

enum kv_status backend_execute(void *connection, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    enum kv_status status = KV_OK;
    for (size_t i = 0; i < count && status == KV_OK; i++) {
        uint64_t version = 0;
        bool refused = false;
        results[i].status = KV_OK;
        switch (operations[i].opcode) {
        case CLIENTK_PUT:
            status =
                versioned_put(connection, operations[i].key, operations[i].value, NULL, &refused);
            break;
        case CLIENTK_GET:
            status = versioned_get(connection, operations[i].key, &version, &results[i].value);
            results[i].status = version > 0 ? KV_OK : KV_NOT_FOUND;
            break;
        case CLIENTK_ADD:
            status = add(connection, &operations[i], &results[i]);
            break;
        default:
            return KV_UNSUPPORTED;
        }
    }
    return status;
}
