/*
 * metrics_reader: reads the text format of Prometheus, as serverk writes it. It reads any bytes, in
 * time and memory that grow with their number only; what is no sample is passed over.
 */
#ifndef MQKV_CLIENTK_PROGRAM_OPS_METRICS_READER_H
#define MQKV_CLIENTK_PROGRAM_OPS_METRICS_READER_H

#include <stdbool.h>
#include <stddef.h>

/* One line. The texts are in metrics->text, and may hold any bytes but NUL. */
struct metric_sample {
    const char *name;
    const char *label; /* value of its first label that is not "le"; "": none */
    double le;         /* upper bound of a bucket; INFINITY where there is none */
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

/* False: out of memory. metrics_free in any case. */
bool metrics_read(struct metrics *metrics, const char *text, size_t size);
void metrics_free(struct metrics *metrics);

/* Without samples if there are none of that name. */
struct metric_family metrics_family(const struct metrics *metrics, const char *name);

/* The sample of the name and label, "" for one without; 0 if there is none. */
double metrics_value(const struct metrics *metrics, const char *name, const char *label);

/* Of all labels together; not of histograms. */
double metrics_sum(const struct metrics *metrics, const char *name);

/* The quantile (0..1) of what came to the histogram NAME_bucket between the two, interpolated
 * within its bucket; before NULL: since the start. 0 if nothing came. */
double metrics_quantile(const struct metrics *before, const struct metrics *now, const char *name,
                        const char *label, double quantile);

#endif
