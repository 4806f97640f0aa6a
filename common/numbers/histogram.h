/*
 * histogram: durations in nanoseconds counted in log-linear buckets (the idea of HdrHistogram,
 * Gil Tene): 64 linear buckets a power of two, so a reported value is at most 1/64 (1.6 %) above
 * the true one, over 1 ns .. 2^40 ns (18 minutes); longer ones count in the last bucket, and the
 * exact maximum is kept beside. A histogram has one writer at a time; readers may merge or copy
 * it while it is written and then see each count either before or after (atomics).
 */
#ifndef MQKV_COMMON_NUMBERS_HISTOGRAM_H
#define MQKV_COMMON_NUMBERS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_LINEAR_BITS    6
#define HISTOGRAM_MAX_BITS       40
#define HISTOGRAM_LINEAR_BUCKETS (1u << HISTOGRAM_LINEAR_BITS)
#define HISTOGRAM_BUCKETS \
    ((HISTOGRAM_MAX_BITS - HISTOGRAM_LINEAR_BITS + 1) << HISTOGRAM_LINEAR_BITS)

/* About 18 KiB; start from {0}. */
struct histogram {
    uint64_t total_count;
    uint64_t total_ns;
    uint64_t min_ns; /* valid if total_count > 0 */
    uint64_t max_ns;
    uint64_t counts[HISTOGRAM_BUCKETS];
};

/* The writer publishes: the sum and the extremes first, then the counts with release; a reader that
 * takes the counts with acquire finds extremes that cover what it counted. On x86 both are plain
 * moves. */
static inline void histogram_publish(uint64_t *field, uint64_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

/* Group 0 holds the values below HISTOGRAM_LINEAR_BUCKETS, one per bucket; group g >= 1 those of
 * one power of two, cut into as many buckets of 2^(g-1) values. */
static inline unsigned histogram_bucket_of(uint64_t value_ns)
{
    if (value_ns < HISTOGRAM_LINEAR_BUCKETS)
        return (unsigned)value_ns;
    if (value_ns >> HISTOGRAM_MAX_BITS)
        return HISTOGRAM_BUCKETS - 1;
    unsigned highest_bit = 63u - (unsigned)__builtin_clzll(value_ns);
    unsigned shift = highest_bit - HISTOGRAM_LINEAR_BITS;
    unsigned within = (unsigned)(value_ns >> shift) & (HISTOGRAM_LINEAR_BUCKETS - 1);
    return (shift + 1) * HISTOGRAM_LINEAR_BUCKETS + within;
}

static inline void histogram_widen(struct histogram *histogram, uint64_t min_ns, uint64_t max_ns)
{
    if (histogram->total_count == 0 || min_ns < histogram->min_ns)
        histogram_publish(&histogram->min_ns, min_ns);
    if (max_ns > histogram->max_ns)
        histogram_publish(&histogram->max_ns, max_ns);
}

static inline void histogram_record(struct histogram *histogram, uint64_t value_ns)
{
    histogram_widen(histogram, value_ns, value_ns);
    histogram_publish(&histogram->total_ns, histogram->total_ns + value_ns);
    uint64_t *count = &histogram->counts[histogram_bucket_of(value_ns)];
    histogram_publish(count, *count + 1);
    histogram_publish(&histogram->total_count, histogram->total_count + 1);
}

/* Adds the counts of `from` to `into`. `from` may be written meanwhile; `into` must not be. */
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The smallest value that at least `fraction` (0..1) of the recorded values do not exceed, rounded
 * up to the top of its bucket, but never above max_ns. 0 if nothing was recorded. */
uint64_t histogram_quantile_ns(const struct histogram *histogram, double fraction);

double histogram_mean_ns(const struct histogram *histogram);

/* The highest value of bucket i, for those who print the distribution. */
uint64_t histogram_bucket_top_ns(unsigned bucket);

#endif
