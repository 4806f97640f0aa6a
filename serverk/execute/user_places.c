#include "serverk/execute/user_places.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "serverk/session/user_share.h"

/* What one user has. */
struct user_usage {
    struct user_usage *next;
    uid_t uid;
    uint64_t count; /* above 0 */
    uint64_t bytes;
};

/* The link to the user's usage, or to the end. */
static struct user_usage **find_usage(struct user_places *places, uid_t uid)
{
    struct user_usage **link = &places->users;
    while (*link && (*link)->uid != uid)
        link = &(*link)->next;
    return link;
}

/* Returns whether `count` more places and `bytes` more bytes are within these bounds. */
static bool user_places_fit(uint64_t used_count, uint64_t used_bytes, unsigned count, size_t bytes,
                            uint64_t max_count, uint64_t max_bytes)
{
    return used_count + count <= max_count && (used_count == 0 || used_bytes + bytes <= max_bytes);
}

static bool has_user_room(const struct user_places *places, const struct user_usage *usage,
                          uid_t uid, unsigned count, size_t bytes)
{
    uint64_t of_user = usage ? usage->count : 0, bytes_of_user = usage ? usage->bytes : 0;
    if (user_share_is_owner(uid))
        return user_places_fit(places->count, places->bytes, count, bytes, places->max_count,
                               places->max_bytes);
    return user_places_fit(places->count, places->bytes, count, bytes,
                           user_share_of_others(places->max_count),
                           user_share_of_others(places->max_bytes)) &&
           user_places_fit(of_user, bytes_of_user, count, bytes,
                           user_share_of_one(places->max_count),
                           user_share_of_one(places->max_bytes));
}

enum kv_status user_places_take(struct user_places *places, uid_t uid, unsigned count, size_t bytes)
{
    struct user_usage **link = find_usage(places, uid);
    if (!has_user_room(places, *link, uid, count, bytes))
        return KV_OVERLOADED;
    if (!*link) {
        *link = calloc(1, sizeof **link);
        if (!*link)
            return KV_NO_MEMORY;
        (*link)->uid = uid;
    }
    (*link)->count += count;
    (*link)->bytes += bytes;
    places->count += count;
    places->bytes += bytes;
    return KV_OK;
}

void user_places_give_back(struct user_places *places, uid_t uid, unsigned count, size_t bytes)
{
    struct user_usage **link = find_usage(places, uid);
    struct user_usage *usage = *link;
    KV_ASSERT(usage && usage->count >= count && usage->bytes >= bytes);
    if (!usage)
        return;
    KV_ASSERT(places->count >= usage->count && places->bytes >= usage->bytes);
    places->count -= count;
    places->bytes -= bytes;
    usage->bytes -= bytes;
    usage->count -= count;
    if (usage->count > 0)
        return;
    KV_ASSERT(usage->bytes == 0); /* they would be lost to all */
    *link = usage->next;
    free(usage);
}
