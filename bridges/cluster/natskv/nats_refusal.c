#include "bridges/cluster/natskv/nats_refusal.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "bridges/cluster/natskv/nats_json.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"

/* Error codes of JetStream. */
#define WRONG_LAST_SEQUENCE          10071u
#define WRONG_LAST_SEQUENCE_CONSTANT 10164u
#define DUPLICATE_IN_PROCESS         10158u
#define MESSAGE_TOO_LARGE            10054u
#define STORE_FAILED                 10077u
#define INSUFFICIENT_RESOURCES       10023u
#define ACCOUNT_RESOURCES            10002u
#define NO_MEMORY_RESOURCES          10028u
#define STORAGE_RESOURCES            10047u
#define BATCH_DISABLED               10174u
#define BATCH_INCOMPLETE             10176u
#define BATCH_TOO_LARGE              10199u
#define BATCH_HAS_DUPLICATE          10201u
#define TOO_MANY_BATCHES             10210u

static bool describes(struct kv_slice failure, const char *words)
{
    struct kv_slice description = {0};
    return nats_json_string(failure, "description", &description) &&
           kv_slice_equal(description, kv_slice_from_string(words));
}

/* Returns true if a write that was refused may be taken a moment later. A full bucket stays full,
 * though the servers give such errors the code 503, too; "store is closed" comes from a server that
 * ends. */
static bool is_for_now(struct kv_slice failure, uint64_t code)
{
    uint64_t kind = 0;
    nats_json_number(failure, "code", &kind);
    if (code == STORE_FAILED)
        return describes(failure, "store is closed");
    return kind == 503 && code != INSUFFICIENT_RESOURCES;
}

enum refusal_kind nats_refusal_kind(struct kv_slice failure)
{
    uint64_t code = 0;
    nats_json_number(failure, "err_code", &code);
    switch (code) {
    case DUPLICATE_IN_PROCESS:
        return REFUSAL_IN_PROCESS;
    case WRONG_LAST_SEQUENCE:
    case WRONG_LAST_SEQUENCE_CONSTANT:
        return REFUSAL_CHANGED;
    case BATCH_HAS_DUPLICATE:
        return REFUSAL_TAKEN;
    case BATCH_INCOMPLETE:
    case TOO_MANY_BATCHES:
        return REFUSAL_INCOMPLETE;
    default:
        return is_for_now(failure, code) ? REFUSAL_FOR_NOW : REFUSAL_FOR_GOOD;
    }
}

/* A reason for which writes are refused for good. The log reports each reason at its own pace: a
 * full bucket refuses every write, and a mirror tries all writes of a page again and again. */
struct refusal {
    _Atomic uint64_t code; /* 0: the row belongs to no code yet */
    enum kv_status status;
    struct log_pace pace;
};

/* The row of a code that has none yet; the last such row is for all codes that are left over. */
#define OTHER_REFUSAL             \
    {                             \
        0, KV_IO, LOG_PACE(10000) \
    }

static struct refusal refusals[] = {{MESSAGE_TOO_LARGE, KV_VALUE_TOO_BIG, LOG_PACE(10000)},
                                    {STORE_FAILED, KV_NO_SPACE, LOG_PACE(10000)},
                                    {INSUFFICIENT_RESOURCES, KV_NO_SPACE, LOG_PACE(10000)},
                                    {ACCOUNT_RESOURCES, KV_NO_SPACE, LOG_PACE(10000)},
                                    {NO_MEMORY_RESOURCES, KV_NO_SPACE, LOG_PACE(10000)},
                                    {STORAGE_RESOURCES, KV_NO_SPACE, LOG_PACE(10000)},
                                    {BATCH_DISABLED, KV_UNSUPPORTED, LOG_PACE(10000)},
                                    {BATCH_TOO_LARGE, KV_LIMIT, LOG_PACE(10000)},
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL,
                                    OTHER_REFUSAL};

/* Returns the row of the code, and gives it one if it has none. */
static struct refusal *row_of(uint64_t code)
{
    struct refusal *row = refusals;
    struct refusal *last = refusals + sizeof refusals / sizeof refusals[0] - 1;
    for (; row < last && code != 0; row++) {
        uint64_t taken_by = 0;
        if (atomic_compare_exchange_strong(&row->code, &taken_by, code) || taken_by == code)
            return row;
    }
    return last;
}

static const char *sentence_of(enum kv_status status)
{
    switch (status) {
    case KV_NO_SPACE:
        return "the cluster has no room for the write: the log of serverk says why";
    case KV_UNSUPPORTED:
        return "the stream takes no batches any more, which transactions need: its allow_atomic "
               "was switched off";
    case KV_LIMIT:
        return "the servers take no batch of so many messages: their max_batch_size is smaller";
    default:
        return "the servers refused the write: the log of serverk says why";
    }
}

enum kv_status nats_refusal_report(struct kv_slice failure, const char **sentence)
{
    uint64_t code = 0;
    nats_json_number(failure, "err_code", &code);
    bool too_large = code == STORE_FAILED && describes(failure, "message too large");
    struct refusal *refusal = row_of(too_large ? MESSAGE_TOO_LARGE : code);
    char unsaid[LOG_PACE_TEXT_BYTES];
    struct kv_slice words = {0};
    nats_json_string(failure, "description", &words);
    if (log_pace_allows(&refusal->pace, unsaid))
        log_warn("nats: a write was refused: %.*s (JetStream error %" PRIu64 ")%s", (int)words.size,
                 (const char *)words.data, code, unsaid);
    *sentence = sentence_of(refusal->status);
    return refusal->status;
}
