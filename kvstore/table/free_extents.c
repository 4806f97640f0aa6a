#include "kvstore/table/free_extents.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "kvstore/format/sizes.h"

#define FREE_EXTENTS_AT_FIRST 64u
#define FREE_EXTENTS_MAX      (UINT32_C(1) << 16)

/* How many extents of a class are looked at for one content. */
#define TAKE_LOOKS 8u

/* An extent is at most by this part larger than its content: of the class of the content, or of one
 * of the next two. */
#define SLACK_PART   4u
#define CLASSES_LOOK 3u

/* Extents that nobody takes for so long are worth a compaction. */
#define USE_MS UINT64_C(3000)

static struct free_extent *extent_at(const struct free_extents *free_extents, uint32_t number)
{
    KV_ASSERT(number > 0 && number <= free_extents->capacity);
    return &free_extents->each[number - 1];
}

static void put_first(struct free_extents *free_extents, struct extent_list *list, uint32_t number)
{
    extent_at(free_extents, number)->next = list->first;
    list->first = number;
    if (list->last == 0)
        list->last = number;
}

static void put_last(struct free_extents *free_extents, struct extent_list *list, uint32_t number)
{
    extent_at(free_extents, number)->next = 0;
    if (list->last != 0)
        extent_at(free_extents, list->last)->next = number;
    else
        list->first = number;
    list->last = number;
}

/* Takes out the extent behind `before`; 0: the first one. */
static uint32_t take_behind(struct free_extents *free_extents, struct extent_list *list,
                            uint32_t before)
{
    uint32_t *link = before != 0 ? &extent_at(free_extents, before)->next : &list->first;
    uint32_t number = *link;
    *link = extent_at(free_extents, number)->next;
    if (list->last == number)
        list->last = before;
    return number;
}

/* The class of sizes from a power of two, and each of its three next quarters, on. */
static uint32_t class_of(uint64_t bytes)
{
    KV_ASSERT(bytes >= 4);
    uint32_t highest_bit = 63u - (uint32_t)__builtin_clzll(bytes);
    uint32_t number = 4 * highest_bit + (uint32_t)(bytes >> (highest_bit - 2) & 3);
    return (uint32_t)at_most(number, EXTENT_CLASSES - 1);
}

/* Returns the number of a place for an extent; 0: there is no memory, or there are too many. */
static uint32_t take_unused(struct free_extents *free_extents)
{
    if (free_extents->unused.first != 0)
        return take_behind(free_extents, &free_extents->unused, 0);
    if (free_extents->count == free_extents->capacity) {
        uint32_t capacity =
            free_extents->capacity > 0 ? 2 * free_extents->capacity : FREE_EXTENTS_AT_FIRST;
        struct free_extent *each = capacity <= FREE_EXTENTS_MAX
                                       ? realloc(free_extents->each, capacity * sizeof *each)
                                       : NULL;
        if (!each)
            return 0;
        free_extents->each = each;
        free_extents->capacity = capacity;
    }
    return ++free_extents->count;
}

static void add_free(struct free_extents *free_extents, uint32_t number)
{
    uint32_t class = class_of(extent_at(free_extents, number)->capacity_bytes);
    put_first(free_extents, &free_extents->by_class[class], number);
}

void free_extents_add(struct free_extents *free_extents, const struct free_extent *extent,
                      bool waits)
{
    uint32_t number = take_unused(free_extents);
    if (number == 0)
        return;
    *extent_at(free_extents, number) = *extent;
    if (free_extents->bytes == 0)
        free_extents->used_ms = clock_monotonic_coarse_ms();
    free_extents->bytes += extent->capacity_bytes;
    if (waits)
        put_last(free_extents, &free_extents->waiting, number);
    else
        add_free(free_extents, number);
}

static void free_durable(struct free_extents *free_extents, uint64_t durable_position)
{
    struct extent_list *waiting = &free_extents->waiting;
    while (waiting->first != 0 &&
           extent_at(free_extents, waiting->first)->position <= durable_position)
        add_free(free_extents, take_behind(free_extents, waiting, 0));
}

static bool extent_fits(const struct free_extent *extent, uint64_t size_bytes)
{
    return extent->capacity_bytes >= size_bytes &&
           extent->capacity_bytes - size_bytes <= size_bytes / SLACK_PART;
}

/* Returns the number of an extent of that class, which is in no list then; 0: none was found. */
static uint32_t take_of_class(struct free_extents *free_extents, uint32_t class,
                              uint64_t size_bytes, const struct free_extent_terms *terms)
{
    struct extent_list *list = &free_extents->by_class[class];
    uint32_t before = 0, number = list->first;
    for (uint32_t looks = TAKE_LOOKS; number != 0 && looks > 0; looks--) {
        const struct free_extent *extent = extent_at(free_extents, number);
        if (extent_fits(extent, size_bytes) && !terms->is_read(terms->context, extent->offset))
            return take_behind(free_extents, list, before);
        before = number;
        number = extent->next;
    }
    return 0;
}

bool free_extents_take(struct free_extents *free_extents, uint64_t size_bytes,
                       const struct free_extent_terms *terms, uint64_t *offset)
{
    uint32_t class = class_of(size_bytes), number = 0;
    uint32_t end = (uint32_t)at_most(class + CLASSES_LOOK, EXTENT_CLASSES);
    free_durable(free_extents, terms->durable_position);
    for (; class < end && number == 0; class ++)
        number = take_of_class(free_extents, class, size_bytes, terms);
    if (number == 0)
        return false;
    *offset = extent_at(free_extents, number)->offset;
    free_extents->bytes -= extent_at(free_extents, number)->capacity_bytes;
    free_extents->used_ms = clock_monotonic_coarse_ms();
    put_first(free_extents, &free_extents->unused, number);
    return true;
}

uint64_t free_extents_bytes_in_use(const struct free_extents *free_extents)
{
    bool are_used = clock_monotonic_coarse_ms() - free_extents->used_ms < USE_MS;
    return are_used ? free_extents->bytes : 0;
}

void free_extents_forget(struct free_extents *free_extents)
{
    free(free_extents->each);
    *free_extents = (struct free_extents){.used_ms = free_extents->used_ms};
}
