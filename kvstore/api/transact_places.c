#include "kvstore/api/transact_places.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "kvstore/sync/sync.h"

void transact_places_begin(struct transact_places *places, uint32_t capacity)
{
    places->each = calloc(capacity, sizeof *places->each);
    places->count = 0;
    places->capacity = places->each ? capacity : 0;
}

void transact_places_take(struct transact_places *places, struct kvstore *store,
                          const struct kvstore_step *step, const struct write *write)
{
    if (places->count == places->capacity || !placing_is_possible(write->file))
        return;
    struct transact_place *place = &places->each[places->count];
    *place = (struct transact_place){.step = step, .file = write->file};
    const struct placing_terms terms = write_placing_terms(store, write->file);
    enum kv_status status =
        placing_begin(write->file, &write->lookup, &write->record, &terms, &place->placing);
    places->count += status == KV_OK;
    if (status == KV_FULL) /* it is refused, and counted, when it is done */
        bound_forget_refusal(&store->bound);
}

static bool is_copied(const struct placing *placing)
{
    return placing->filled > 0 && placing->extents[0].status == KV_OK;
}

void transact_places_fill(struct transact_places *places)
{
    for (uint32_t i = 0; i < places->count; i++)
        (void)placing_fill(&places->each[i].placing); /* its status is with the place */
}

bool transact_places_follow(struct transact_places *places)
{
    bool any = false;
    for (uint32_t i = 0; i < places->count; i++)
        any |= is_copied(&places->each[i].placing) &&
               placing_follow(places->each[i].file, &places->each[i].placing);
    return any;
}

struct placing *transact_places_use(struct transact_places *places, const struct kvstore_step *step,
                                    uint64_t expiry_ms)
{
    for (uint32_t i = 0; i < places->count; i++) {
        struct transact_place *place = &places->each[i];
        struct placing *placing = &place->placing;
        if (place->step != step)
            continue;
        if (place->is_used || !is_copied(placing) || placing->is_lost ||
            placing->filled < placing->extent_count || placing->record.expiry_ms != expiry_ms)
            return NULL;
        place->is_used = true;
        return placing;
    }
    return NULL;
}

void transact_places_end(struct transact_places *places, struct kvstore *store)
{
    for (uint32_t i = 0; i < places->count; i++) {
        struct transact_place *place = &places->each[i];
        placing_end(place->file, &place->placing);
        write_announce(store, place->file, &place->placing.record);
        sync_after_placing(store->sync, &store->context, place->file);
    }
    free(places->each);
    *places = (struct transact_places){0};
}
