#include "serverk/session/fragments.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "common/memory/copy.h"

#define PART_FIELD_BYTES 8u /* total_bytes, offset */

/* What a request in parts is given at first; it doubles with what comes. */
#define FIRST_BYTES (64u << 10)

/* The budget ----------------------------------------------------------------------------------- */

static _Atomic uint64_t *user_bytes(struct fragment_budget *budget, uid_t uid)
{
    return &budget->user_bytes[uid % FRAGMENTS_USERS];
}

static void budget_return(struct fragment_budget *budget, uid_t uid, uint64_t bytes)
{
    uint64_t of_all = atomic_fetch_sub(&budget->used_bytes, bytes);
    uint64_t of_user = atomic_fetch_sub(user_bytes(budget, uid), bytes);
    KV_ASSERT(of_all >= bytes);
    KV_ASSERT(of_user >= bytes);
}

static bool budget_try(struct fragment_budget *budget, uid_t uid, uint64_t bytes)
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

void fragmented_message_free(struct fragmented_message *message, struct fragment_budget *budget)
{
    if (!message->data)
        return;
    budget_return(budget, message->uid, message->charged);
    free(message->data);
    *message = (struct fragmented_message){0};
}

/* Gives up what one session has begun. Holds: its lock. */
static void give_up_fragments(struct fragments *fragments, struct fragment_budget *budget)
{
    KV_ASSERT(mutex_is_held(&fragments->lock));
    if (fragments->assembly.data)
        fragments->given_up_part = fragments->assembly.request_id;
    fragmented_message_free(&fragments->assembly, budget);
    for (unsigned i = 0; i < FRAGMENTS_MAX_STORED; i++) {
        if (fragments->stored[i].data)
            fragments->given_up_reply = fragments->stored[i].request_id;
        fragmented_message_free(&fragments->stored[i], budget);
    }
}

/* The budget is short: gives up what has not got on for a while, in other sessions. Whose lock is
 * taken is busy, so it gets on. Holds: the lock of `own`. */
static void make_fragment_room(struct fragment_budget *budget, const struct fragments *own)
{
    KV_ASSERT(mutex_is_held(&own->lock));
    uint64_t now_ms = clock_monotonic_coarse_ms();
    pthread_mutex_lock(&budget->lock);
    for (struct fragments *other = budget->first; other; other = other->next) {
        if (other == own || pthread_mutex_trylock(&other->lock) != 0)
            continue;
        if (now_ms - other->progress_ms >= FRAGMENTS_PATIENCE_MS)
            give_up_fragments(other, budget);
        pthread_mutex_unlock(&other->lock);
    }
    pthread_mutex_unlock(&budget->lock);
}

static void unlist(struct fragments *fragments, struct fragment_budget *budget)
{
    if (!fragments->listed)
        return;
    pthread_mutex_lock(&budget->lock);
    KV_ASSERT(fragments->previous ? fragments->previous->next == fragments
                                  : budget->first == fragments);
    if (fragments->next)
        fragments->next->previous = fragments->previous;
    if (fragments->previous)
        fragments->previous->next = fragments->next;
    else
        budget->first = fragments->next;
    pthread_mutex_unlock(&budget->lock);
}

/* Holds: fragments.lock. */
static bool budget_take(struct fragment_budget *budget, struct fragments *fragments, uint64_t bytes)
{
    if (!fragments->listed) {
        pthread_mutex_lock(&budget->lock);
        KV_ASSERT(!fragments->previous);
        fragments->next = budget->first;
        if (fragments->next)
            fragments->next->previous = fragments;
        budget->first = fragments;
        fragments->listed = true;
        pthread_mutex_unlock(&budget->lock);
    }
    fragments->progress_ms = clock_monotonic_coarse_ms();
    if (budget_try(budget, fragments->uid, bytes))
        return true;
    make_fragment_room(budget, fragments);
    return budget_try(budget, fragments->uid, bytes);
}

void fragments_init(struct fragments *fragments, uid_t uid)
{
    *fragments = (struct fragments){.uid = uid};
    pthread_mutex_init(&fragments->lock, NULL);
}

void fragments_clear(struct fragments *fragments, struct fragment_budget *budget)
{
    KV_ASSERT(fragments->reserved == 0); /* each reservation is of somebody who holds the session */
    unlist(fragments, budget);
    fragmented_message_free(&fragments->assembly, budget);
    for (unsigned i = 0; i < FRAGMENTS_MAX_STORED; i++)
        fragmented_message_free(&fragments->stored[i], budget);
    pthread_mutex_destroy(&fragments->lock);
}

/* Requests in parts ---------------------------------------------------------------------------- */

/* Makes the memory of the assembly large enough for `needed` bytes. Holds: lock. */
static enum kv_status grow_assembly(struct fragments *fragments, struct fragment_budget *budget,
                                    size_t needed)
{
    struct fragmented_message *assembly = &fragments->assembly;
    size_t capacity = assembly->charged > 0 ? assembly->charged : FIRST_BYTES;
    KV_ASSERT(needed > assembly->charged && needed <= assembly->size);
    while (capacity < needed)
        capacity *= 2;
    if (capacity > assembly->size)
        capacity = assembly->size;
    if (!budget_take(budget, fragments, capacity - assembly->charged))
        return KV_OVERLOADED;
    uint8_t *data = realloc(assembly->data, capacity);
    if (!data) {
        budget_return(budget, fragments->uid, capacity - assembly->charged);
        return KV_NO_MEMORY;
    }
    assembly->data = data;
    assembly->charged = capacity;
    return KV_OK;
}

/* Begins a new request in place of one that was not finished. Holds: lock. */
static enum kv_status start_assembly(struct fragments *fragments, struct fragment_budget *budget,
                                     uint64_t request_id, uint32_t total_bytes)
{
    fragmented_message_free(&fragments->assembly, budget);
    fragments->given_up_part = 0;
    if (total_bytes > budget->message_max_bytes)
        return KV_VALUE_TOO_BIG;
    fragments->assembly = (struct fragmented_message){
        .size = total_bytes, .request_id = request_id, .uid = fragments->uid};
    return KV_OK;
}

/* Holds: lock. */
static enum kv_status take_fragment(struct fragments *fragments, struct fragment_budget *budget,
                                    uint64_t request_id, const struct wire_part *part)
{
    struct fragmented_message *assembly = &fragments->assembly;
    enum kv_status status = KV_OK;
    if (part->total_bytes == 0)
        return KV_BAD_REQUEST; /* the form of MORE */
    if (part->offset == 0)
        status = start_assembly(fragments, budget, request_id, part->total_bytes);
    else if (!assembly->data || assembly->request_id != request_id ||
             part->offset != assembly->done || part->total_bytes != assembly->size)
        status = fragments->given_up_part != 0 && fragments->given_up_part == request_id
                     ? KV_OVERLOADED
                     : KV_BAD_REQUEST;
    if (status == KV_OK && assembly->done + part->bytes.size > assembly->charged)
        status = grow_assembly(fragments, budget, assembly->done + part->bytes.size);
    if (status != KV_OK) {
        fragmented_message_free(assembly, budget);
        return status;
    }
    copy_bytes(assembly->data + assembly->done, part->bytes.data, part->bytes.size);
    assembly->done += part->bytes.size;
    KV_ASSERT(assembly->done <= assembly->charged && assembly->charged <= assembly->size);
    fragments->progress_ms = clock_monotonic_coarse_ms();
    return KV_OK;
}

enum kv_status fragments_take_part(struct fragments *fragments, struct fragment_budget *budget,
                                   uint64_t request_id, const struct wire_part *part,
                                   struct fragmented_message *whole)
{
    *whole = (struct fragmented_message){0};
    pthread_mutex_lock(&fragments->lock);
    struct fragmented_message *assembly = &fragments->assembly;
    enum kv_status status = take_fragment(fragments, budget, request_id, part);
    if (status == KV_OK && assembly->done == assembly->size) {
        *whole = *assembly;
        *assembly = (struct fragmented_message){0};
    }
    pthread_mutex_unlock(&fragments->lock);
    return status;
}

/* Replies in parts ----------------------------------------------------------------------------- */

bool fragments_reserve(struct fragments *fragments, struct fragment_budget *budget)
{
    pthread_mutex_lock(&fragments->lock);
    unsigned taken = fragments->reserved;
    for (unsigned i = 0; i < FRAGMENTS_MAX_STORED; i++)
        taken += fragments->stored[i].data != NULL;
    bool granted =
        taken < FRAGMENTS_MAX_STORED && budget_take(budget, fragments, budget->message_max_bytes);
    fragments->reserved += granted;
    KV_ASSERT(!granted || taken + 1 <= FRAGMENTS_MAX_STORED);
    pthread_mutex_unlock(&fragments->lock);
    return granted;
}

void fragments_cancel(struct fragments *fragments, struct fragment_budget *budget)
{
    pthread_mutex_lock(&fragments->lock);
    KV_ASSERT(fragments->reserved > 0);
    fragments->reserved--;
    pthread_mutex_unlock(&fragments->lock);
    budget_return(budget, fragments->uid, budget->message_max_bytes);
}

bool fragments_store(struct fragments *fragments, struct fragment_budget *budget,
                     uint64_t request_id, const void *data, size_t size)
{
    uint8_t *copy = malloc(size);
    KV_ASSERT(size <= budget->message_max_bytes); /* what the reservation has paid for */
    if (!copy) {
        fragments_cancel(fragments, budget);
        return false;
    }
    copy_bytes(copy, data, size);
    pthread_mutex_lock(&fragments->lock);
    struct fragmented_message *place = fragments->stored;
    KV_ASSERT(fragments->reserved > 0);
    while (place->data) /* the reservation says that one is free */
        place++;
    KV_ASSERT(place < fragments->stored + FRAGMENTS_MAX_STORED);
    *place = (struct fragmented_message){.data = copy,
                                         .size = size,
                                         .charged = size,
                                         .uid = fragments->uid,
                                         .request_id = request_id};
    fragments->reserved--;
    fragments->progress_ms = clock_monotonic_coarse_ms();
    pthread_mutex_unlock(&fragments->lock);
    budget_return(budget, fragments->uid, budget->message_max_bytes - size);
    return true;
}

/* holds: lock. */
static struct fragmented_message *find_stored(struct fragments *fragments, uint64_t request_id)
{
    for (unsigned i = 0; i < FRAGMENTS_MAX_STORED; i++)
        if (fragments->stored[i].data && fragments->stored[i].request_id == request_id)
            return &fragments->stored[i];
    return NULL;
}

bool fragments_reply_given_up(struct fragments *fragments, uint64_t request_id)
{
    pthread_mutex_lock(&fragments->lock);
    bool given_up = fragments->given_up_reply != 0 && fragments->given_up_reply == request_id;
    pthread_mutex_unlock(&fragments->lock);
    return given_up;
}

bool fragments_next_fragment(struct fragments *fragments, struct fragment_budget *budget,
                             const struct wire_header *header, uint32_t offset,
                             struct write_cursor *cursor)
{
    pthread_mutex_lock(&fragments->lock);
    struct fragmented_message *stored = find_stored(fragments, header->request_id);
    bool found = stored && stored->done == offset;
    if (found) {
        wire_put_header(cursor, header);
        KV_ASSERT(write_cursor_left(cursor) > PART_FIELD_BYTES); /* else nothing gets on */
        size_t room = write_cursor_left(cursor) - PART_FIELD_BYTES;
        size_t left = stored->size - stored->done;
        struct wire_part part = {
            .total_bytes = (uint32_t)stored->size,
            .offset = offset,
            .bytes = kv_slice(stored->data + stored->done, left < room ? left : room)};
        wire_put_part(cursor, &part);
        stored->done += part.bytes.size;
        KV_ASSERT(stored->done <= stored->size);
        fragments->progress_ms = clock_monotonic_coarse_ms();
        if (stored->done == stored->size)
            fragmented_message_free(stored, budget);
    }
    pthread_mutex_unlock(&fragments->lock);
    return found;
}
