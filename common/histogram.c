#include "common/histogram.h"

#include <stddef.h>

#define LINEAR_BUCKETS (1u << HISTOGRAM_LINEAR_BITS)

/* The writer publishes: the sum and the extremes first, then the counts with release; a reader that
 * takes the counts with acquire finds extremes that cover what it counted. On x86 both are plain
 * moves. */

static uint64_t load(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *field, uint64_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

/* Group 0 holds the values below LINEAR_BUCKETS, one a bucket; group g >= 1 those of one power of
 * two, cut into LINEAR_BUCKETS buckets of 2^(g-1) values. */
static unsigned bucket_of(uint64_t value_ns)
{
    if (value_ns < LINEAR_BUCKETS)
        return (unsigned)value_ns;
    if (value_ns >> HISTOGRAM_MAX_BITS)
        return HISTOGRAM_BUCKETS - 1;
    unsigned highest_bit = 63u - (unsigned)__builtin_clzll(value_ns);
    unsigned shift = highest_bit - HISTOGRAM_LINEAR_BITS;
    unsigned within = (unsigned)(value_ns >> shift) & (LINEAR_BUCKETS - 1);
    return (shift + 1) * LINEAR_BUCKETS + within;
}

uint64_t histogram_bucket_top_ns(unsigned bucket)
{
    if (bucket < LINEAR_BUCKETS)
        return bucket;
    unsigned shift = bucket / LINEAR_BUCKETS - 1;
    uint64_t within = bucket % LINEAR_BUCKETS;
    return ((LINEAR_BUCKETS + within + 1) << shift) - 1;
}

static void widen(struct histogram *histogram, uint64_t min_ns, uint64_t max_ns)
{
    if (histogram->total_count == 0 || min_ns < histogram->min_ns)
        store(&histogram->min_ns, min_ns);
    if (max_ns > histogram->max_ns)
        store(&histogram->max_ns, max_ns);
}

void histogram_record(struct histogram *histogram, uint64_t value_ns)
{
    widen(histogram, value_ns, value_ns);
    store(&histogram->total_ns, histogram->total_ns + value_ns);
    uint64_t *count = &histogram->counts[bucket_of(value_ns)];
    store(count, *count + 1);
    store(&histogram->total_count, histogram->total_count + 1);
}

/* total_count is summed up anew, so that it agrees with the counts that were seen. */
void histogram_merge(struct histogram *into, const struct histogram *from)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t count = load(&from->counts[i]);
        seen += count;
        into->counts[i] += count;
    }
    if (seen == 0)
        return;
    widen(into, load(&from->min_ns), load(&from->max_ns));
    into->total_count += seen;
    into->total_ns += load(&from->total_ns);
}

/* Values a quantile must cover: ceil(fraction * total), at least one. */
static uint64_t quantile_rank(uint64_t total_count, double fraction)
{
    if (!(fraction > 0))
        return 1;
    if (fraction >= 1)
        return total_count;
    double exact = fraction * (double)total_count;
    uint64_t rank = (uint64_t)exact;
    if ((double)rank < exact)
        rank++;
    return rank > 0 ? rank : 1;
}

uint64_t histogram_quantile_ns(const struct histogram *histogram, double fraction)
{
    if (histogram->total_count == 0)
        return 0;
    uint64_t rank = quantile_rank(histogram->total_count, fraction);
    uint64_t covered = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        covered += histogram->counts[i];
        if (covered >= rank) {
            uint64_t top_ns = histogram_bucket_top_ns(i);
            return top_ns < histogram->max_ns ? top_ns : histogram->max_ns;
        }
    }
    return histogram->max_ns; /* the last bucket has no top */
}

double histogram_mean_ns(const struct histogram *histogram)
{
    if (histogram->total_count == 0)
        return 0;
    return (double)histogram->total_ns / (double)histogram->total_count;
}
