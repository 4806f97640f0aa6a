/*
 * index_facts: what the indexes of an open store hold, item by item, and the sums over them, to be
 * compared with those of another opening.
 */
#ifndef MQKV_TESTS_SUPPORT_INDEX_FACTS_H
#define MQKV_TESTS_SUPPORT_INDEX_FACTS_H

#include <stddef.h>

#include "kvstore/index/index.h"
#include "mqkv/kvstore.h"

struct index_facts {
    size_t count;
    struct index_item *items;        /* of all files, one after the other, in order */
    struct shared_generation *words; /* of each file */
    uint32_t datafiles;
};

/* Ends the process without memory. */
void index_facts_take(struct index_facts *facts, struct kvstore *store);
void index_facts_free(struct index_facts *facts);

/* NULL, or what differs. */
const char *index_facts_difference(const struct index_facts *one, const struct index_facts *other);

#endif
