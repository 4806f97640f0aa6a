#include "kvstore/table/ordering.h"

#include <stdlib.h>

#include "common/assert/assert.h"

/* Keys that are entered under one lock, about. */
#ifndef ORDER_KEYS_PER_HOLD
#define ORDER_KEYS_PER_HOLD 32u
#endif

struct ordering *ordering_create(struct arena *arena, struct shared_order *words)
{
    struct ordering *created = calloc(1, sizeof *created);
    struct key_tree *tree = key_tree_create(arena, words);
    if (!created || !tree) {
        free(created);
        key_tree_free(tree);
        return NULL;
    }
    created->tree = tree;
    return created;
}

void ordering_free(struct ordering *ordering)
{
    if (!ordering)
        return;
    key_tree_free(ordering->tree);
    free(ordering);
}

static void start_again(struct ordering *ordering)
{
    key_tree_clear(ordering->tree);
    atomic_store(&ordering->filled_to, 0);
}

/* False: the filling has not come to the hash yet, and will meet the change. */
static bool begin_change(const struct ordering *ordering, const struct generation *generation,
                         uint32_t hash, struct key_source *source)
{
    *source = ordering_source(generation);
    if (hash >= atomic_load(&ordering->filled_to))
        return false;
    logfile_begin(source->log, READ_BUFFER_KEY);
    logfile_begin(source->log, READ_BUFFER_OTHER_KEY);
    return true;
}

void ordering_add(struct ordering *ordering, const struct generation *generation, uint32_t hash,
                  struct kv_slice key)
{
    struct key_source source;
    if (begin_change(ordering, generation, hash, &source) &&
        !key_tree_insert(ordering->tree, &source, hash, key))
        start_again(ordering);
}

void ordering_remove(struct ordering *ordering, const struct generation *generation, uint32_t hash,
                     struct kv_slice key)
{
    struct key_source source;
    if (begin_change(ordering, generation, hash, &source))
        (void)key_tree_remove(ordering->tree, &source, hash, key);
}

/* The item, of those from `from` on that have not been entered, whose key is the first in order;
 * NULL: none can be read. Keys of one hash have to be entered in their order (key_tree.h): until
 * all are, the index has more of them than the tree. */
static struct index_item *first_in_order(const struct key_source *source, struct index_item *items,
                                         size_t count)
{
    struct index_item *first = NULL;
    for (size_t i = 0; i < count; i++) {
        struct kv_slice least, key;
        if (items[i].offset_bytes == 0 ||
            !key_source_read(source, READ_BUFFER_KEY, items[i].hash, items[i].offset_bytes, &key))
            continue;
        if (!first || (key_source_read(source, READ_BUFFER_OTHER_KEY, first->hash,
                                       first->offset_bytes, &least) &&
                       key_compare(key, least) < 0))
            first = &items[i];
    }
    return first;
}

/* Enters the keys of one hash. A damaged record is left out: reads of it tell of it. */
static bool enter_run(struct ordering *ordering, const struct key_source *source,
                      struct index_item *items, size_t count)
{
    struct index_item *next = items;
    while (next) {
        struct kv_slice key;
        next = count == 1 ? (items->offset_bytes != 0 ? items : NULL)
                          : first_in_order(source, items, count);
        if (!next)
            break;
        uint64_t offset = next->offset_bytes;
        next->offset_bytes = 0; /* never the place of a record */
        if (key_source_read(source, READ_BUFFER_VISIT, next->hash, offset, &key) &&
            !key_tree_insert(ordering->tree, source, next->hash, key))
            return false;
    }
    return true;
}

enum kv_status ordering_fill(struct ordering *ordering, const struct generation *generation)
{
    struct key_source source = ordering_source(generation);
    struct index_item items[INDEX_SEGMENT_SLOTS];
    uint64_t next_hash, from = atomic_load(&ordering->filled_to);
    if (from == INDEX_HASH_END)
        return KV_OK;
    for (unsigned buffer = 0; buffer < READ_BUFFER_COUNT; buffer++)
        logfile_begin(source.log, (enum read_buffer)buffer);
    size_t count = index_collect(source.index, from, items, ORDER_KEYS_PER_HOLD, &next_hash);
    if (count == 0 && next_hash == from) /* more keys of one hash */
        count = index_collect(source.index, from, items, INDEX_SEGMENT_SLOTS, &next_hash);
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && items[end].hash == items[begin].hash; end++)
            ;
        if (!enter_run(ordering, &source, items + begin, end - begin)) {
            start_again(ordering);
            return KV_NO_MEMORY;
        }
    }
    if (next_hash == INDEX_HASH_END)
        key_tree_show(ordering->tree);
    atomic_store(&ordering->filled_to, next_hash);
    return KV_OK;
}
