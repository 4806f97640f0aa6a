/*
 * metrics_file: a file with the metrics (metrics.h), written anew every 10 seconds, for the
 * textfile collector of node_exporter. Whoever opens it sees all of one text.
 *
 * Threads: the main thread only.
 */
#ifndef MQKV_SERVERK_DAEMON_METRICS_FILE_H
#define MQKV_SERVERK_DAEMON_METRICS_FILE_H

#include "mqkv/error.h"
#include "serverk/daemon/stats_source.h"

struct metrics_file;

/* Writes the file for the first time, so that a wrong name is a failure of the start. Borrows both
 * arguments. On failure, with a sentence, *result is to be ended all the same, if it is not
 * NULL. */
enum kv_status metrics_file_start(const struct stats_source *source, const char *file,
                                  struct metrics_file **result, struct kv_error *error);

/* Readable when the file is due; -1 of NULL. */
int metrics_file_timer(const struct metrics_file *metrics);

/* The timer is readable. A failure is logged once; the file stays as it was. */
void metrics_file_tick(struct metrics_file *metrics);

/* Removes the file: what does not run has no metrics. NULL is harmless. */
void metrics_file_end(struct metrics_file *metrics);

#endif
