#include "tests/support/index_facts.h"

#include <stdlib.h>
#include <string.h>

#include "kvstore/api/store.h"

static void *memory(void *old, size_t bytes)
{
    void *new = realloc(old, bytes ? bytes : 1);
    if (!new)
        abort();
    return new;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct index_item));
}

/* Items of one hash come in any order. */
static void take_items(struct index_facts *facts, const struct index *index)
{
    size_t first = facts->count;
    facts->items = memory(facts->items, (first + index_count(index) + INDEX_SEGMENT_SLOTS) *
                                            sizeof *facts->items);
    memset(facts->items + first, 0,
           (index_count(index) + INDEX_SEGMENT_SLOTS) * sizeof *facts->items);
    for (uint64_t hash = 0; hash < INDEX_HASH_END;) {
        struct index_item items[INDEX_SEGMENT_SLOTS];
        size_t count = index_collect(index, hash, items, INDEX_SEGMENT_SLOTS, &hash);
        for (size_t i = 0; i < count; i++) {
            facts->items[facts->count].hash = items[i].hash;
            facts->items[facts->count++].offset_bytes = items[i].offset_bytes;
        }
    }
    qsort(facts->items + first, facts->count - first, sizeof *facts->items, compare);
}

/* The words that only writes change; syncs may go on. */
static struct shared_generation at_rest(const struct shared_generation *words)
{
    return (struct shared_generation){.salt = words->salt,
                                      .tail = words->tail,
                                      .keys = words->keys,
                                      .live_bytes = words->live_bytes,
                                      .expiring_keys = words->expiring_keys,
                                      .reserve_bytes = words->reserve_bytes,
                                      .max_version = words->max_version};
}

void index_facts_take(struct index_facts *facts, struct kvstore *store)
{
    *facts = (struct index_facts){.datafiles = kvstore_datafiles(store)};
    facts->words = memory(NULL, facts->datafiles * sizeof *facts->words);
    for (uint32_t number = 0; number < facts->datafiles; number++) {
        const struct generation *generation = store->context.files[number].current;
        facts->words[number] = at_rest(generation->words);
        take_items(facts, generation->index);
    }
}

void index_facts_free(struct index_facts *facts)
{
    free(facts->items);
    free(facts->words);
}

static const char *words_difference(const struct shared_generation *one,
                                    const struct shared_generation *other)
{
    return one->keys != other->keys                     ? "keys"
           : one->tail != other->tail                   ? "tail"
           : one->live_bytes != other->live_bytes       ? "live_bytes"
           : one->expiring_keys != other->expiring_keys ? "expiring_keys"
           : one->reserve_bytes != other->reserve_bytes ? "reserve_bytes"
           : one->max_version != other->max_version     ? "max_version"
           : one->salt != other->salt                   ? "salt"
                                                        : NULL;
}

const char *index_facts_difference(const struct index_facts *one, const struct index_facts *other)
{
    if (one->datafiles != other->datafiles)
        return "datafiles";
    for (uint32_t number = 0; number < one->datafiles; number++) {
        const char *difference = words_difference(&one->words[number], &other->words[number]);
        if (difference)
            return difference;
    }
    if (one->count != other->count)
        return "number of items";
    for (size_t i = 0; i < one->count; i++)
        if (compare(&one->items[i], &other->items[i]) != 0)
            return "an item";
    return NULL;
}
