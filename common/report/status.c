#include "mqkv/status.h"

#include <errno.h>
#include <stddef.h>

struct status_words {
    const char *name;
    const char *text;
};

static const struct status_words status_words[KV_STATUS_COUNT] = {
    [KV_OK] = {"ok", "done"},
    [KV_NOT_FOUND] = {"not_found", "key not found"},
    [KV_EXISTS] = {"exists", "key exists already"},
    [KV_VERSION_MISMATCH] = {"version_mismatch", "the entry has another version"},
    [KV_OUT_OF_BOUNDS] = {"out_of_bounds", "the sum would be out of bounds, or overflow 64 bits"},
    [KV_NOT_A_NUMBER] = {"not_a_number", "the value is not a decimal integer"},
    [KV_BAD_KEY] = {"bad_key", "a key has 1 to 65535 bytes"},
    [KV_VALUE_TOO_BIG] = {"value_too_big", "value above the limit of the store"},
    [KV_BUFFER_TOO_SMALL] = {"buffer_too_small", "the value does not fit the buffer"},
    [KV_BAD_REQUEST] = {"bad_request", "malformed request"},
    [KV_UNSUPPORTED] = {"unsupported", "unknown operation, flag or version"},
    [KV_DENIED] = {"denied", "permission denied"},
    [KV_USAGE] = {"usage", "wrong argument or option"},
    [KV_NO_SPACE] = {"no_space", "no space left for the data"},
    [KV_READ_ONLY] = {"read_only", "the data file takes no writes"},
    [KV_CORRUPT] =
        {"corrupt",
         "damaged data: a checksum does not hold (the log of the store names the place)"},
    [KV_IO] = {"io", "input/output error"},
    [KV_NOT_DURABLE] = {"not_durable", "applied, but the sync to disk failed"},
    [KV_NO_MEMORY] = {"no_memory", "out of memory"},
    [KV_BUSY] = {"busy", "in use by another process"},
    [KV_MISMATCH] = {"mismatch", "the store has another layout or format"},
    [KV_OVERLOADED] = {"overloaded", "server overloaded, not executed"},
    [KV_DEADLINE] = {"deadline", "deadline passed, not executed"},
    [KV_TIMEOUT] = {"timeout", "no answer in time"},
    [KV_NO_SERVER] = {"no_server", "no server on this queue"},
    [KV_OUTCOME_UNKNOWN] = {"outcome_unknown", "server lost, the write may have been executed"},
    [KV_LIMIT] = {"limit", "a limit of the operating system is reached"},
    [KV_NO_SESSION] = {"no_session", "the server does not know this session"},
    [KV_CROWDED] =
        {"crowded",
         "too many keys whose hash begins as this key's does; other keys can be written"},
    [KV_QUOTA] =
        {"quota",
         "above a quota: of this user (keys, bytes, operations a second), or of keys that begin "
         "so; stats users and stats quotas tell which"},
    [KV_FULL] = {"full", "the store has reached its limit (serverk --max-bytes); delete something"},
    [KV_MISSED] = {"missed", "changes were missed: they are not kept any more"},
    [KV_APART] = {"apart", "the keys lie in several shards of the cluster"},
};

static const struct status_words *words_of(enum kv_status status)
{
    static const struct status_words unknown = {"unknown_status", "unknown status"};
    size_t index = (size_t)status;
    return index < KV_STATUS_COUNT ? &status_words[index] : &unknown;
}

const char *kv_status_name(enum kv_status status)
{
    return words_of(status)->name;
}

const char *kv_status_text(enum kv_status status)
{
    return words_of(status)->text;
}
