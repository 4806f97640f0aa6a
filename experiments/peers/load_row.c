#include "experiments/peers/load_row.h"

#include <inttypes.h>
#include <stdio.h>

void load_row_print(uint64_t threads, const struct histogram *latency, double took_s)
{
    printf("threads,ops,seconds,ops_per_s,mean_us,p50_us,p99_us,p999_us,max_us\n%" PRIu64
           ",%" PRIu64 ",%.6f,%.1f,%.3f,%.3f,%.3f,%.3f,%.3f\n",
           threads, latency->total_count, took_s, (double)latency->total_count / took_s,
           histogram_mean_ns(latency) / 1e3, (double)histogram_quantile_ns(latency, 0.5) / 1e3,
           (double)histogram_quantile_ns(latency, 0.99) / 1e3,
           (double)histogram_quantile_ns(latency, 0.999) / 1e3, (double)latency->max_ns / 1e3);
}
