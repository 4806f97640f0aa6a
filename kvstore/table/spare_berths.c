#include "kvstore/table/spare_berths.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/time/clock.h"
#include "kvstore/format/sizes.h"

#define SPARES_AT_FIRST 64u
#define SPARES_MAX      (UINT32_C(1) << 16)

/* How many berths of a class are looked at for one content. */
#define TAKE_LOOKS 8u

/* A berth is at most by this part larger than its content: of the class of the content, or of one
 * of the next two. */
#define SLACK_PART   4u
#define CLASSES_LOOK 3u

/* Berths that nobody takes for so long are worth a compaction. */
#define USE_MS UINT64_C(3000)

static struct spare_berth *spare_at(const struct spare_berths *spares, uint32_t number)
{
    KV_ASSERT(number > 0 && number <= spares->capacity);
    return &spares->each[number - 1];
}

static void put_first(struct spare_berths *spares, struct spare_list *list, uint32_t number)
{
    spare_at(spares, number)->next = list->first;
    list->first = number;
    if (list->last == 0)
        list->last = number;
}

static void put_last(struct spare_berths *spares, struct spare_list *list, uint32_t number)
{
    spare_at(spares, number)->next = 0;
    if (list->last != 0)
        spare_at(spares, list->last)->next = number;
    else
        list->first = number;
    list->last = number;
}

/* Takes out the berth behind `before`; 0: the first one. */
static uint32_t take_behind(struct spare_berths *spares, struct spare_list *list, uint32_t before)
{
    uint32_t *link = before != 0 ? &spare_at(spares, before)->next : &list->first;
    uint32_t number = *link;
    *link = spare_at(spares, number)->next;
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
    return (uint32_t)at_most(number, SPARE_CLASSES - 1);
}

/* Returns the number of a place for a berth; 0: there is no memory, or there are too many. */
static uint32_t take_unused(struct spare_berths *spares)
{
    if (spares->unused.first != 0)
        return take_behind(spares, &spares->unused, 0);
    if (spares->count == spares->capacity) {
        uint32_t capacity = spares->capacity > 0 ? 2 * spares->capacity : SPARES_AT_FIRST;
        struct spare_berth *each =
            capacity <= SPARES_MAX ? realloc(spares->each, capacity * sizeof *each) : NULL;
        if (!each)
            return 0;
        spares->each = each;
        spares->capacity = capacity;
    }
    return ++spares->count;
}

static void add_free(struct spare_berths *spares, uint32_t number)
{
    uint32_t class = class_of(spare_at(spares, number)->capacity_bytes);
    put_first(spares, &spares->free_berths[class], number);
}

void spare_berths_add(struct spare_berths *spares, const struct spare_berth *berth, bool waits)
{
    uint32_t number = take_unused(spares);
    if (number == 0)
        return;
    *spare_at(spares, number) = *berth;
    if (spares->bytes == 0)
        spares->used_ms = clock_monotonic_coarse_ms();
    spares->bytes += berth->capacity_bytes;
    if (waits)
        put_last(spares, &spares->waiting, number);
    else
        add_free(spares, number);
}

static void free_durable(struct spare_berths *spares, uint64_t durable_position)
{
    struct spare_list *waiting = &spares->waiting;
    while (waiting->first != 0 && spare_at(spares, waiting->first)->position <= durable_position)
        add_free(spares, take_behind(spares, waiting, 0));
}

static bool berth_fits(const struct spare_berth *berth, uint64_t size_bytes)
{
    return berth->capacity_bytes >= size_bytes &&
           berth->capacity_bytes - size_bytes <= size_bytes / SLACK_PART;
}

/* Returns the number of a berth of that class, which is in no list then; 0: none was found. */
static uint32_t take_of_class(struct spare_berths *spares, uint32_t class, uint64_t size_bytes,
                              const struct spare_terms *terms)
{
    struct spare_list *list = &spares->free_berths[class];
    uint32_t before = 0, number = list->first;
    for (uint32_t looks = TAKE_LOOKS; number != 0 && looks > 0; looks--) {
        const struct spare_berth *berth = spare_at(spares, number);
        if (berth_fits(berth, size_bytes) && !terms->is_read(terms->context, berth->offset))
            return take_behind(spares, list, before);
        before = number;
        number = berth->next;
    }
    return 0;
}

bool spare_berths_take(struct spare_berths *spares, uint64_t size_bytes,
                       const struct spare_terms *terms, uint64_t *offset)
{
    uint32_t class = class_of(size_bytes), number = 0;
    uint32_t end = (uint32_t)at_most(class + CLASSES_LOOK, SPARE_CLASSES);
    free_durable(spares, terms->durable_position);
    for (; class < end && number == 0; class ++)
        number = take_of_class(spares, class, size_bytes, terms);
    if (number == 0)
        return false;
    *offset = spare_at(spares, number)->offset;
    spares->bytes -= spare_at(spares, number)->capacity_bytes;
    spares->used_ms = clock_monotonic_coarse_ms();
    put_first(spares, &spares->unused, number);
    return true;
}

uint64_t spare_berths_bytes_in_use(const struct spare_berths *spares)
{
    bool are_used = clock_monotonic_coarse_ms() - spares->used_ms < USE_MS;
    return are_used ? spares->bytes : 0;
}

void spare_berths_forget(struct spare_berths *spares)
{
    free(spares->each);
    *spares = (struct spare_berths){.used_ms = spares->used_ms};
}
