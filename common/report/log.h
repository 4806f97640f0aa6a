/*
 * log: one line per event on stderr, or in a file: "2026-11-20T11:12:13.456Z LEVEL message".
 * Thread-safe: one write(2) per line. Every function keeps errno. Where that takes nothing (a pipe
 * that is full) the first line waits some tenths of a second; that and further ones are dropped,
 * and counted in a line of the log when there is room again.
 */
#ifndef MQKV_COMMON_REPORT_LOG_H
#define MQKV_COMMON_REPORT_LOG_H

#include "mqkv/error.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Lines above this level are dropped. The default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);

/* From now on lines are appended to the file, which is made with mode 0640 where there is none,
 * instead of to stderr. Called again it opens the file anew: for after a rename. On failure, with a
 * sentence, lines go where they went. One thread at a time. */
enum kv_status log_open(const char *path, struct kv_error *error);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
