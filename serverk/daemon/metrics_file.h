/*
 * metrics_file: a file with the metrics (metrics.h), written anew every 10 seconds, for the
 * textfile collector of node_exporter. Whoever opens it sees all of one text.
 *
 * A thread of its own writes it, since the disk may make it wait.
 *
 * Threads: the main thread only calls.
 */
#ifndef MQKV_SERVERK_DAEMON_METRICS_FILE_H
#define MQKV_SERVERK_DAEMON_METRICS_FILE_H

#include "mqkv/error.h"
#include "serverk/daemon/stats_source.h"

struct metrics_file;

/* Writes `file` for the first time, so that a wrong name is a failure of the start, and then every
 * INTERVAL_S; of failures in a row the first is logged, and the file stays as it was. Borrows
 * `source` and `file`. On failure, with a sentence, *result is to be ended all the same, if it is
 * not NULL. */
enum kv_status metrics_file_start(const struct stats_source *source, const char *file,
                                  struct metrics_file **result, struct kv_error *error);

/* Removes the file: what does not run has no metrics. NULL is harmless. */
void metrics_file_end(struct metrics_file *metrics);

#endif
