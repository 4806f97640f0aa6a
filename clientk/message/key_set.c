#include "clientk/message/key_set.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 256u

/* A slot is empty if both counts are 0. */
struct key_use {
    uint64_t key_hash;
    uint32_t reads, writes;
};

static bool empty(const struct key_use *use)
{
    return use->reads == 0 && use->writes == 0;
}

/* The slot of the hash, or the empty one where it belongs. There is always an empty one. */
static struct key_use *find(const struct key_set *set, uint64_t key_hash)
{
    size_t mask = set->slot_count - 1;
    size_t at = key_hash & mask;
    while (!empty(&set->slots[at]) && set->slots[at].key_hash != key_hash)
        at = (at + 1) & mask;
    return &set->slots[at];
}

/* Doubles the slots when half of them are used. */
static bool make_room(struct key_set *set)
{
    if (set->used * 2 < set->slot_count)
        return true;
    struct key_set larger = {.slot_count = set->slot_count ? set->slot_count * 2 : FIRST_SLOTS,
                             .used = set->used};
    larger.slots = calloc(larger.slot_count, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < set->slot_count; i++)
        if (!empty(&set->slots[i]))
            *find(&larger, set->slots[i].key_hash) = set->slots[i];
    free(set->slots);
    *set = larger;
    return true;
}

bool key_set_add(struct key_set *set, uint64_t key_hash, bool writes)
{
    if (!make_room(set))
        return false;
    struct key_use *use = find(set, key_hash);
    if (empty(use)) {
        use->key_hash = key_hash;
        set->used++;
    }
    if (writes)
        use->writes++;
    else
        use->reads++;
    return true;
}

/* Empties the slot and moves up those behind it that would not be found any more (Knuth, TAOCP 3,
 * section 6.4, algorithm R). */
static void vacate(struct key_set *set, struct key_use *use)
{
    size_t mask = set->slot_count - 1;
    size_t hole = (size_t)(use - set->slots);
    for (size_t at = (hole + 1) & mask; !empty(&set->slots[at]); at = (at + 1) & mask) {
        size_t home = set->slots[at].key_hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            set->slots[hole] = set->slots[at];
            hole = at;
        }
    }
    set->slots[hole] = (struct key_use){.key_hash = 0};
    set->used--;
}

void key_set_remove(struct key_set *set, uint64_t key_hash, bool writes)
{
    if (set->slot_count == 0)
        return;
    struct key_use *use = find(set, key_hash);
    if (empty(use))
        return;
    if (writes && use->writes > 0)
        use->writes--;
    else if (!writes && use->reads > 0)
        use->reads--;
    if (empty(use))
        vacate(set, use);
}

bool key_set_conflicts(const struct key_set *set, uint64_t key_hash, bool writes)
{
    if (set->used == 0)
        return false;
    const struct key_use *use = find(set, key_hash);
    return use->writes > 0 || (writes && use->reads > 0);
}

void key_set_free(struct key_set *set)
{
    free(set->slots);
    *set = (struct key_set){.slots = NULL};
}
