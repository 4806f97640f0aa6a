#include "serverk/config/dispatch_model.h"

#include <unistd.h>

/* A thread costs the kernel some 20 KiB and a stack; a process a copy of the page tables as
 * well. */
#define DEFAULT_THREADS   64u
#define DEFAULT_PROCESSES 16u

#define MAX_DEFAULT_WORKERS 256u

static const struct {
    const char *name;
    uint32_t default_workers; /* 0: the number of CPUs */
    unsigned receivers;       /* 0: all workers */
    unsigned helpers;         /* that write statistics, beside receivers and requests */
    bool counts;
} models[DISPATCH_MODELS] = {
    [DISPATCH_POOL] = {"pool", 0, 0, 1, false},
    [DISPATCH_EVENT] = {"event", 1, 1, 0, false},
    [DISPATCH_THREAD] = {"thread", DEFAULT_THREADS, 1, 0, true},
    [DISPATCH_PROCESS] = {"process", DEFAULT_PROCESSES, 1, 1, true},
};

const char *dispatch_model_name(enum dispatch_model model)
{
    return models[model].name;
}

uint32_t dispatch_model_default_workers(enum dispatch_model model)
{
    if (models[model].default_workers > 0)
        return models[model].default_workers;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus < 1 ? 1 : cpus > MAX_DEFAULT_WORKERS ? MAX_DEFAULT_WORKERS : (uint32_t)cpus;
}

unsigned dispatch_model_receivers(enum dispatch_model model, uint32_t workers)
{
    return models[model].receivers > 0 ? models[model].receivers : workers;
}

unsigned dispatch_model_writers(enum dispatch_model model, uint32_t workers)
{
    return dispatch_model_receivers(model, workers) + models[model].helpers +
           (models[model].counts ? workers : 0);
}

bool dispatch_model_counts(enum dispatch_model model)
{
    return models[model].counts;
}
