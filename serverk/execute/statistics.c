#include "serverk/execute/statistics.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "wire/operation.h"

struct worker_statistics *statistics_create(unsigned count)
{
    size_t bytes = count * sizeof(struct worker_statistics);
    struct worker_statistics *blocks = aligned_alloc(_Alignof(struct worker_statistics), bytes);
    if (blocks)
        memset(blocks, 0, bytes);
    return blocks;
}

struct worker_statistics *statistics_create_shared(unsigned count)
{
    void *blocks = mmap(NULL, count * sizeof(struct worker_statistics), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return blocks == MAP_FAILED ? NULL : blocks;
}

void statistics_free_shared(struct worker_statistics *blocks, unsigned count)
{
    if (blocks)
        munmap(blocks, count * sizeof *blocks);
}

/* Adds n counters of a block that may be written meanwhile. */
static void sum_counters(uint64_t *sum, const uint64_t *counters, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sum[i] += __atomic_load_n(&counters[i], __ATOMIC_RELAXED);
}

void statistics_sum(struct worker_statistics *sum, const struct worker_statistics *blocks,
                    unsigned count)
{
    for (const struct worker_statistics *block = blocks; block < blocks + count; block++) {
        sum_counters(&sum->messages, &block->messages, 1);
        sum_counters(sum->operations, block->operations, STATISTICS_OPCODES);
        sum_counters(&sum->hits, &block->hits, 1);
        sum_counters(&sum->misses, &block->misses, 1);
        sum_counters(sum->statuses, block->statuses, KV_STATUS_COUNT);
        sum_counters(&sum->bytes_in, &block->bytes_in, 1);
        sum_counters(&sum->bytes_out, &block->bytes_out, 1);
        sum_counters(sum->dropped, block->dropped, DROPPED_REASONS);
        sum_counters(&sum->sleeps, &block->sleeps, 1);
        sum_counters(sum->lab, block->lab, STATISTICS_LAB_COUNTERS);
        for (unsigned stage = 0; stage < STAGES; stage++)
            histogram_merge(&sum->stages[stage], &block->stages[stage]);
        for (unsigned kind = 0; kind < STATISTICS_OPCODES; kind++)
            histogram_merge(&sum->work[kind], &block->work[kind]);
    }
}

void statistics_finish_sum(struct worker_statistics *sum)
{
    for (unsigned kind = 0; kind < STATISTICS_OPCODES; kind++)
        histogram_merge(&sum->stages[STAGE_WORK], &sum->work[kind]);
}

static const char *const opcode_names[STATISTICS_OPCODES] = {
    [WIRE_OP_GET] = "get",
    [WIRE_OP_EXISTS] = "exists",
    [WIRE_OP_PUT] = "put",
    [WIRE_OP_DELETE] = "delete",
    [WIRE_OP_ADD] = "add",
    [WIRE_OP_APPEND] = "append",
    [WIRE_OP_EXCHANGE] = "exchange",
    [WIRE_OP_TOUCH] = "touch",
    [WIRE_OP_SCAN] = "scan",
    [WIRE_OP_STATS] = "stats",
    [WIRE_OP_PING] = "ping",
    [WIRE_OP_SYNC] = "sync",
    [WIRE_OP_BACKUP] = "backup",
    [WIRE_OP_ADMIN] = "admin",
    [WIRE_OP_WATCH] = "watch",
    [WIRE_OP_TRANSACT] = "transact",
    [WIRE_OP_RANGE] = "range",
    [WIRE_OP_RANGE_COUNT] = "range_count",
    [WIRE_OP_RANGE_DELETE] = "range_delete",
};

const char *statistics_operation_name(unsigned opcode)
{
    return opcode == 0 ? "batch" : opcode_names[opcode];
}

const char *dropped_reason_name(enum dropped_reason reason)
{
    static const char *const names[] = {[DROPPED_MALFORMED] = "malformed",
                                        [DROPPED_UNKNOWN_SESSION] = "unknown_session",
                                        [DROPPED_BAD_HELLO] = "bad_hello"};
    return names[reason];
}

const char *latency_stage_name(enum latency_stage stage)
{
    static const char *const names[] = {[STAGE_QUEUE_WAIT] = "queue_wait",
                                        [STAGE_LOCK_WAIT] = "lock_wait",
                                        [STAGE_WORK] = "work",
                                        [STAGE_COMMIT] = "commit",
                                        [STAGE_REPLY] = "reply"};
    return names[stage];
}
