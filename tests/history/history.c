#include "tests/history/history.h"

#include <stdlib.h>
#include <string.h>

#define WORDS              (HISTORY_MAX_OPERATIONS / 64)
#define MAX_CONFIGURATIONS (1u << 17)

/* Which operations are in the order so far, and the value they leave behind. */
struct configuration {
    uint64_t done[WORDS];
    int64_t state;
};

/* Configurations that were tried and led nowhere: an open-addressing set. */
struct memory {
    struct configuration *slots;
    bool *used;
    size_t capacity; /* a power of two */
    size_t count;
};

struct history_search {
    const struct history_operation *operations;
    size_t count;
    struct memory memory;
    bool exhausted;
};

static bool has(const struct configuration *configuration, size_t i)
{
    return configuration->done[i / 64] >> (i % 64) & 1;
}

static uint64_t configuration_hash(const struct configuration *configuration)
{
    uint64_t hash = (uint64_t)configuration->state * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < WORDS; i++)
        hash = (hash ^ configuration->done[i]) * 0xff51afd7ed558ccdu + (hash >> 29);
    return hash ^ hash >> 32;
}

static bool memory_insert(struct memory *memory, const struct configuration *configuration)
{
    size_t mask = memory->capacity - 1;
    for (size_t at = configuration_hash(configuration) & mask;; at = (at + 1) & mask) {
        if (!memory->used[at]) {
            memory->used[at] = true;
            memory->slots[at] = *configuration;
            memory->count++;
            return true;
        }
        if (memcmp(&memory->slots[at], configuration, sizeof *configuration) == 0)
            return false;
    }
}

/* What the operation does to the state, if its answer fits; false if it does not. */
static bool apply(const struct history_operation *operation, int64_t state, int64_t *next)
{
    bool pending = operation->end_ns == HISTORY_PENDING;
    int64_t base = state == HISTORY_ABSENT ? 0 : state;

    *next = state;
    switch (operation->kind) {
    case HISTORY_GET:
        return pending || operation->output == state;
    case HISTORY_PUT:
        *next = operation->input;
        return true;
    case HISTORY_PUT_IF_ABSENT:
        if (state == HISTORY_ABSENT)
            *next = operation->input;
        return pending || operation->succeeded == (state == HISTORY_ABSENT);
    case HISTORY_PUT_IF_PRESENT:
        if (state != HISTORY_ABSENT)
            *next = operation->input;
        return pending || operation->succeeded == (state != HISTORY_ABSENT);
    case HISTORY_DELETE:
        *next = HISTORY_ABSENT;
        return pending || operation->succeeded == (state != HISTORY_ABSENT);
    case HISTORY_ADD:
        *next = base + operation->input;
        return pending || operation->output == *next;
    case HISTORY_EXCHANGE:
        *next = operation->input;
        return pending || operation->output == state;
    }
    return false;
}

/* The earliest end among the operations that are not in the order yet: whoever starts later than
 * that cannot come next. */
static uint64_t earliest_end_ns(const struct history_search *search,
                                const struct configuration *now)
{
    uint64_t earliest = HISTORY_PENDING;
    for (size_t i = 0; i < search->count; i++)
        if (!has(now, i) && search->operations[i].end_ns < earliest)
            earliest = search->operations[i].end_ns;
    return earliest;
}

/* Depth first over the choices of the next operation; bounded depth (count) and memory. */
static bool extend(struct history_search *search, const struct configuration *now)
{
    uint64_t earliest = earliest_end_ns(search, now);

    if (earliest == HISTORY_PENDING)
        return true; /* only operations of unknown fate are left, and they may never happen */
    for (size_t i = 0; i < search->count && !search->exhausted; i++) {
        const struct history_operation *operation = &search->operations[i];
        struct configuration next = *now;
        if (has(now, i) || operation->start_ns > earliest ||
            !apply(operation, now->state, &next.state))
            continue;
        next.done[i / 64] |= 1ull << (i % 64);
        if (search->memory.count >= MAX_CONFIGURATIONS)
            search->exhausted = true;
        else if (memory_insert(&search->memory, &next) && extend(search, &next))
            return true;
    }
    return false;
}

static int compare_start(const void *a, const void *b)
{
    const struct history_operation *left = a, *right = b;
    return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

enum history_verdict history_check(const struct history_operation *operations, size_t count,
                                   int64_t initial)
{
    struct history_search search = {.count = count};
    struct configuration start = {.state = initial};
    enum history_verdict verdict = HISTORY_TOO_HARD;

    if (count > HISTORY_MAX_OPERATIONS)
        return HISTORY_TOO_HARD;
    struct history_operation *sorted = calloc(count + 1, sizeof *sorted);
    search.memory.capacity = 2 * MAX_CONFIGURATIONS;
    search.memory.slots = malloc(search.memory.capacity * sizeof *search.memory.slots);
    search.memory.used = calloc(search.memory.capacity, sizeof *search.memory.used);
    if (sorted && search.memory.slots && search.memory.used) {
        if (count > 0)
            memcpy(sorted, operations, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_start);
        search.operations = sorted;
        if (extend(&search, &start))
            verdict = HISTORY_LINEARIZABLE;
        else if (!search.exhausted)
            verdict = HISTORY_VIOLATION;
    }
    free(search.memory.slots);
    free(search.memory.used);
    free(sorted);
    return verdict;
}
