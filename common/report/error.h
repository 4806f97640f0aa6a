/*
 * error: fills errors (mqkv/error.h): the status, and the sentence for a person. A terminal can
 * show the text (escape_is_printable), whatever the text repeats.
 */
#ifndef MQKV_COMMON_REPORT_ERROR_H
#define MQKV_COMMON_REPORT_ERROR_H

#include "mqkv/error.h"

/* Fills *error (which may be NULL: then only the status is returned) with a formatted sentence,
 * cut off with "..." if it is too long. Keeps errno. Returns status, so that
 * `return kv_error_set(error, KV_BUSY, "...")` is one line. */
enum kv_status kv_error_set(struct kv_error *error, enum kv_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* kv_error_set with the status that stands for errno; the sentence ends with ": <strerror(errno)>",
 * and with the limit that was reached, if that is one of descriptors. */
enum kv_status kv_error_set_errno(struct kv_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For a thread or process that could not be made, because of error_number: kv_error_set with
 * KV_LIMIT; the sentence ends with what error_number means and the limits that may be the cause. */
enum kv_status kv_error_set_no_thread(struct kv_error *error, int error_number, const char *format,
                                      ...) __attribute__((format(printf, 3, 4)));

/* The status that stands for an errno of the operating system: ENOSPC, EDQUOT, EFBIG ->
 * KV_NO_SPACE; ENOMEM -> KV_NO_MEMORY; EACCES, EPERM -> KV_DENIED; EMFILE, ENFILE -> KV_LIMIT;
 * everything else -> KV_IO. */
enum kv_status kv_status_from_errno(int error_number);

#endif
