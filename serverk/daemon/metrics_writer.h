/*
 * metrics_writer: lines of the text format of Prometheus. All names begin with "mqkv_", which the
 * callers leave out.
 */
#ifndef MQKV_SERVERK_DAEMON_METRICS_WRITER_H
#define MQKV_SERVERK_DAEMON_METRICS_WRITER_H

#include <stdint.h>
#include <stdio.h>

/* Writes what is to stand before the first line of a metric: a counter if its name ends with
 * "_total", as the conventions of Prometheus have it, else a gauge; or a histogram. */
void metrics_begin(FILE *out, const char *name, const char *help);
void metrics_begin_histogram(FILE *out, const char *name, const char *help);

/* Writes one metric without labels, with what stands before it. */
void metrics_put_new(FILE *out, const char *name, const char *help, uint64_t value);

/* Writes a line, without labels, of a metric that was begun. */
void metrics_put(FILE *out, const char *name, uint64_t value);

/* The same with label="of", which needs no escapes. */
void metrics_put_labelled(FILE *out, const char *name, const char *label, const char *of,
                          uint64_t value);

/* Writes the value of a label: quotes, backslashes and newlines are escaped. */
void metrics_put_escaped(FILE *out, const char *text);

#endif
