#include "kvstore/kvcheck/offset_list.h"

#include <stdlib.h>

#include "kvstore/format/sizes.h"

#define OFFSETS_AT_FIRST 64u

bool offset_list_add(struct offset_list *list, uint64_t offset)
{
    if (list->count == list->capacity) {
        size_t capacity = at_least(2 * list->capacity, OFFSETS_AT_FIRST);
        uint64_t *at = realloc(list->at, capacity * sizeof *at);
        if (!at)
            return false;
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = offset;
    return true;
}

static int compare_offsets(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

void offset_list_sort(struct offset_list *list)
{
    if (list->count > 0)
        qsort(list->at, list->count, sizeof *list->at, compare_offsets);
}

bool offset_list_has(const struct offset_list *list, uint64_t offset)
{
    return list->count > 0 &&
           bsearch(&offset, list->at, list->count, sizeof offset, compare_offsets) != NULL;
}

void offset_list_free(struct offset_list *list)
{
    free(list->at);
    *list = (struct offset_list){0};
}
