#include "serverk/daemon/stats_source.h"

const char *stats_operation_name(unsigned opcode)
{
    return statistics_operation_name(opcode);
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
    watchers_statistics(service->watchers, sum);
    statistics_finish_sum(sum);
}
