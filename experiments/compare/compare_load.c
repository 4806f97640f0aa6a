/*
 * compare_load: lookups in a hash table of fixed size that is filled to a given part, for the two
 * questions of the study `compare`: does it pay to compare 32 bits of hash before the key is
 * touched, and does it pay to search on in the next slots or in pseudo-random ones? One CSV row on
 * stdout.
 *
 *     compare_load linear|random hash|key FILL_PERCENT SLOTS SECONDS SEED
 *
 * SLOTS is a power of two.
 *
 * The slots are those of the store's index (kvstore/index/index.h): 32 bits of hash, 32 bits that
 * say where the record with the key is. Records lie in the order in which they came, as in the
 * store's log. Half of the lookups are for keys that are there. Times are of CPU, without what
 * makes the keys.
 *
 *   linear  the home slot, and those after it (Knuth, TAOCP 3, 6.4, algorithm L)
 *   random  the home slot plus the numbers of one pseudo-random permutation of all slots (Morris,
 *           "Scatter storage techniques", CACM 11(1), 1968); here that of a linear congruential
 *           generator of full period (Hull and Dobell, SIAM Review 4(3), 1962)
 *   hash    the key is compared only where the 32 bits of hash agree
 *   key     the key is compared in every slot that is looked at
 */
#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "common/text/parse.h"
#include "common/numbers/random.h"

#define MIN_SLOTS     1024u
#define MAX_SLOTS     (1u << 26)
#define KEY_BYTES     16u
#define RECORD_BYTES  96u /* as the store has for a value of 64 bytes */
#define COUNTED       100000u
#define LOOKUPS_A_LAP 4096u /* between two looks at the clock */

struct table_slot {
    uint32_t hash;
    uint32_t record; /* its number + 1; 0: the slot is free */
};

struct table {
    struct table_slot *slots;
    uint32_t slot_mask;
    char *records;
    uint32_t count;
    uint64_t hash_seed;
};

struct counts {
    uint64_t probes;
    uint64_t key_comparisons;
    uint64_t found;
};

static void make_key(char key[KEY_BYTES + 1], uint64_t number)
{
    snprintf(key, KEY_BYTES + 1, "key%013" PRIu64, number);
}

static uint32_t hash_of(const struct table *table, const char *key)
{
    return (uint32_t)(XXH3_64bits_withSeed(key, KEY_BYTES, table->hash_seed) >> 32);
}

/* The next number of the permutation: multiplier 1 modulo 4, odd increment. */
static uint32_t next_step(uint32_t step)
{
    return step * 0x2c1b3c6du + 0x297a2d39u;
}

/* Walks the slots of a hash until the key is found (true) or a free one is. is_random, by_hash and
 * counts are constants where this is called: each way becomes a loop of its own. */
static inline __attribute__((always_inline)) bool find(const struct table *table, uint32_t hash,
                                                       const char *key, bool is_random,
                                                       bool by_hash, uint32_t *position,
                                                       struct counts *counts)
{
    uint32_t step = 0;
    for (uint32_t at = hash & table->slot_mask;;) {
        struct table_slot slot = table->slots[at];
        if (counts)
            counts->probes++;
        *position = at;
        if (slot.record == 0)
            return false;
        if (!by_hash || slot.hash == hash) {
            if (counts)
                counts->key_comparisons++;
            if (memcmp(table->records + (size_t)(slot.record - 1) * RECORD_BYTES, key, KEY_BYTES) ==
                0)
                return true;
        }
        step = is_random ? next_step(step) : step + 1;
        at = (hash + step) & table->slot_mask;
    }
}

typedef bool (*lookup_function)(const struct table *table, const char *key, struct counts *counts);

#define LOOKUP(name, is_random, by_hash)                                                          \
    static bool name(const struct table *table, const char *key, struct counts *counts)           \
    {                                                                                             \
        uint32_t position;                                                                        \
        return counts                                                                             \
                   ? find(table, hash_of(table, key), key, is_random, by_hash, &position, counts) \
                   : find(table, hash_of(table, key), key, is_random, by_hash, &position, NULL);  \
    }
LOOKUP(lookup_linear_key, false, false)
LOOKUP(lookup_linear_hash, false, true)
LOOKUP(lookup_random_key, true, false)
LOOKUP(lookup_random_hash, true, true)

static void fill(struct table *table, bool is_random, uint32_t keys)
{
    char key[KEY_BYTES + 1];
    for (; table->count < keys; table->count++) {
        uint32_t position;
        make_key(key, (uint64_t)table->count * 2);
        uint32_t hash = hash_of(table, key);
        find(table, hash, key, is_random, true, &position, NULL);
        memcpy(table->records + (size_t)table->count * RECORD_BYTES, key, KEY_BYTES);
        table->slots[position] = (struct table_slot){hash, table->count + 1};
    }
}

/* Keys with an even number are there. */
static uint64_t look_up(const struct table *table, lookup_function lookup,
                        struct random_state *random, uint32_t times, struct counts *counts)
{
    uint64_t found = 0;
    char key[KEY_BYTES + 1];
    for (uint32_t i = 0; i < times; i++) {
        uint64_t number = random_below(random, (uint64_t)table->count * 2);
        make_key(key, number);
        bool is_there = lookup(table, key, counts);
        if (is_there != (number % 2 == 0))
            errx(4, "key %" PRIu64 " was %s", number, is_there ? "found" : "not found");
        found += is_there;
    }
    return found;
}

/* Of this process: what else runs on the machine meanwhile does not count. */
static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What all of a lookup but the lookup costs: the same for every series. */
static double overhead_ns(uint32_t keys, struct random_state *random)
{
    char key[KEY_BYTES + 1];
    unsigned sum = 0;
    uint64_t start_ns = cpu_ns();
    for (uint32_t i = 0; i < COUNTED; i++) {
        make_key(key, random_below(random, (uint64_t)keys * 2));
        sum += (unsigned char)key[KEY_BYTES - 1];
    }
    uint64_t elapsed_ns = cpu_ns() - start_ns;
    return sum == 0 ? 0 : (double)elapsed_ns / COUNTED;
}

int main(int argc, char **argv)
{
    uint64_t fill_percent, slots, seed;
    double seconds = 0;
    bool is_random = argc > 1 && strcmp(argv[1], "random") == 0;
    bool by_hash = argc > 2 && strcmp(argv[2], "hash") == 0;
    if (argc != 7 || (!is_random && strcmp(argv[1], "linear") != 0) ||
        (!by_hash && strcmp(argv[2], "key") != 0) || !parse_u64(argv[3], 1, 99, &fill_percent) ||
        !parse_u64(argv[4], MIN_SLOTS, MAX_SLOTS, &slots) || (slots & (slots - 1)) != 0 ||
        !parse_double(argv[5], 0.001, 1e6, &seconds) || !parse_u64(argv[6], 0, UINT64_MAX, &seed))
        errx(2, "usage: compare_load linear|random hash|key FILL_PERCENT SLOTS SECONDS SEED");
    static const lookup_function lookups[2][2] = {{lookup_linear_key, lookup_linear_hash},
                                                  {lookup_random_key, lookup_random_hash}};
    lookup_function lookup = lookups[is_random][by_hash];

    struct table table = {.slot_mask = (uint32_t)slots - 1, .hash_seed = seed};
    uint32_t keys = (uint32_t)(slots * fill_percent / 100);
    table.slots = calloc(slots, sizeof *table.slots);
    table.records = calloc(keys, RECORD_BYTES);
    if (!table.slots || !table.records)
        err(4, "calloc");
    fill(&table, is_random, keys);

    struct random_state random;
    struct counts counts = {0};
    random_seed(&random, seed);
    look_up(&table, lookup, &random, COUNTED, &counts);
    double not_lookup_ns = overhead_ns(keys, &random);
    uint64_t lookups_done = 0, start_ns = cpu_ns(), elapsed_ns;
    do {
        look_up(&table, lookup, &random, LOOKUPS_A_LAP, NULL);
        lookups_done += LOOKUPS_A_LAP;
        elapsed_ns = cpu_ns() - start_ns;
    } while ((double)elapsed_ns < seconds * 1e9);
    double lookup_ns = (double)elapsed_ns / (double)lookups_done - not_lookup_ns;
    puts("ops,seconds,ops_per_s,lookup_ns,probes_per_lookup,key_comparisons_per_lookup");
    printf("%" PRIu64 ",%.6f,%.1f,%.3f,%.4f,%.4f\n", lookups_done, (double)elapsed_ns / 1e9,
           1e9 / lookup_ns, lookup_ns, (double)counts.probes / COUNTED,
           (double)counts.key_comparisons / COUNTED);
    free(table.records);
    free(table.slots);
    return 0;
}
