/*
 * bench_cache_policy: hit ratios of eviction policies on traces, from which the policy of
 * kvstore/cache was chosen (the figures are in its header). Entries are of one size; nothing is
 * stored.
 *
 *   LRU      the baseline
 *   CLOCK    F. J. Corbato, "A Paging Experiment with the Multics System", 1968
 *   SIEVE    Y. Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024
 *   S3-FIFO  J. Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023
 *
 * Traces over KEYS keys: zipfian with theta 0.99; the same where every fifth request belongs to a
 * walk through all keys in order, as of a backup; and zipfian whose popular keys move every so
 * often.
 *
 * usage: bench_cache_policy [REQUESTS [SEED]]
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"

#define KEYS             100000u
#define DEFAULT_REQUESTS 2000000u
#define THETA            0.99
#define WALK_ONE_IN      5u
#define MOVE_EVERY       200000u
#define MOVE_BY          5000u
#define NONE             UINT32_MAX

/* One key. A policy uses what it needs. */
struct node {
    uint32_t older, newer;
    uint8_t queue; /* 0: not cached */
    uint8_t uses;  /* since it came or was last spared */
};

struct policy_queue {
    uint32_t newest, oldest;
    uint32_t count;
};

enum { ABSENT, MAIN, SMALL, GHOST, QUEUES };

struct policy_cache {
    struct node nodes[KEYS];
    struct policy_queue queues[QUEUES];
    uint32_t hand; /* of SIEVE */
    uint32_t capacity;
};

static void take_out(struct policy_cache *cache, uint32_t key)
{
    struct node *node = &cache->nodes[key];
    struct policy_queue *queue = &cache->queues[node->queue];
    if (node->older != NONE)
        cache->nodes[node->older].newer = node->newer;
    else
        queue->oldest = node->newer;
    if (node->newer != NONE)
        cache->nodes[node->newer].older = node->older;
    else
        queue->newest = node->older;
    queue->count--;
    node->queue = ABSENT;
}

static void put_newest(struct policy_cache *cache, uint32_t key, uint8_t to)
{
    struct node *node = &cache->nodes[key];
    struct policy_queue *queue = &cache->queues[to];
    node->queue = to;
    node->newer = NONE;
    node->older = queue->newest;
    if (queue->newest != NONE)
        cache->nodes[queue->newest].newer = key;
    else
        queue->oldest = key;
    queue->newest = key;
    queue->count++;
}

static bool lru(struct policy_cache *cache, uint32_t key)
{
    bool hit = cache->nodes[key].queue == MAIN;
    if (hit)
        take_out(cache, key);
    else if (cache->queues[MAIN].count == cache->capacity)
        take_out(cache, cache->queues[MAIN].oldest);
    put_newest(cache, key, MAIN);
    return hit;
}

static bool clock_policy(struct policy_cache *cache, uint32_t key)
{
    struct node *nodes = cache->nodes;
    if (nodes[key].queue == MAIN) {
        nodes[key].uses = 1;
        return true;
    }
    while (cache->queues[MAIN].count == cache->capacity) {
        uint32_t oldest = cache->queues[MAIN].oldest;
        take_out(cache, oldest);
        if (nodes[oldest].uses) {
            nodes[oldest].uses = 0;
            put_newest(cache, oldest, MAIN);
        }
    }
    nodes[key].uses = 0;
    put_newest(cache, key, MAIN);
    return false;
}

static bool sieve(struct policy_cache *cache, uint32_t key)
{
    struct node *nodes = cache->nodes;
    if (nodes[key].queue == MAIN) {
        nodes[key].uses = 1;
        return true;
    }
    if (cache->queues[MAIN].count == cache->capacity) {
        uint32_t hand = cache->hand;
        for (;;) {
            if (hand == NONE)
                hand = cache->queues[MAIN].oldest;
            if (!nodes[hand].uses)
                break;
            nodes[hand].uses = 0;
            hand = nodes[hand].newer;
        }
        cache->hand = nodes[hand].newer;
        take_out(cache, hand);
    }
    nodes[key].uses = 0;
    put_newest(cache, key, MAIN);
    return false;
}

static void evict_s3(struct policy_cache *cache)
{
    struct node *nodes = cache->nodes;
    uint32_t small_capacity = cache->capacity / 10;
    while (cache->queues[SMALL].count + cache->queues[MAIN].count >= cache->capacity) {
        bool from_small = cache->queues[SMALL].count >= small_capacity;
        uint32_t oldest = cache->queues[from_small ? SMALL : MAIN].oldest;
        take_out(cache, oldest);
        if (from_small && nodes[oldest].uses > 1) {
            nodes[oldest].uses = 0;
            put_newest(cache, oldest, MAIN);
        } else if (from_small) {
            if (cache->queues[GHOST].count >= cache->capacity - small_capacity)
                take_out(cache, cache->queues[GHOST].oldest);
            put_newest(cache, oldest, GHOST);
        } else if (nodes[oldest].uses > 0) {
            nodes[oldest].uses--;
            put_newest(cache, oldest, MAIN);
        }
    }
}

static bool s3_fifo(struct policy_cache *cache, uint32_t key)
{
    struct node *node = &cache->nodes[key];
    if (node->queue == MAIN || node->queue == SMALL) {
        node->uses += node->uses < 3;
        return true;
    }
    bool ghost = node->queue == GHOST;
    if (ghost)
        take_out(cache, key);
    evict_s3(cache);
    node->uses = 0;
    put_newest(cache, key, ghost ? MAIN : SMALL);
    return false;
}

static const struct policy {
    const char *name;
    bool (*request)(struct policy_cache *cache, uint32_t key); /* hit? */
} policies[] = {{"LRU", lru}, {"CLOCK", clock_policy}, {"SIEVE", sieve}, {"S3-FIFO", s3_fifo}};

/* Traces --------------------------------------------------------------------------------------- */

static double cumulative[KEYS];

static void prepare_zipfian(void)
{
    double sum = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        cumulative[i] = sum += 1 / pow(i + 1, THETA);
}

static uint32_t zipfian_rank(struct random_state *random)
{
    double wanted = random_unit(random) * cumulative[KEYS - 1];
    uint32_t low = 0, high = KEYS - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (cumulative[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Ranks are spread over the key numbers, so that a walk does not meet them in order. */
static uint32_t key_of_rank(uint32_t rank)
{
    return (uint32_t)((uint64_t)rank * 48271u % KEYS);
}

enum trace { ZIPFIAN, POLLUTED, MOVING, TRACES };
static const char *const trace_names[TRACES] = {"zipfian", "zipfian and a walk", "zipfian, moving"};

static uint32_t key_requested(enum trace trace, uint32_t request, struct random_state *random)
{
    if (trace == POLLUTED && request % WALK_ONE_IN == 0)
        return request / WALK_ONE_IN % KEYS;
    uint32_t moved = trace == MOVING ? request / MOVE_EVERY * MOVE_BY : 0;
    return key_of_rank((zipfian_rank(random) + moved) % KEYS);
}

/* The first half of the requests warms up. */
static double hit_ratio(const struct policy *policy, enum trace trace, uint32_t capacity,
                        uint32_t requests, uint64_t seed)
{
    static struct policy_cache cache;
    struct random_state random;
    random_seed(&random, seed);
    memset(&cache, 0, sizeof cache);
    for (int i = 0; i < QUEUES; i++)
        cache.queues[i] = (struct policy_queue){NONE, NONE, 0};
    cache.hand = NONE;
    cache.capacity = capacity;
    uint32_t hits = 0;
    for (uint32_t request = 0; request < requests; request++) {
        bool hit = policy->request(&cache, key_requested(trace, request, &random));
        hits += hit && request >= requests / 2;
    }
    uint32_t counted = requests - requests / 2;
    return (double)hits / counted;
}

int main(int argc, char **argv)
{
    static const uint32_t capacities[] = {KEYS / 1000, KEYS / 100, KEYS / 10};
    uint32_t requests = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : DEFAULT_REQUESTS;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    prepare_zipfian();
    printf("%-20s %8s", "hit ratio", "cached");
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        printf(" %8s", policies[p].name);
    printf("\n");
    for (int trace = 0; trace < TRACES; trace++) {
        for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++) {
            printf("%-20s %7.1f%%", trace_names[trace], 100.0 * capacities[c] / KEYS);
            for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
                printf(" %8.4f",
                       hit_ratio(&policies[p], (enum trace)trace, capacities[c], requests, seed));
            printf("\n");
        }
    }
    return 0;
}
