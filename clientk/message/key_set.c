/* All of xxhash from the header: libclientk needs no other library for the hash. */
#define XXH_INLINE_ALL
#include "clientk/message/key_set.h"

#include <stdlib.h>
#include <xxhash.h>

#include "common/assert/assert.h"

#define FIRST_SLOTS 256u

/* One slot of the table; empty if both counts are 0. */
struct key_use {
    uint64_t key_hash;
    uint32_t reads, writes;
};

static bool key_use_is_empty(const struct key_use *use)
{
    return use->reads == 0 && use->writes == 0;
}

/* Returns the slot of the hash, or the empty one where the hash belongs; some slot always is
 * empty. */
static struct key_use *key_set_find(const struct key_set *set, uint64_t key_hash)
{
    size_t mask = set->slot_count - 1;
    size_t at = key_hash & mask;
    KV_ASSERT(set->slot_count > 0 && (set->slot_count & mask) == 0 && set->used < set->slot_count);
    while (!key_use_is_empty(&set->slots[at]) && set->slots[at].key_hash != key_hash)
        at = (at + 1) & mask;
    return &set->slots[at];
}

/* Doubles the slots if half of them are used. False: no memory. */
static bool key_set_make_room(struct key_set *set)
{
    if (set->used * 2 < set->slot_count)
        return true;
    struct key_set larger = {.slot_count = set->slot_count ? set->slot_count * 2 : FIRST_SLOTS,
                             .used = set->used};
    larger.slots = calloc(larger.slot_count, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < set->slot_count; i++)
        if (!key_use_is_empty(&set->slots[i]))
            *key_set_find(&larger, set->slots[i].key_hash) = set->slots[i];
    free(set->slots);
    *set = larger;
    return true;
}

uint64_t key_set_hash(struct kv_slice key)
{
    return XXH3_64bits(key.data, key.size);
}

bool key_set_add(struct key_set *set, uint64_t key_hash, bool writes)
{
    if (!key_set_make_room(set))
        return false;
    struct key_use *use = key_set_find(set, key_hash);
    if (key_use_is_empty(use)) {
        use->key_hash = key_hash;
        set->used++;
    }
    if (writes)
        use->writes++;
    else
        use->reads++;
    return true;
}

void key_set_remove(struct key_set *set, uint64_t key_hash, bool writes)
{
    if (set->slot_count == 0)
        return;
    struct key_use *use = key_set_find(set, key_hash);
    if (key_use_is_empty(use))
        return;
    if (writes && use->writes > 0)
        use->writes--;
    else if (!writes && use->reads > 0)
        use->reads--;
    if (key_use_is_empty(use)) {
        /* Empties the slot, and moves up the slots behind it that would not be found any more
         * (Knuth, TAOCP 3, section 6.4, algorithm R). */
        size_t mask = set->slot_count - 1;
        size_t hole = (size_t)(use - set->slots);
        for (size_t at = (hole + 1) & mask; !key_use_is_empty(&set->slots[at]);
             at = (at + 1) & mask) {
            size_t home = set->slots[at].key_hash & mask;
            if (((at - home) & mask) >= ((at - hole) & mask)) {
                set->slots[hole] = set->slots[at];
                hole = at;
            }
        }
        set->slots[hole] = (struct key_use){.key_hash = 0};
        set->used--;
    }
}

bool key_set_conflicts(const struct key_set *set, uint64_t key_hash, bool writes)
{
    if (set->used == 0)
        return false;
    const struct key_use *use = key_set_find(set, key_hash);
    return use->writes > 0 || (writes && use->reads > 0);
}

void key_set_free(struct key_set *set)
{
    free(set->slots);
    *set = (struct key_set){.slots = NULL};
}
