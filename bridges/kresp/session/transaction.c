#include "bridges/kresp/session/transaction.h"

#include <stdlib.h>

struct queued_span {
    size_t offset, size;
};

bool redis_transaction_queue(struct redis_transaction *transaction,
                             const struct redis_command *command, const struct kv_slice *arguments,
                             size_t count, size_t max_bytes)
{
    struct queued_command queued = {
        command, byte_buffer_size(&transaction->spans) / sizeof(struct queued_span), count};
    for (size_t i = 0; i < count; i++) {
        struct queued_span span = {byte_buffer_size(&transaction->bytes), arguments[i].size};
        byte_buffer_append(&transaction->spans, &span, sizeof span);
        byte_buffer_append(&transaction->bytes, arguments[i].data, arguments[i].size);
    }
    byte_buffer_append(&transaction->commands, &queued, sizeof queued);
    return !transaction->commands.failed && !transaction->spans.failed &&
           !transaction->bytes.failed &&
           byte_buffer_size(&transaction->commands) + byte_buffer_size(&transaction->spans) +
                   byte_buffer_size(&transaction->bytes) <=
               max_bytes;
}

size_t redis_transaction_count(const struct redis_transaction *transaction)
{
    return byte_buffer_size(&transaction->commands) / sizeof(struct queued_command);
}

struct queued_command redis_transaction_command(const struct redis_transaction *transaction,
                                                size_t i)
{
    struct queued_command command;
    memcpy(&command, transaction->commands.data + i * sizeof command, sizeof command);
    return command;
}

struct kv_slice redis_transaction_argument(const struct redis_transaction *transaction,
                                           const struct queued_command *command, size_t i)
{
    struct queued_span span;
    memcpy(&span, transaction->spans.data + (command->first_argument + i) * sizeof span,
           sizeof span);
    return kv_slice(transaction->bytes.data + span.offset, span.size);
}

static void free_queue(struct redis_transaction *transaction)
{
    byte_buffer_free(&transaction->commands);
    byte_buffer_free(&transaction->spans);
    byte_buffer_free(&transaction->bytes);
}

void redis_transaction_break(struct redis_transaction *transaction)
{
    free_queue(transaction);
    transaction->broken = true;
}

void redis_transaction_clear(struct redis_transaction *transaction)
{
    free_queue(transaction);
    transaction->broken = false;
    transaction->state = TRANSACTION_NONE;
}

struct watched_key *redis_transaction_watch(struct redis_transaction *transaction,
                                            struct kv_slice key, bool *is_new)
{
    *is_new = false;
    for (struct watched_key *watched = transaction->watched; watched; watched = watched->next)
        if (kv_slice_equal(kv_slice(watched->key, watched->size), key))
            return watched;
    struct watched_key *watched = malloc(sizeof *watched + key.size);
    if (!watched)
        return NULL;
    watched->version = 0;
    watched->size = key.size;
    if (key.size > 0)
        memcpy(watched->key, key.data, key.size);
    watched->next = transaction->watched;
    transaction->watched = watched;
    transaction->watched_count++;
    *is_new = true;
    return watched;
}

void redis_transaction_unwatch(struct redis_transaction *transaction)
{
    while (transaction->watched) {
        struct watched_key *watched = transaction->watched;
        transaction->watched = watched->next;
        free(watched);
    }
    transaction->watched_count = 0;
}

void redis_transaction_free(struct redis_transaction *transaction)
{
    redis_transaction_clear(transaction);
    redis_transaction_unwatch(transaction);
}
