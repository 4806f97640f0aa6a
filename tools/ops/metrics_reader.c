#include "tools/ops/metrics_reader.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most buckets of a histogram that are looked at. */
#define MAX_BUCKETS 64u

/* Reading -------------------------------------------------------------------------------------- */

/* Reads NAME="VALUE" and a comma, and ends both texts with NUL. Returns what follows; NULL: that is
 * not there. */
static char *take_label(char *at, char **name, char **value)
{
    *name = at;
    at += strcspn(at, "=\n");
    if (at[0] != '=' || at[1] != '"')
        return NULL;
    *at = '\0';
    at += 2;
    *value = at;
    while (*at && *at != '"')
        at += at[0] == '\\' && at[1] ? 2 : 1;
    if (!*at)
        return NULL;
    *at++ = '\0';
    return at + (*at == ',');
}

static char *take_labels(char *at, struct metric_sample *sample)
{
    char *name, *value;
    bool labelled = false;
    while (at && *at && *at != '}') {
        at = take_label(at, &name, &value);
        if (!at)
            break;
        if (strcmp(name, "le") == 0)
            sample->le = strtod(value, NULL);
        else if (!labelled)
            sample->label = value;
        labelled |= strcmp(name, "le") != 0;
    }
    return at && *at == '}' ? at + 1 : NULL;
}

/* Reads a line. False: the line is no sample. */
static bool take_sample(char *line, struct metric_sample *sample)
{
    *sample = (struct metric_sample){.name = line, .label = "", .le = INFINITY};
    if (line[0] == '#')
        return false;
    char *at = line + strcspn(line, "{ ");
    bool labelled = *at == '{';
    if (*at)
        *at++ = '\0';
    if (labelled)
        at = take_labels(at, sample);
    char *end = at;
    if (at)
        sample->value = strtod(at, &end);
    return at && end != at && isfinite(sample->value);
}

bool metrics_read(struct metrics *metrics, const char *text, size_t size)
{
    size_t lines = 1;
    *metrics = (struct metrics){.text = malloc(size + 1)};
    if (!metrics->text)
        return false;
    memcpy(metrics->text, text, size);
    metrics->text[size] = '\0';
    for (size_t i = 0; i < size; i++)
        lines += metrics->text[i] == '\n';
    metrics->samples = malloc(lines * sizeof *metrics->samples);
    if (!metrics->samples)
        return false;
    char *rest = NULL;
    for (char *line = strtok_r(metrics->text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        metrics->count += take_sample(line, &metrics->samples[metrics->count]);
    return true;
}

void metrics_free(struct metrics *metrics)
{
    free(metrics->text);
    free(metrics->samples);
    *metrics = (struct metrics){.count = 0};
}

/* Finding -------------------------------------------------------------------------------------- */

struct metric_family metrics_family(const struct metrics *metrics, const char *name)
{
    size_t first = 0;
    while (first < metrics->count && strcmp(metrics->samples[first].name, name) != 0)
        first++;
    size_t end = first;
    while (end < metrics->count && strcmp(metrics->samples[end].name, name) == 0)
        end++;
    return (struct metric_family){metrics->samples + first, end - first};
}

double metrics_value(const struct metrics *metrics, const char *name, const char *label)
{
    for (size_t i = 0; i < metrics->count; i++)
        if (strcmp(metrics->samples[i].name, name) == 0 &&
            strcmp(metrics->samples[i].label, label) == 0)
            return metrics->samples[i].value;
    return 0;
}

double metrics_sum(const struct metrics *metrics, const char *name)
{
    struct metric_family family = metrics_family(metrics, name);
    double sum = 0;
    for (size_t i = 0; i < family.count; i++)
        sum += family.samples[i].value;
    return sum;
}

/* Quantiles ------------------------------------------------------------------------------------ */

/* Reads the counts of the histogram's buckets, each of which includes those below it. */
static size_t read_buckets(const struct metrics *metrics, const char *name, const char *label,
                           struct metric_sample buckets[MAX_BUCKETS])
{
    char full_name[128];
    snprintf(full_name, sizeof full_name, "%s_bucket", name);
    size_t count = 0;
    for (size_t i = 0; i < metrics->count && count < MAX_BUCKETS; i++)
        if (strcmp(metrics->samples[i].name, full_name) == 0 &&
            strcmp(metrics->samples[i].label, label) == 0)
            buckets[count++] = metrics->samples[i];
    return count;
}

double metrics_quantile(const struct metrics *before, const struct metrics *now, const char *name,
                        const char *label, double quantile)
{
    struct metric_sample then[MAX_BUCKETS], buckets[MAX_BUCKETS];
    size_t count = read_buckets(now, name, label, buckets);
    bool has_then = before && read_buckets(before, name, label, then) == count;
    for (size_t i = 0; has_then && i < count; i++)
        if (buckets[i].value >= then[i].value)
            buckets[i].value -= then[i].value;
    double wanted = count > 0 ? quantile * buckets[count - 1].value : 0;
    double below = 0, bottom = 0;
    for (size_t i = 0; i < count && wanted > 0; i++) {
        if (buckets[i].value >= wanted && buckets[i].value > below)
            return isinf(buckets[i].le) ? bottom
                                        : bottom + (buckets[i].le - bottom) * (wanted - below) /
                                                       (buckets[i].value - below);
        below = buckets[i].value;
        bottom = buckets[i].le;
    }
    return 0;
}
