/* The pipelines of clientk.h on a peer: operations are collected until a batch is full and executed
 * in one go; the window is one. Filling a peer with keys goes this way. */
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"
#include "mqkv/clientk.h"

/* Where the caller leaves the choice: more gains Redis and memcached nothing. */
#define DEFAULT_BATCH 128u

struct pending {
    void *tag;
    uint8_t *bytes; /* copies of key and value */
    size_t capacity;
};

struct clientk_pipeline {
    struct clientk *client;
    clientk_complete complete;
    void *context;
    uint32_t batch, count;
    struct pending *pending;
    struct clientk_operation *operations;
    struct clientk_result *results;
};

enum kv_status clientk_pipeline_open(struct clientk *client, uint32_t window, uint32_t batch,
                                     clientk_complete complete, void *context,
                                     struct clientk_pipeline **pipeline, struct kv_error *error)
{
    struct clientk_pipeline *opened = calloc(1, sizeof *opened);
    (void)window;
    *pipeline = opened;
    if (!opened)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a pipeline");
    opened->client = client;
    opened->complete = complete;
    opened->context = context;
    opened->batch = batch > 0 ? batch : DEFAULT_BATCH;
    opened->pending = calloc(opened->batch, sizeof *opened->pending);
    opened->operations = calloc(opened->batch, sizeof *opened->operations);
    opened->results = calloc(opened->batch, sizeof *opened->results);
    if (opened->pending && opened->operations && opened->results)
        return KV_OK;
    clientk_pipeline_close(opened);
    *pipeline = NULL;
    return kv_error_set(error, KV_NO_MEMORY, "no memory for a pipeline");
}

static bool keep(struct pending *pending, struct clientk_operation *operation)
{
    size_t size = operation->key.size + operation->value.size;
    if (size > pending->capacity) {
        uint8_t *grown = realloc(pending->bytes, size);
        if (!grown)
            return false;
        pending->bytes = grown;
        pending->capacity = size;
    }
    memcpy(pending->bytes, operation->key.data, operation->key.size);
    if (operation->value.size > 0)
        memcpy(pending->bytes + operation->key.size, operation->value.data, operation->value.size);
    operation->value = kv_slice(pending->bytes + operation->key.size, operation->value.size);
    operation->key = kv_slice(pending->bytes, operation->key.size);
    return true;
}

enum kv_status clientk_pipeline_submit(struct clientk_pipeline *pipeline,
                                       const struct clientk_operation *operation, void *tag)
{
    uint32_t at = pipeline->count;
    pipeline->operations[at] = *operation;
    pipeline->pending[at].tag = tag;
    if (!keep(&pipeline->pending[at], &pipeline->operations[at]))
        return KV_NO_MEMORY;
    pipeline->count++;
    return pipeline->count < pipeline->batch ? KV_OK : clientk_pipeline_flush(pipeline);
}

enum kv_status clientk_pipeline_flush(struct clientk_pipeline *pipeline)
{
    uint32_t count = pipeline->count;
    enum kv_status status = KV_OK;
    if (count == 0)
        return KV_OK;
    pipeline->count = 0;
    status = clientk_execute(pipeline->client, pipeline->operations, count, pipeline->results);
    for (uint32_t i = 0; i < count; i++)
        pipeline->complete(pipeline->context, pipeline->pending[i].tag, &pipeline->results[i]);
    return status;
}

void clientk_pipeline_close(struct clientk_pipeline *pipeline)
{
    if (!pipeline)
        return;
    clientk_pipeline_flush(pipeline);
    for (uint32_t i = 0; pipeline->pending && i < pipeline->batch; i++)
        free(pipeline->pending[i].bytes);
    for (uint32_t i = 0; pipeline->results && i < pipeline->batch; i++)
        clientk_value_free(&pipeline->results[i].value);
    free(pipeline->pending);
    free(pipeline->operations);
    free(pipeline->results);
    free(pipeline);
}
