/*
 * metrics_reader: reads the text format of Prometheus, as serverk writes it. It reads any bytes, in
 * time and memory proportional to their number; lines that are no samples are skipped.
 */
#ifndef MQKV_TOOLS_OPS_METRICS_READER_H
#define MQKV_TOOLS_OPS_METRICS_READER_H

#include <stdbool.h>
#include <stddef.h>

/* One sample. The texts are in metrics->text, and may hold any bytes but NUL. */
struct metric_sample {
    const char *name;
    const char *label; /* value of its first label other than "le"; "": none */
    double le;         /* upper bound of a bucket; INFINITY if there is none */
    double value;
};

struct metrics {
    char *text;
    struct metric_sample *samples;
    size_t count;
};

/* The samples of one name, which stand together but for those of histograms. */
struct metric_family {
    const struct metric_sample *samples;
    size_t count;
};

/* Reads the text. False: out of memory. The caller calls metrics_free in any case. */
bool metrics_read(struct metrics *metrics, const char *text, size_t size);
void metrics_free(struct metrics *metrics);

/* Returns the samples of that name; none if there are none. */
struct metric_family metrics_family(const struct metrics *metrics, const char *name);

/* Returns the value of the sample with this name and label ("": without a label); 0 if there is
 * none. */
double metrics_value(const struct metrics *metrics, const char *name, const char *label);

/* Returns the sum over all labels; not for histograms. */
double metrics_sum(const struct metrics *metrics, const char *name);

/* Returns the quantile (0..1) of what came to the histogram NAME_bucket between the two,
 * interpolated within its bucket; before NULL: since the start. 0 if nothing came. */
double metrics_quantile(const struct metrics *before, const struct metrics *now, const char *name,
                        const char *label, double quantile);

#endif
