/*
 * error: a status together with the sentence that tells a person what was wrong, with which value,
 * and what to do. Filled where something is set up (open, connect); the other calls give a status
 * alone.
 */
#ifndef MQKV_ERROR_H
#define MQKV_ERROR_H

#include <stdint.h>

#include "mqkv/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KV_ERROR_TEXT_BYTES 768

/* Plain data; start from {0}. text is always NUL-terminated, and can be shown by a terminal,
 * whatever it repeats. */
struct kv_error {
    enum kv_status status;
    char text[KV_ERROR_TEXT_BYTES];
    uint32_t reserved[3];
};

#ifdef __cplusplus
}
#endif
#endif
