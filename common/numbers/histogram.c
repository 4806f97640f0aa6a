#include "common/numbers/histogram.h"

#include <stddef.h>

static uint64_t load_field(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

uint64_t histogram_bucket_top_ns(unsigned bucket)
{
    if (bucket < HISTOGRAM_LINEAR_BUCKETS)
        return bucket;
    unsigned shift = bucket / HISTOGRAM_LINEAR_BUCKETS - 1;
    uint64_t within = bucket % HISTOGRAM_LINEAR_BUCKETS;
    return ((HISTOGRAM_LINEAR_BUCKETS + within + 1) << shift) - 1;
}

/* total_count is summed up anew, so that it agrees with the counts that were seen. */
void histogram_merge(struct histogram *into, const struct histogram *from)
{
    uint64_t seen = 0;
    if (load_field(&from->total_count) == 0) /* the pages that nobody wrote stay untouched */
        return;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t count = load_field(&from->counts[i]);
        seen += count;
        into->counts[i] += count;
    }
    if (seen == 0)
        return;
    histogram_widen(into, load_field(&from->min_ns), load_field(&from->max_ns));
    into->total_count += seen;
    into->total_ns += load_field(&from->total_ns);
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
