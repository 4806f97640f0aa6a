#include "bridges/kresp/session/scan_places.h"

#include <stdlib.h>

#include "common/memory/copy.h"
#include "common/numbers/random.h"

#define MARK      (UINT64_C(0xff) << 44 | 2)
#define MARK_MASK (~UINT64_C(0) << 44 | 3)
#define STEP_AT   2u
#define STEP_MASK ((UINT32_C(1) << 15) - 1)
#define SCAN_AT   17u
#define SCAN_MASK ((UINT32_C(1) << 27) - 1)

static uint64_t place_cursor(const struct scan_place *place)
{
    return MARK | (uint64_t)place->scan << SCAN_AT | (uint64_t)place->step << STEP_AT;
}

static uint32_t cursor_step(uint64_t cursor)
{
    return (uint32_t)(cursor >> STEP_AT) & STEP_MASK;
}

bool scan_places_owns(uint64_t cursor)
{
    return (cursor & MARK_MASK) == MARK;
}

/* Returns the place of the cursor's scan; NULL: it is not kept. */
static struct scan_place *find_scan(struct scan_places *places, uint64_t cursor)
{
    uint32_t scan = (uint32_t)(cursor >> SCAN_AT) & SCAN_MASK;
    for (size_t i = 0; i < SCANS_KEPT && scan_places_owns(cursor) && scan != 0; i++)
        if (places->places[i].scan == scan)
            return &places->places[i];
    return NULL;
}

static void forget_key(struct scan_places *places, struct scan_place *place, uint32_t step)
{
    places->bytes -= place->key_bytes[step % 2];
    free(place->keys[step % 2]);
    place->keys[step % 2] = NULL;
    place->key_bytes[step % 2] = 0;
}

static void forget_place(struct scan_places *places, struct scan_place *place)
{
    forget_key(places, place, 0);
    forget_key(places, place, 1);
    place->scan = 0;
}

/* What a place takes, if all of them may take SCAN_PLACE_BYTES. */
static size_t place_weight(const struct scan_place *place)
{
    return SCAN_PLACE_BYTES / SCANS_KEPT + place->key_bytes[0] + place->key_bytes[1];
}

/* Returns the uid of the user whose places other than `kept` take the most. Uids are counted in a
 * table of their own, which any number of them leaves half empty. */
static uint32_t heaviest_user(const struct scan_places *places, const struct scan_place *kept)
{
    struct {
        size_t weight;
        uint32_t uid;
    } users[2 * SCANS_KEPT] = {0};
    size_t heaviest = 0;
    for (size_t i = 0; i < SCANS_KEPT; i++) {
        const struct scan_place *place = &places->places[i];
        size_t at = place->uid % (2 * SCANS_KEPT);
        if (place->scan == 0 || (kept && place == kept))
            continue;
        while (users[at].weight > 0 && users[at].uid != place->uid)
            at = (at + 1) % (2 * SCANS_KEPT);
        users[at].uid = place->uid;
        users[at].weight += place_weight(place);
        if (users[at].weight > users[heaviest].weight)
            heaviest = at;
    }
    return users[heaviest].uid;
}

/* Forgets the place that was used the longest ago of those of the user who has the most, other than
 * `kept`; another one is in use. */
static struct scan_place *forget_oldest_place(struct scan_places *places,
                                              const struct scan_place *kept)
{
    struct scan_place *oldest = NULL;
    uint32_t uid = heaviest_user(places, kept);
    for (size_t i = 0; i < SCANS_KEPT; i++) {
        struct scan_place *place = &places->places[i];
        if (place != kept && place->scan != 0 && place->uid == uid &&
            (!oldest || place->used < oldest->used))
            oldest = place;
    }
    forget_place(places, oldest);
    return oldest;
}

/* Returns a place that is free, or has become so. */
static struct scan_place *take_scan_place(struct scan_places *places)
{
    for (size_t i = 0; i < SCANS_KEPT; i++)
        if (places->places[i].scan == 0)
            return &places->places[i];
    return forget_oldest_place(places, NULL);
}

/* Returns the number of a new scan. Numbers begin anywhere, so that cursors of an earlier kresp are
 * not taken for those of this one. */
static uint32_t next_scan(struct scan_places *places)
{
    if (places->last_scan == 0)
        places->last_scan = (uint32_t)random_secret() & SCAN_MASK;
    places->last_scan = (places->last_scan + 1) & SCAN_MASK;
    if (places->last_scan == 0)
        places->last_scan = 1;
    return places->last_scan;
}

bool scan_places_find(struct scan_places *places, uint64_t cursor, struct byte_buffer *key)
{
    pthread_mutex_lock(&places->lock);
    struct scan_place *place = find_scan(places, cursor);
    uint32_t step = cursor_step(cursor);
    bool found = place && ((place->step - step) & STEP_MASK) < 2 && place->keys[step % 2];
    if (found) {
        place->used = ++places->uses;
        byte_buffer_append(key, place->keys[step % 2], place->key_bytes[step % 2]);
    }
    pthread_mutex_unlock(&places->lock);
    return found && !key->failed;
}

uint64_t scan_places_keep(struct scan_places *places, uint32_t uid, uint64_t before,
                          struct kv_slice key)
{
    void *copy = malloc(key.size + 1);
    if (!copy)
        return 0;
    copy_bytes(copy, key.data, key.size);
    pthread_mutex_lock(&places->lock);
    struct scan_place *place = find_scan(places, before);
    if (!place || place->step != cursor_step(before)) {
        place = take_scan_place(places);
        place->scan = next_scan(places);
        place->step = STEP_MASK;
        place->uid = uid;
    }
    place->step = (place->step + 1) & STEP_MASK;
    forget_key(places, place, place->step);
    place->keys[place->step % 2] = copy;
    place->key_bytes[place->step % 2] = key.size;
    places->bytes += key.size;
    place->used = ++places->uses;
    while (places->bytes > SCAN_PLACE_BYTES) /* two keys of one place always fit */
        forget_oldest_place(places, place);
    uint64_t cursor = place_cursor(place);
    pthread_mutex_unlock(&places->lock);
    return cursor;
}

void scan_places_free(struct scan_places *places)
{
    for (size_t i = 0; i < SCANS_KEPT; i++)
        forget_place(places, &places->places[i]);
}
