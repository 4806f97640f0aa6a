#include "serverk/transfer.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/copy.h"

#define PART_FIELD_BYTES 8u /* total_bytes, offset */

static bool budget_take(struct transfer_budget *budget, uint64_t bytes)
{
    uint64_t used = atomic_fetch_add(&budget->used_bytes, bytes) + bytes;
    if (used <= budget->max_bytes)
        return true;
    atomic_fetch_sub(&budget->used_bytes, bytes);
    return false;
}

static void budget_return(struct transfer_budget *budget, uint64_t bytes)
{
    atomic_fetch_sub(&budget->used_bytes, bytes);
}

void transfers_init(struct transfers *transfers)
{
    *transfers = (struct transfers){0};
    pthread_mutex_init(&transfers->lock, NULL);
}

void transfer_free(struct transfer_message *message, struct transfer_budget *budget)
{
    if (!message->data)
        return;
    budget_return(budget, message->size);
    free(message->data);
    *message = (struct transfer_message){0};
}

void transfers_clear(struct transfers *transfers, struct transfer_budget *budget)
{
    transfer_free(&transfers->assembly, budget);
    for (unsigned i = 0; i < TRANSFER_MAX_STORED; i++)
        transfer_free(&transfers->stored[i], budget);
    pthread_mutex_destroy(&transfers->lock);
}

/* Requests in parts -------------------------------------------------------------------------------- */

/* Makes room for a new request in place of one that was not finished. holds: lock. */
static enum kv_status start_assembly(struct transfer_message *assembly,
                                     struct transfer_budget *budget, uint64_t request_id,
                                     uint32_t total_bytes)
{
    transfer_free(assembly, budget);
    if (total_bytes > budget->message_max_bytes)
        return KV_VALUE_TOO_BIG;
    if (!budget_take(budget, total_bytes))
        return KV_OVERLOADED;
    uint8_t *data = malloc(total_bytes);
    if (!data) {
        budget_return(budget, total_bytes);
        return KV_NO_MEMORY;
    }
    *assembly =
        (struct transfer_message){.data = data, .size = total_bytes, .request_id = request_id};
    return KV_OK;
}

/* holds: lock. */
static enum kv_status take_part(struct transfer_message *assembly, struct transfer_budget *budget,
                                uint64_t request_id, const struct wire_part *part)
{
    if (part->total_bytes == 0)
        return KV_BAD_REQUEST; /* the form of MORE */
    if (part->offset == 0) {
        enum kv_status status = start_assembly(assembly, budget, request_id, part->total_bytes);
        if (status != KV_OK)
            return status;
    }
    if (!assembly->data || assembly->request_id != request_id || part->offset != assembly->done ||
        part->total_bytes != assembly->size) {
        transfer_free(assembly, budget);
        return KV_BAD_REQUEST;
    }
    copy_bytes(assembly->data + assembly->done, part->bytes.data, part->bytes.size);
    assembly->done += part->bytes.size;
    return KV_OK;
}

enum kv_status transfer_take_part(struct transfers *transfers, struct transfer_budget *budget,
                                  uint64_t request_id, const struct wire_part *part,
                                  struct transfer_message *whole)
{
    *whole = (struct transfer_message){0};
    pthread_mutex_lock(&transfers->lock);
    struct transfer_message *assembly = &transfers->assembly;
    enum kv_status status = take_part(assembly, budget, request_id, part);
    if (status == KV_OK && assembly->done == assembly->size) {
        *whole = *assembly;
        *assembly = (struct transfer_message){0};
    }
    pthread_mutex_unlock(&transfers->lock);
    return status;
}

/* Replies in parts --------------------------------------------------------------------------------- */

bool transfer_reserve(struct transfers *transfers, struct transfer_budget *budget)
{
    pthread_mutex_lock(&transfers->lock);
    unsigned taken = transfers->reserved;
    for (unsigned i = 0; i < TRANSFER_MAX_STORED; i++)
        taken += transfers->stored[i].data != NULL;
    bool granted = taken < TRANSFER_MAX_STORED && budget_take(budget, budget->message_max_bytes);
    transfers->reserved += granted;
    pthread_mutex_unlock(&transfers->lock);
    return granted;
}

void transfer_cancel(struct transfers *transfers, struct transfer_budget *budget)
{
    pthread_mutex_lock(&transfers->lock);
    transfers->reserved--;
    pthread_mutex_unlock(&transfers->lock);
    budget_return(budget, budget->message_max_bytes);
}

bool transfer_store(struct transfers *transfers, struct transfer_budget *budget,
                    uint64_t request_id, const void *data, size_t size)
{
    uint8_t *copy = malloc(size);
    if (!copy) {
        transfer_cancel(transfers, budget);
        return false;
    }
    copy_bytes(copy, data, size);
    pthread_mutex_lock(&transfers->lock);
    struct transfer_message *place = transfers->stored;
    while (place->data) /* the reservation says that one is free */
        place++;
    *place = (struct transfer_message){.data = copy, .size = size, .request_id = request_id};
    transfers->reserved--;
    pthread_mutex_unlock(&transfers->lock);
    budget_return(budget, budget->message_max_bytes - size);
    return true;
}

/* holds: lock. */
static struct transfer_message *find_stored(struct transfers *transfers, uint64_t request_id)
{
    for (unsigned i = 0; i < TRANSFER_MAX_STORED; i++)
        if (transfers->stored[i].data && transfers->stored[i].request_id == request_id)
            return &transfers->stored[i];
    return NULL;
}

bool transfer_next_piece(struct transfers *transfers, struct transfer_budget *budget,
                         const struct wire_header *header, uint32_t offset,
                         struct write_cursor *cursor)
{
    pthread_mutex_lock(&transfers->lock);
    struct transfer_message *stored = find_stored(transfers, header->request_id);
    bool found = stored && stored->done == offset;
    if (found) {
        wire_put_header(cursor, header);
        size_t room = write_cursor_left(cursor) - PART_FIELD_BYTES;
        size_t left = stored->size - stored->done;
        struct wire_part part = {
            .total_bytes = (uint32_t)stored->size,
            .offset = offset,
            .bytes = kv_slice(stored->data + stored->done, left < room ? left : room)};
        wire_put_part(cursor, &part);
        stored->done += part.bytes.size;
        if (stored->done == stored->size)
            transfer_free(stored, budget);
    }
    pthread_mutex_unlock(&transfers->lock);
    return found;
}
