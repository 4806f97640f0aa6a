#include "lab/dispatch/models.h"

#include <stddef.h>

#include "lab/dispatch/request_processes.h"
#include "lab/dispatch/request_threads.h"

/* A thread costs the kernel some 20 KiB and a stack; a process a copy of the page tables as
 * well. */
#define DEFAULT_THREADS   64u
#define DEFAULT_PROCESSES 16u

static const struct dispatch_model event = {
    .name = "event", .default_workers = 1, .one_receives = true};

static const struct dispatch_model thread = {.name = "thread",
                                             .default_workers = DEFAULT_THREADS,
                                             .one_receives = true,
                                             .serves_beside = true,
                                             .ends_threads = true,
                                             .make_feed = request_threads_create};

static const struct dispatch_model process = {.name = "process",
                                              .default_workers = DEFAULT_PROCESSES,
                                              .one_receives = true,
                                              .helpers = 1,
                                              .serves_beside = true,
                                              .forks = true,
                                              .make_feed = request_processes_create};

const struct dispatch_model *dispatch_models_get(int number)
{
    static const struct dispatch_model *const models[] = {&dispatch_pool, &event, &thread,
                                                          &process};
    return (size_t)number < sizeof models / sizeof models[0] ? models[number] : NULL;
}
