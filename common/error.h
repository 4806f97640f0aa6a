/*
 * error: a status together with the sentence that tells a person what was wrong, with which
 * value, and what to do. Used where something is set up (open, connect, parse options); the hot
 * path uses bare statuses.
 */
#ifndef MQKV_COMMON_ERROR_H
#define MQKV_COMMON_ERROR_H

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported by libclientk.so */

#define KV_ERROR_TEXT_BYTES 768

/* Plain data; start from {0}. text is always NUL-terminated, and fit to be shown by a terminal
 * (escape_is_printable), whatever it repeats. */
struct kv_error {
    enum kv_status status;
    char text[KV_ERROR_TEXT_BYTES];
};

/* Fills *error (which may be NULL: then only the status is returned) with a formatted sentence,
 * cut off with "..." if it is too long. Keeps errno. Returns status, so that
 * `return kv_error_set(error, KV_BUSY, "...")` is one line. */
enum kv_status kv_error_set(struct kv_error *error, enum kv_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As kv_error_set with the status taken from errno and ": <strerror(errno)>" added at the end, and the
 * limit that was reached, if it is one of descriptors. */
enum kv_status kv_error_set_errno(struct kv_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For a thread or process that could not be made: as kv_error_set_errno with that error number instead
 * of errno, but KV_LIMIT, and with the limits that may be the cause. */
enum kv_status kv_error_set_no_thread(struct kv_error *error, int error_number, const char *format,
                                      ...) __attribute__((format(printf, 3, 4)));

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
