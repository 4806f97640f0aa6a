#include "kvstore/eviction/hash_marks.h"

#include <stdlib.h>

#define FIRST_SLOTS 1024u

/* Linear probing at a fill of at most a half; a removal shifts the followers back (Knuth, TAOCP 3,
 * 6.4, algorithm R). */

static uint32_t home_of(const struct hash_marks *marks, uint32_t hash)
{
    return (uint32_t)((hash * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & marks->mask;
}

static void insert(struct hash_marks *marks, uint32_t hash)
{
    uint32_t at = home_of(marks, hash);
    while (marks->slots[at] != 0)
        at = (at + 1) & marks->mask;
    marks->slots[at] = hash;
    marks->count++;
}

static bool hash_marks_grow(struct hash_marks *marks)
{
    struct hash_marks larger = {.mask = marks->slots ? marks->mask * 2 + 1 : FIRST_SLOTS - 1};
    larger.slots = calloc((size_t)larger.mask + 1, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (uint64_t i = 0; marks->slots && i <= marks->mask; i++)
        if (marks->slots[i] != 0)
            insert(&larger, marks->slots[i]);
    free(marks->slots);
    *marks = larger;
    return true;
}

void hash_marks_add(struct hash_marks *marks, uint32_t hash)
{
    if ((!marks->slots || marks->count >= marks->mask / 2) && !hash_marks_grow(marks))
        return;
    insert(marks, hash ? hash : 1);
}

static void fill_hole(struct hash_marks *marks, uint32_t hole)
{
    for (uint32_t at = (hole + 1) & marks->mask; marks->slots[at] != 0;
         at = (at + 1) & marks->mask) {
        uint32_t home = home_of(marks, marks->slots[at]);
        if (((at - home) & marks->mask) < ((at - hole) & marks->mask))
            continue;
        marks->slots[hole] = marks->slots[at];
        hole = at;
    }
    marks->slots[hole] = 0;
}

bool hash_marks_take(struct hash_marks *marks, uint32_t hash)
{
    if (marks->count == 0)
        return false;
    if (hash == 0)
        hash = 1;
    uint32_t at = home_of(marks, hash);
    while (marks->slots[at] != 0 && marks->slots[at] != hash)
        at = (at + 1) & marks->mask;
    if (marks->slots[at] == 0)
        return false;
    fill_hole(marks, at);
    marks->count--;
    return true;
}

void hash_marks_clear(struct hash_marks *marks)
{
    free(marks->slots);
    *marks = (struct hash_marks){0};
}

uint64_t hash_marks_memory_bytes(const struct hash_marks *marks)
{
    return marks->slots ? ((uint64_t)marks->mask + 1) * sizeof *marks->slots : 0;
}
