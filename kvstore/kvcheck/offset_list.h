/*
 * offset_list: offsets in a file, in ascending order if they were added so.
 */
#ifndef MQKV_KVSTORE_KVCHECK_OFFSET_LIST_H
#define MQKV_KVSTORE_KVCHECK_OFFSET_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts from {0}. */
struct offset_list {
    uint64_t *at;
    size_t count, capacity;
};

/* False: there is no memory. */
bool offset_list_add(struct offset_list *list, uint64_t offset);

/* Brings the list in order. */
void offset_list_sort(struct offset_list *list);

/* Returns true if the offset is in the list, which is in order. */
bool offset_list_has(const struct offset_list *list, uint64_t offset);

void offset_list_free(struct offset_list *list);

#endif
