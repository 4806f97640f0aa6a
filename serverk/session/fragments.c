#include "serverk/session/fragments.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/copy.h"

#define PART_FIELD_BYTES 8u /* total_bytes, offset */

/* What a request in parts is given at first; it doubles with what comes. */
#define FIRST_BYTES (64u << 10)

/* The budget --------------------------------------------------------------------------------------- */

static _Atomic uint64_t *user_bytes(struct transfer_budget *budget, uid_t uid)
{
    return &budget->user_bytes[uid % TRANSFER_USERS];
}

static void budget_return(struct transfer_budget *budget, uid_t uid, uint64_t bytes)
{
    atomic_fetch_sub(&budget->used_bytes, bytes);
    atomic_fetch_sub(user_bytes(budget, uid), bytes);
}

static bool budget_try(struct transfer_budget *budget, uid_t uid, uint64_t bytes)
{
    uint64_t limit = budget->user_max_bytes != 0 && uid != budget->owner ? budget->user_max_bytes
                                                                         : budget->max_bytes;
    uint64_t of_user = atomic_fetch_add(user_bytes(budget, uid), bytes) + bytes;
    uint64_t of_all = atomic_fetch_add(&budget->used_bytes, bytes) + bytes;
    if (of_user <= limit && of_all <= budget->max_bytes)
        return true;
    budget_return(budget, uid, bytes);
    return false;
}

void transfer_free(struct transfer_message *message, struct transfer_budget *budget)
{
    if (!message->data)
        return;
    budget_return(budget, message->uid, message->charged);
    free(message->data);
    *message = (struct transfer_message){0};
}

/* Gives up what one session has begun. Holds: its lock. */
static void give_up(struct transfers *transfers, struct transfer_budget *budget)
{
    if (transfers->assembly.data)
        transfers->given_up_part = transfers->assembly.request_id;
    transfer_free(&transfers->assembly, budget);
    for (unsigned i = 0; i < TRANSFER_MAX_STORED; i++) {
        if (transfers->stored[i].data)
            transfers->given_up_reply = transfers->stored[i].request_id;
        transfer_free(&transfers->stored[i], budget);
    }
}

/* The budget is short: gives up what has not got on for a while, in other sessions. Whose lock is taken
 * is busy, so it gets on. Holds: the lock of `own`. */
static void make_room(struct transfer_budget *budget, const struct transfers *own)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    pthread_mutex_lock(&budget->lock);
    for (struct transfers *other = budget->first; other; other = other->next) {
        if (other == own || pthread_mutex_trylock(&other->lock) != 0)
            continue;
        if (now_ms - other->progress_ms >= TRANSFER_PATIENCE_MS)
            give_up(other, budget);
        pthread_mutex_unlock(&other->lock);
    }
    pthread_mutex_unlock(&budget->lock);
}

/* Holds: transfers.lock. */
static void enlist(struct transfers *transfers, struct transfer_budget *budget)
{
    pthread_mutex_lock(&budget->lock);
    transfers->next = budget->first;
    if (transfers->next)
        transfers->next->previous = transfers;
    budget->first = transfers;
    transfers->listed = true;
    pthread_mutex_unlock(&budget->lock);
}

static void unlist(struct transfers *transfers, struct transfer_budget *budget)
{
    if (!transfers->listed)
        return;
    pthread_mutex_lock(&budget->lock);
    if (transfers->next)
        transfers->next->previous = transfers->previous;
    if (transfers->previous)
        transfers->previous->next = transfers->next;
    else
        budget->first = transfers->next;
    pthread_mutex_unlock(&budget->lock);
}

/* Holds: transfers.lock. */
static bool budget_take(struct transfer_budget *budget, struct transfers *transfers, uint64_t bytes)
{
    if (!transfers->listed)
        enlist(transfers, budget);
    transfers->progress_ms = clock_monotonic_coarse_ms();
    if (budget_try(budget, transfers->uid, bytes))
        return true;
    make_room(budget, transfers);
    return budget_try(budget, transfers->uid, bytes);
}

void transfers_init(struct transfers *transfers, uid_t uid)
{
    *transfers = (struct transfers){.uid = uid};
    pthread_mutex_init(&transfers->lock, NULL);
}

void transfers_clear(struct transfers *transfers, struct transfer_budget *budget)
{
    unlist(transfers, budget);
    transfer_free(&transfers->assembly, budget);
    for (unsigned i = 0; i < TRANSFER_MAX_STORED; i++)
        transfer_free(&transfers->stored[i], budget);
    pthread_mutex_destroy(&transfers->lock);
}

/* Requests in parts -------------------------------------------------------------------------------- */

/* Makes the memory of the assembly large enough for `needed` bytes. Holds: lock. */
static enum kv_status grow(struct transfers *transfers, struct transfer_budget *budget,
                           size_t needed)
{
    struct transfer_message *assembly = &transfers->assembly;
    size_t capacity = assembly->charged > 0 ? assembly->charged : FIRST_BYTES;
    while (capacity < needed)
        capacity *= 2;
    if (capacity > assembly->size)
        capacity = assembly->size;
    if (!budget_take(budget, transfers, capacity - assembly->charged))
        return KV_OVERLOADED;
    uint8_t *data = realloc(assembly->data, capacity);
    if (!data) {
        budget_return(budget, transfers->uid, capacity - assembly->charged);
        return KV_NO_MEMORY;
    }
    assembly->data = data;
    assembly->charged = capacity;
    return KV_OK;
}

/* Begins a new request in place of one that was not finished. Holds: lock. */
static enum kv_status start_assembly(struct transfers *transfers, struct transfer_budget *budget,
                                     uint64_t request_id, uint32_t total_bytes)
{
    transfer_free(&transfers->assembly, budget);
    transfers->given_up_part = 0;
    if (total_bytes > budget->message_max_bytes)
        return KV_VALUE_TOO_BIG;
    transfers->assembly = (struct transfer_message){
        .size = total_bytes, .request_id = request_id, .uid = transfers->uid};
    return KV_OK;
}

/* The part is not the one that comes next. Holds: lock. */
static enum kv_status refuse_part(struct transfers *transfers, struct transfer_budget *budget,
                                  uint64_t request_id)
{
    bool given_up = transfers->given_up_part != 0 && transfers->given_up_part == request_id;
    transfer_free(&transfers->assembly, budget);
    return given_up ? KV_OVERLOADED : KV_BAD_REQUEST;
}

/* Holds: lock. */
static enum kv_status take_part(struct transfers *transfers, struct transfer_budget *budget,
                                uint64_t request_id, const struct wire_part *part)
{
    struct transfer_message *assembly = &transfers->assembly;
    enum kv_status status = KV_OK;
    if (part->total_bytes == 0)
        return KV_BAD_REQUEST; /* the form of MORE */
    if (part->offset == 0)
        status = start_assembly(transfers, budget, request_id, part->total_bytes);
    else if (!assembly->data || assembly->request_id != request_id ||
             part->offset != assembly->done || part->total_bytes != assembly->size)
        return refuse_part(transfers, budget, request_id);
    if (status == KV_OK && assembly->done + part->bytes.size > assembly->charged)
        status = grow(transfers, budget, assembly->done + part->bytes.size);
    if (status != KV_OK) {
        transfer_free(assembly, budget);
        return status;
    }
    copy_bytes(assembly->data + assembly->done, part->bytes.data, part->bytes.size);
    assembly->done += part->bytes.size;
    transfers->progress_ms = clock_monotonic_coarse_ms();
    return KV_OK;
}

enum kv_status transfer_take_part(struct transfers *transfers, struct transfer_budget *budget,
                                  uint64_t request_id, const struct wire_part *part,
                                  struct transfer_message *whole)
{
    *whole = (struct transfer_message){0};
    pthread_mutex_lock(&transfers->lock);
    struct transfer_message *assembly = &transfers->assembly;
    enum kv_status status = take_part(transfers, budget, request_id, part);
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
    bool granted =
        taken < TRANSFER_MAX_STORED && budget_take(budget, transfers, budget->message_max_bytes);
    transfers->reserved += granted;
    pthread_mutex_unlock(&transfers->lock);
    return granted;
}

void transfer_cancel(struct transfers *transfers, struct transfer_budget *budget)
{
    pthread_mutex_lock(&transfers->lock);
    transfers->reserved--;
    pthread_mutex_unlock(&transfers->lock);
    budget_return(budget, transfers->uid, budget->message_max_bytes);
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
    *place = (struct transfer_message){.data = copy,
                                       .size = size,
                                       .charged = size,
                                       .uid = transfers->uid,
                                       .request_id = request_id};
    transfers->reserved--;
    transfers->progress_ms = clock_monotonic_coarse_ms();
    pthread_mutex_unlock(&transfers->lock);
    budget_return(budget, transfers->uid, budget->message_max_bytes - size);
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

bool transfer_reply_given_up(struct transfers *transfers, uint64_t request_id)
{
    pthread_mutex_lock(&transfers->lock);
    bool given_up = transfers->given_up_reply != 0 && transfers->given_up_reply == request_id;
    pthread_mutex_unlock(&transfers->lock);
    return given_up;
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
        transfers->progress_ms = clock_monotonic_coarse_ms();
        if (stored->done == stored->size)
            transfer_free(stored, budget);
    }
    pthread_mutex_unlock(&transfers->lock);
    return found;
}
