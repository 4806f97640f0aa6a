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

static inline void begin_element(struct json *json)
{
    if (!json->first)
        fputc(',', json->stream);
    json->first = false;
}

static inline void begin_member(struct json *json, const char *name)
{
    begin_element(json);
    fprintf(json->stream, "\"%s\":", name);
}

static inline void open_object(struct json *json)
{
    fputc('{', json->stream);
    json->first = true;
}

static inline void close_object(struct json *json)
{
    fputc('}', json->stream);
    json->first = false;
}

static inline void open_array(struct json *json)
{
    fputc('[', json->stream);
    json->first = true;
}

static inline void close_array(struct json *json)
{
    fputc(']', json->stream);
    json->first = false;
}

static inline void put_number(struct json *json, const char *name, uint64_t number)
{
    begin_member(json, name);
    fprintf(json->stream, "%" PRIu64, number);
}

static inline void put_us(struct json *json, const char *name, double ns)
{
    begin_member(json, name);
    fprintf(json->stream, "%.3f", ns / 1000);
}

static inline void put_bytes(struct json *json, const char *name, struct kv_slice bytes)
{
    begin_member(json, name);
    escape_print_json(json->stream, bytes);
}

static inline void put_text(struct json *json, const char *name, const char *text)
{
    put_bytes(json, name, kv_slice_from_string(text));
}

static inline void put_flag(struct json *json, const char *name, bool flag)
{
    begin_member(json, name);
    fputs(flag ? "true" : "false", json->stream);
}

/* Adds an object with the count, the mean, some quantiles and the maximum. */
static inline void put_quantiles(struct json *json, const char *name,
                                 const struct histogram *histogram)
{
    begin_member(json, name);
    open_object(json);
    put_number(json, "count", histogram->total_count);
    put_us(json, "mean_us", histogram_mean_ns(histogram));
    put_us(json, "p50_us", (double)histogram_quantile_ns(histogram, 0.5));
    put_us(json, "p90_us", (double)histogram_quantile_ns(histogram, 0.9));
    put_us(json, "p99_us", (double)histogram_quantile_ns(histogram, 0.99));
    put_us(json, "p999_us", (double)histogram_quantile_ns(histogram, 0.999));
    put_us(json, "max_us", (double)histogram->max_ns);
    close_object(json);
}

#endif
