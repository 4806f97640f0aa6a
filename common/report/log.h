/*
 * log: writes one line per event to stderr, or to a file: "2026-11-20T11:12:13.456Z LEVEL message".
 * Thread-safe: one write(2) per line. Every function keeps errno. When stderr takes no bytes (a
 * pipe that is full), the first line waits some tenths of a second; that line and the following
 * ones are dropped, and a line of the log counts them when there is room again.
 */
#ifndef MQKV_COMMON_REPORT_LOG_H
#define MQKV_COMMON_REPORT_LOG_H

#include "mqkv/error.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Lines above this level are dropped. The default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);

/* Appends lines from now on to the file `path`, which is made with mode 0640 if there is none,
 * instead of to stderr. A further call opens the file anew, for after a rename. On failure, with a
 * sentence in `error`, lines go where they went before. One thread at a time. */
enum kv_status log_open(const char *path, struct kv_error *error);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
