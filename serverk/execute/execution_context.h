/*
 * execution_context: what a thread executes requests with: the store, buffers of its own, and what
 * the message being executed has used.
 *
 * Threads: used by one.
 */
#ifndef MQKV_SERVERK_EXECUTE_EXECUTION_CONTEXT_H
#define MQKV_SERVERK_EXECUTE_EXECUTION_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "mqkv/kvstore.h"
#include "serverk/config/live_settings.h"
#include "serverk/execute/commit.h"
#include "serverk/execute/statistics.h"

struct watchers;

/* Writes the named section of the statistics (all if it is empty) as JSON text, which is to be
 * freed. KV_NOT_FOUND: there is no such section; KV_NO_MEMORY. */
typedef enum kv_status (*stats_writer)(const void *context, struct kv_slice section, char **text,
                                       size_t *size);

/* Executes one operation and adds its result to the reply. */
struct execution;
typedef void (*operation_runner)(struct execution *execution);

/* An administrative command, and who gave it. */
struct admin_call {
    struct kv_slice command, argument; /* the argument may lie in memory that its sender changes */
    struct session *session;           /* held */
    char *text;  /* the answer, or the sentence about a failure; to be freed */
    size_t size; /* 0: there is none */
};

typedef enum kv_status (*admin_runner)(void *context, struct admin_call *call);

/* What writes have to pass before they are executed: how long one is to wait, in milliseconds;
 * WRITE_GATE_CLOSED: it is refused. */
struct write_gate {
    uint32_t (*hold_up)(void *context);
    void *context;
    const char *sentence; /* of a refusal */
};
#define WRITE_GATE_CLOSED UINT32_MAX

struct execution_context {
    struct kvstore *store; /* NULL: nothing is executed with it, but submitted (submission.h) */
    const struct live_settings *live;
    struct worker_statistics *statistics; /* the thread's own block */
    stats_writer write_stats;
    const void *stats_context;
    admin_runner run_admin;
    void *admin_context;

    const struct write_gate *gate; /* NULL: there is none */

    const operation_runner *runners; /* by opcode */
    const void *runner_context;      /* of runners that are not execution_runners; or NULL */

    struct fragment_budget *budget; /* NULL: a reply must fit a message, unless reply_reserved */
    bool reply_reserved;            /* fragments are reserved for the reply (reply_start) */
    bool one_snapshot;   /* all reads of a message see one moment: no reply is a short one */
    uint32_t message_ms; /* time for one message (allowance.h) */

    uint8_t *reply;      /* replies are built here; of buffer_bytes */
    uint8_t *incoming;   /* for values read out of segments that are not mapped; likewise */
    uint8_t *outgoing;   /* for values on their way into such segments; likewise */
    uint8_t *found;      /* for values that a transaction has read; likewise */
    size_t buffer_bytes; /* address space: memory is taken as far as it is used */

    struct watchers *watchers; /* where requests may wait for changes; NULL: nowhere */

    /* of the message being executed */
    uint8_t *waiting;  /* it is one that has waited: its positions, which are kept there; or NULL */
    bool waiting_ends; /* likewise: its time is over */
    bool waits_on;     /* there is no answer yet: it waits with the watchers (watch.h) */
    uint64_t received_ns;
    size_t incoming_used;
    uint64_t written_bytes; /* to data files */
    struct commit_waits waits;
};

/* Sets store, budget and message_ms, and makes buffers for the largest messages
 * of the budget. The rest is zero, and the caller's to set. False: out of memory. */
bool execution_context_init(struct execution_context *context, struct kvstore *store,
                            struct fragment_budget *budget);
void execution_context_free(struct execution_context *context);

/* Gives the memory of a buffer of the context back to the kernel, if the message used much of
 * it. */
static inline void execution_context_trim(const struct execution_context *context, uint8_t *buffer,
                                          size_t used_bytes)
{
    const size_t keep_bytes = 1u << 20;
    if (used_bytes > keep_bytes)
        madvise(buffer, context->buffer_bytes, MADV_DONTNEED);
}

#endif
