/*
 * json_writer: JSON text on a stream, with the commas set right.
 */
#ifndef MQKV_SERVERK_DAEMON_JSON_WRITER_H
#define MQKV_SERVERK_DAEMON_JSON_WRITER_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/numbers/histogram.h"
#include "common/text/escape.h"

/* Each member or element is begun by one of the calls below. */
struct json {
    FILE *stream;
    bool first; /* in the innermost object or array */
};

static inline void json_begin_element(struct json *json)
{
    if (!json->first)
        fputc(',', json->stream);
    json->first = false;
}

static inline void json_begin_member(struct json *json, const char *name)
{
    json_begin_element(json);
    fprintf(json->stream, "\"%s\":", name);
}

static inline void json_open_object(struct json *json)
{
    fputc('{', json->stream);
    json->first = true;
}

static inline void json_close_object(struct json *json)
{
    fputc('}', json->stream);
    json->first = false;
}

static inline void json_open_array(struct json *json)
{
    fputc('[', json->stream);
    json->first = true;
}

static inline void json_close_array(struct json *json)
{
    fputc(']', json->stream);
    json->first = false;
}

static inline void json_put_number(struct json *json, const char *name, uint64_t number)
{
    json_begin_member(json, name);
    fprintf(json->stream, "%" PRIu64, number);
}

static inline void json_put_us(struct json *json, const char *name, double ns)
{
    json_begin_member(json, name);
    fprintf(json->stream, "%.3f", ns / 1000);
}

static inline void json_put_bytes(struct json *json, const char *name, struct kv_slice bytes)
{
    json_begin_member(json, name);
    escape_print_json(json->stream, bytes);
}

static inline void json_put_text(struct json *json, const char *name, const char *text)
{
    json_put_bytes(json, name, kv_slice_from_string(text));
}

static inline void json_put_flag(struct json *json, const char *name, bool flag)
{
    json_begin_member(json, name);
    fputs(flag ? "true" : "false", json->stream);
}

/* Adds an object with the count, the mean, some quantiles and the maximum. */
static inline void json_put_quantiles(struct json *json, const char *name,
                                      const struct histogram *histogram)
{
    json_begin_member(json, name);
    json_open_object(json);
    json_put_number(json, "count", histogram->total_count);
    json_put_us(json, "mean_us", histogram_mean_ns(histogram));
    json_put_us(json, "p50_us", (double)histogram_quantile_ns(histogram, 0.5));
    json_put_us(json, "p90_us", (double)histogram_quantile_ns(histogram, 0.9));
    json_put_us(json, "p99_us", (double)histogram_quantile_ns(histogram, 0.99));
    json_put_us(json, "p999_us", (double)histogram_quantile_ns(histogram, 0.999));
    json_put_us(json, "max_us", (double)histogram->max_ns);
    json_close_object(json);
}

#endif
