#include "bridges/cluster/mirror/mirror_changes.h"

struct change_reading {
    struct copy_page *page;
    uint64_t version;             /* the highest version of the visited changes */
    struct kvstore_position last; /* the position behind the last visited change */
};

/* Adds a change to the page: a kvstore_change_visit. */
static bool take_change(void *context, const struct kvstore_change *change)
{
    struct change_reading *reading = context;
    bool put = change->kind == KVSTORE_CHANGE_PUT;
    if (!copy_page_add(reading->page, change->key, put ? &change->value : NULL,
                       put ? change->expiry_ms : 0))
        return false;
    reading->last = change->position;
    if (change->version > reading->version)
        reading->version = change->version;
    return true;
}

enum kv_status mirror_changes_now(struct kvstore *store, uint32_t file, struct mirror_place *place)
{
    place->version = mirror_version_now(store, file);
    return kvstore_changes_now(store, file, &place->position);
}

/* Returns true if the page had no room for the last change. Every change that has room is visited,
 * so the place is behind the last one then, in its log or in the next. */
static bool stopped_before_last(const struct change_reading *reading,
                                const struct mirror_place *place)
{
    return reading->last.log == place->position.log &&
           reading->last.version != place->position.version;
}

enum kv_status mirror_changes_read(struct kvstore *store, uint32_t file, struct copy_page *page,
                                   struct mirror_place *place, bool *more, bool *spoiled)
{
    struct change_reading reading = {.page = page, .version = place->version};
    bool at_end = false;
    uint64_t version = mirror_version_now(store, file);
    kvstore_await_change(store, file);
    enum kv_status status = kvstore_changes(store, file, &place->position, kv_slice(NULL, 0),
                                            COPY_PAGE_ITEMS, take_change, &reading, &at_end);
    place->version = at_end && version > reading.version ? version : reading.version;
    *more |= !at_end;
    *spoiled |= status == KV_IO && stopped_before_last(&reading, place);
    return status;
}
