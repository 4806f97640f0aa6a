#include "kvstore/eviction/use_counts.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_PLACES 4096u
#define MOST_PLACES  (UINT32_C(1) << 31)

static struct use_table *make_table(uint32_t places, struct use_table *smaller)
{
    struct use_table *table = calloc(1, sizeof *table + places / 4);
    if (table) {
        table->mask = places - 1;
        table->smaller = smaller;
    }
    return table;
}

bool use_counts_begin(struct use_counts *counts)
{
    counts->table = make_table(FIRST_PLACES, NULL);
    return counts->table;
}

void use_counts_end(struct use_counts *counts)
{
    for (struct use_table *table = counts->table, *smaller; table; table = smaller) {
        smaller = table->smaller;
        free(table);
    }
    counts->table = NULL;
}

/* Both places that the keys of one go to begin with its count. */
static struct use_table *doubled(struct use_table *table)
{
    uint32_t bytes = (table->mask + 1) / 4;
    struct use_table *larger = make_table((table->mask + 1) * 2, table);
    if (larger) {
        memcpy(larger->bytes, table->bytes, bytes);
        memcpy(larger->bytes + bytes, table->bytes, bytes);
    }
    return larger;
}

void use_counts_expect(struct use_counts *counts, uint64_t keys)
{
    while (counts->table->mask < keys && counts->table->mask < MOST_PLACES - 1) {
        struct use_table *larger = doubled(counts->table);
        if (!larger)
            return;
        __atomic_store_n(&counts->table, larger, __ATOMIC_RELEASE);
    }
}

uint64_t use_counts_memory_bytes(const struct use_counts *counts)
{
    uint64_t bytes = 0;
    for (const struct use_table *table = counts->table; table; table = table->smaller)
        bytes += sizeof *table + ((uint64_t)table->mask + 1) / 4;
    return bytes;
}
