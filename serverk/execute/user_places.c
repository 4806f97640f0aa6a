#include "serverk/execute/user_places.h"

#include <stdlib.h>
#include <unistd.h>

/* What one user has. */
struct user_share {
    struct user_share *next;
    uid_t uid;
    uint64_t count; /* above 0 */
    uint64_t bytes;
};

/* The link to the user's share, or to the end. */
static struct user_share **find_share(struct user_places *places, uid_t uid)
{
    struct user_share **link = &places->users;
    while (*link && (*link)->uid != uid)
        link = &(*link)->next;
    return link;
}

/* Whether so much more is within these quarters of all, where that much is in use. */
static bool fits(const struct user_places *places, unsigned quarters, uint64_t used_count,
                 uint64_t used_bytes, unsigned count, size_t bytes)
{
    return used_count + count <= places->max_count / 4 * quarters &&
           (used_count == 0 || used_bytes + bytes <= places->max_bytes / 4 * quarters);
}

static bool has_room(const struct user_places *places, const struct user_share *share, uid_t uid,
                     unsigned count, size_t bytes)
{
    bool trusted = uid == 0 || uid == geteuid();
    return fits(places, trusted ? 4 : 3, places->count, places->bytes, count, bytes) &&
           fits(places, trusted ? 4 : 1, share ? share->count : 0, share ? share->bytes : 0, count,
                bytes);
}

enum kv_status user_places_take(struct user_places *places, uid_t uid, unsigned count, size_t bytes)
{
    struct user_share **link = find_share(places, uid);
    if (!has_room(places, *link, uid, count, bytes))
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
    struct user_share **link = find_share(places, uid);
    struct user_share *share = *link;
    places->count -= count;
    places->bytes -= bytes;
    if (!share)
        return; /* cannot be */
    share->bytes -= bytes;
    share->count -= count;
    if (share->count > 0)
        return;
    *link = share->next;
    free(share);
}
