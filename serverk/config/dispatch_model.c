#include "serverk/config/dispatch_model.h"

#include <unistd.h>

#define MAX_DEFAULT_WORKERS 256u

const struct dispatch_model dispatch_pool = {.name = "pool", .helpers = 1};

uint32_t dispatch_model_default_workers(const struct dispatch_model *model)
{
    if (model->default_workers > 0)
        return model->default_workers;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus < 1 ? 1 : cpus > MAX_DEFAULT_WORKERS ? MAX_DEFAULT_WORKERS : (uint32_t)cpus;
}

unsigned dispatch_model_receivers(const struct dispatch_model *model, uint32_t workers)
{
    return model->one_receives ? 1 : workers;
}

unsigned dispatch_model_writers(const struct dispatch_model *model, uint32_t workers)
{
    return dispatch_model_receivers(model, workers) + model->helpers +
           (model->serves_beside ? workers : 0);
}
