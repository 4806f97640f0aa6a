#include "bridges/kresp/bridge/relay.h"

#include "common/report/error.h"
#include "common/time/clock.h"

/* Returns when the runner has the baton; false: it is over. */
static bool await_baton(struct relay_runner *runner)
{
    struct relay *relay = runner->relay;
    pthread_mutex_lock(&relay->lock);
    while (relay->holder && relay->holder != runner)
        pthread_cond_wait(&runner->passed, &relay->lock);
    bool has_baton = relay->holder == runner;
    pthread_mutex_unlock(&relay->lock);
    return has_baton;
}

/* The runner has the baton from now on; NULL: nobody, and all threads end. */
static void pass_baton(struct relay *relay, struct relay_runner *next)
{
    pthread_mutex_lock(&relay->lock);
    relay->holder = next;
    if (next)
        pthread_cond_signal(&next->passed);
    for (unsigned i = 0; i < relay->count && !next; i++)
        pthread_cond_signal(&relay->runners[i].passed);
    pthread_mutex_unlock(&relay->lock);
}

static void *run_runner(void *argument)
{
    struct relay_runner *runner = argument;
    struct relay *relay = runner->relay;
    while (await_baton(runner)) {
        struct relay_runner *next = relay->loop(relay->context);
        runner->next_idle = relay->idle;
        relay->idle = runner;
        pass_baton(relay, next);
    }
    return NULL;
}

/* Starts one more thread; returns an error number. */
static int add_runner(struct relay *relay)
{
    struct relay_runner *runner = &relay->runners[relay->count];
    runner->relay = relay;
    runner->number = relay->count;
    pthread_cond_init(&runner->passed, NULL);
    if (relay->count++ == 0)
        relay->holder = runner;
    int error_number = pthread_create(&runner->handle, NULL, run_runner, runner);
    if (error_number != 0) {
        pthread_cond_destroy(&runner->passed);
        relay->count--;
    }
    return error_number;
}

enum kv_status relay_start(struct relay *relay, struct kv_error *error)
{
    pthread_mutex_init(&relay->lock, NULL);
    int error_number = add_runner(relay);
    if (error_number == 0) {
        pthread_setname_np(relay->runners[0].handle, relay->name); /* those after it inherit it */
        return KV_OK;
    }
    pthread_mutex_destroy(&relay->lock);
    return kv_error_set_no_thread(error, error_number, "cannot start a thread");
}

struct relay_runner *relay_spare(struct relay *relay)
{
    if (!relay->idle && relay->count < RELAY_RUNNERS && add_runner(relay) == 0) {
        relay->idle = &relay->runners[relay->count - 1];
        relay->idle->next_idle = NULL;
    }
    return relay->idle;
}

void relay_pause(struct relay *relay)
{
    struct relay_runner *runner = relay->holder, *next = relay->idle;
    relay->idle = next->next_idle;
    pass_baton(relay, next);
    await_baton(runner);
}

bool relay_join(struct relay *relay, uint64_t timeout_ms)
{
    const struct timespec until = clock_time_after_ms(CLOCK_REALTIME, timeout_ms);
    if (pthread_timedjoin_np(relay->runners[0].handle, NULL, &until) != 0)
        return false;
    for (unsigned i = 1; i < relay->count; i++)
        pthread_join(relay->runners[i].handle, NULL);
    for (unsigned i = 0; i < relay->count; i++)
        pthread_cond_destroy(&relay->runners[i].passed);
    pthread_mutex_destroy(&relay->lock);
    return true;
}
