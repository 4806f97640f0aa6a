#include "serverk/daemon/stats_source.h"

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
    struct session_reads reads;
    session_reads(service->sessions, &reads);
    sum->hits += reads.found;
    sum->misses += reads.absent;
    sum->direct_reads = reads.found + reads.absent;
    statistics_finish_sum(sum);
}
