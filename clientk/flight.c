#include "clientk/flight.h"

#include <stdlib.h>
#include <string.h>

#include "clientk/key_hash.h"
#include "clientk/translate.h"

#define FIRST_NOTES 64u

void parked_init(struct parked_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

struct parked *park(struct parked_list *list, const struct wire_operation *operation, void *tag)
{
    struct kv_slice key = operation->key;
    struct kv_slice value = operation->value;
    struct parked *parked = malloc(sizeof *parked + key.size + value.size);
    if (!parked)
        return NULL;
    uint8_t *bytes = (uint8_t *)(parked + 1);
    *parked = (struct parked){.operation = *operation, .tag = tag};
    parked->operation.key.data = bytes;
    parked->operation.value.data = bytes + key.size;
    if (key.size > 0)
        memcpy(bytes, key.data, key.size);
    if (value.size > 0)
        memcpy(bytes + key.size, value.data, value.size);
    *list->end = parked;
    list->end = &parked->next;
    return parked;
}

void parked_append(struct parked_list *to, struct parked_list *from)
{
    if (!from->first)
        return;
    *to->end = from->first;
    to->end = from->end;
    parked_init(from);
}

struct parked *unpark(struct parked_list *list)
{
    struct parked *first = list->first;
    if (!first)
        return NULL;
    list->first = first->next;
    if (!list->first)
        list->end = &list->first;
    return first;
}

bool flight_begin(struct flight *flight, struct connection *connection, uint64_t region_start,
                  uint64_t region_end)
{
    order_guard_reset(&flight->guard);
    return batch_begin(&flight->batch, connection, region_start, region_end);
}

static bool reserve_note(struct flight *flight)
{
    if (flight->batch.count < flight->notes_capacity)
        return true;
    size_t capacity = flight->notes_capacity ? flight->notes_capacity * 2 : FIRST_NOTES;
    struct flight_note *notes = realloc(flight->notes, capacity * sizeof *notes);
    if (!notes)
        return false;
    flight->notes = notes;
    flight->notes_capacity = capacity;
    return true;
}

static enum batch_verdict add(struct flight *flight, const struct wire_operation *operation,
                              void *tag, uint64_t value_bytes, bool uncertain)
{
    if (!reserve_note(flight))
        return BATCH_NO_MEMORY;
    if (!order_guard_admits(&flight->guard, operation))
        return BATCH_FULL;
    enum batch_verdict verdict = batch_add(&flight->batch, operation, value_bytes);
    if (verdict != BATCH_ADDED)
        return verdict;
    flight->notes[flight->batch.count - 1] =
        (struct flight_note){.tag = tag,
                             .key_hash = key_hash(operation->key),
                             .writes = operation_writes(operation),
                             .uncertain = uncertain};
    return BATCH_ADDED;
}

enum batch_verdict flight_add(struct flight *flight, const struct wire_operation *operation,
                              void *tag)
{
    return add(flight, operation, tag, 0, false);
}

enum batch_verdict flight_add_parked(struct flight *flight, const struct parked *parked)
{
    return add(flight, &parked->operation, parked->tag, parked->value_bytes, parked->uncertain);
}

void flight_each(const struct flight *flight, flight_visit visit, void *context)
{
    struct read_cursor cursor =
        read_cursor(flight->batch.message, write_cursor_used(&flight->batch.cursor));
    read_bytes(&cursor, WIRE_HEADER_BYTES);
    for (uint32_t i = 0; i < flight->batch.count; i++) {
        struct wire_operation operation;
        if (wire_get_operation(&cursor, &operation) != KV_OK)
            return; /* impossible: we wrote it */
        if (operation.flags & WIRE_VALUE_IN_SEGMENT) {
            operation.value.data = wire_segment_at(flight->batch.room->segment,
                                                   operation.value_offset, operation.value.size);
            operation.flags &= (uint16_t)~WIRE_VALUE_IN_SEGMENT;
        }
        visit(context, &operation, &flight->notes[i]);
    }
}

bool flight_enter_keys(struct flight *flight, struct key_set *keys)
{
    for (uint32_t i = 0; i < flight->batch.count; i++) {
        const struct flight_note *note = &flight->notes[i];
        if (key_set_add(keys, note->key_hash, note->writes))
            continue;
        while (i-- > 0)
            key_set_remove(keys, flight->notes[i].key_hash, flight->notes[i].writes);
        return false;
    }
    return true;
}

void flight_leave_keys(struct flight *flight, struct key_set *keys)
{
    for (uint32_t i = 0; i < flight->batch.count; i++)
        key_set_remove(keys, flight->notes[i].key_hash, flight->notes[i].writes);
}

void flight_free(struct flight *flight)
{
    batch_free(&flight->batch);
    exchange_free(&flight->exchange);
    free(flight->notes);
    *flight = (struct flight){.notes = NULL};
}
