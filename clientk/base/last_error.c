#include "clientk/base/last_error.h"

#include <string.h>

#include "mqkv/clientk.h"

_Thread_local struct kv_error last_error_private;

enum kv_status last_error_explain(struct kv_error *error, enum kv_status status)
{
    if (status == KV_OK || status == error->status)
        return status;
    /* Copied, not formatted: a key that is not found is an everyday answer. */
    const char *text = kv_status_text(status);
    size_t length = strnlen(text, sizeof error->text - 1);
    memcpy(error->text, text, length);
    error->text[length] = '\0';
    error->status = status;
    return status;
}

const char *clientk_last_error(void)
{
    return last_error_private.text;
}
