#include "bridges/kresp/session/redis_error.h"

static const char *error_text(enum kv_status status)
{
    switch (status) {
    case KV_NOT_A_NUMBER:
        return "ERR value is not an integer or out of range";
    case KV_OUT_OF_BOUNDS:
        return "ERR increment or decrement would overflow";
    case KV_VALUE_TOO_BIG:
        return "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    case KV_NO_SPACE:
        return "OOM kresp: the store has no space left";
    case KV_FULL:
        return "OOM kresp: the store has reached its limit (serverk --max-bytes)";
    case KV_QUOTA:
        return "OOM kresp: a quota of serverk is used up";
    case KV_READ_ONLY:
        return "READONLY kresp: the store takes no writes after a failure of its disk";
    case KV_OVERLOADED:
        return "BUSY kresp: the server is overloaded";
    case KV_BUSY:
        return "BUSY kresp: serverk is still building the order of the keys";
    case KV_NO_SERVER:
    case KV_DEADLINE:
        return "LOADING kresp: no answer from serverk; nothing was executed";
    case KV_TIMEOUT:
    case KV_OUTCOME_UNKNOWN:
        return "ERR kresp: outcome unknown: serverk did not answer, a write may have been executed";
    case KV_DENIED:
        return "NOPERM kresp: serverk denies it";
    default:
        return NULL;
    }
}

void reply_status(struct resp_reply *reply, enum kv_status status)
{
    const char *text = error_text(status);
    if (text)
        reply_error(reply, "%s", text);
    else
        reply_error(reply, "ERR kresp: %s", kv_status_text(status));
}
