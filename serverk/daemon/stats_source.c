#include "serverk/daemon/stats_source.h"

#include "wire/operation.h"

static const char *const opcode_names[STATISTICS_OPCODES] = {
    [WIRE_OP_GET] = "get",           [WIRE_OP_EXISTS] = "exists", [WIRE_OP_PUT] = "put",
    [WIRE_OP_DELETE] = "delete",     [WIRE_OP_ADD] = "add",       [WIRE_OP_APPEND] = "append",
    [WIRE_OP_EXCHANGE] = "exchange", [WIRE_OP_TOUCH] = "touch",   [WIRE_OP_SCAN] = "scan",
    [WIRE_OP_STATS] = "stats",       [WIRE_OP_PING] = "ping",     [WIRE_OP_SYNC] = "sync",
    [WIRE_OP_BACKUP] = "backup",     [WIRE_OP_ADMIN] = "admin",
};

const char *stats_operation_name(unsigned opcode)
{
    return opcode == 0 ? "batch" : opcode_names[opcode];
}

void stats_source_sum(const struct stats_source *source, struct worker_statistics *sum)
{
    const struct service *service = source->service;
    const struct server_options *options = service->options;
    statistics_sum(sum, service->statistics,
                   dispatch_model_writers(options->dispatch, options->workers));
    if (service->commit)
        commit_statistics(service->commit, sum);
    submissions_statistics(service->submissions, sum);
    statistics_finish_sum(sum);
}
