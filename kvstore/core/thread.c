#include "kvstore/core/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* With the caller, as many threads as a small machine has CPUs; on a smaller machine they mostly
 * wait for the disk anyway. */
#define PARALLEL_HELPERS 7

struct beginning {
    const char *name;
    void *(*run)(void *);
    void *argument;
};

/* A thread names itself: the name of another is written to a file below /proc, which a daemon in a
 * sandbox may not open. */
static void *thread_main(void *argument)
{
    struct beginning beginning = *(struct beginning *)argument;
    free(argument);
    pthread_setname_np(pthread_self(), beginning.name);
    return beginning.run(beginning.argument);
}

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
    struct beginning *beginning = malloc(sizeof *beginning);
    if (!beginning)
        return ENOMEM;
    *beginning = (struct beginning){name, run, argument};
    sigset_t all, previous;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* mapguard */
    sigdelset(&all, SIGSYS); /* a handler of the program's may tell which call was forbidden */
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    int result = pthread_create(thread, NULL, thread_main, beginning);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    if (result != 0)
        free(beginning);
    return result;
}

int thread_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int result = pthread_condattr_init(&attributes);
    if (result != 0)
        return result;
    result = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (result == 0)
        result = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return result;
}

int thread_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_timedwait(condition, mutex, &deadline);
}

struct parallel {
    atomic_uint_fast32_t next;
    uint32_t count;
    enum kv_status (*work)(void *context, uint32_t i, struct kv_error *error);
    void *context;
    pthread_mutex_t mutex; /* covers what follows */
    enum kv_status status;
    uint32_t failed_i;
    struct kv_error *error;
};

static void parallel_note_failure(struct parallel *parallel, uint32_t i, enum kv_status status,
                                  const struct kv_error *error)
{
    pthread_mutex_lock(&parallel->mutex);
    if (parallel->status == KV_OK || i < parallel->failed_i) {
        parallel->status = status;
        parallel->failed_i = i;
        if (parallel->error)
            *parallel->error = *error;
    }
    pthread_mutex_unlock(&parallel->mutex);
}

static void *work_in_parallel(void *argument)
{
    struct parallel *parallel = argument;
    for (;;) {
        uint64_t i = atomic_fetch_add(&parallel->next, 1);
        if (i >= parallel->count)
            return NULL;
        struct kv_error error = {0};
        enum kv_status status = parallel->work(parallel->context, (uint32_t)i, &error);
        if (status != KV_OK)
            parallel_note_failure(parallel, (uint32_t)i, status, &error);
    }
}

enum kv_status thread_run_parallel(uint32_t count,
                                   enum kv_status (*work)(void *context, uint32_t i,
                                                          struct kv_error *error),
                                   void *context, struct kv_error *error)
{
    struct parallel parallel = {.count = count, .work = work, .context = context, .error = error};
    pthread_t helpers[PARALLEL_HELPERS];
    uint32_t started = 0;
    pthread_mutex_init(&parallel.mutex, NULL);
    /* Fewer threads than wished for only take longer. */
    while (started + 1 < count && started < PARALLEL_HELPERS &&
           thread_start(&helpers[started], "kv-parallel", work_in_parallel, &parallel) == 0)
        started++;
    work_in_parallel(&parallel);
    while (started > 0)
        pthread_join(helpers[--started], NULL);
    pthread_mutex_destroy(&parallel.mutex);
    return parallel.status;
}
