#include "lab/service/serving.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/assert/assert.h"
#include "common/numbers/random.h"
#include "common/time/clock.h"
#include "common/time/pause.h"
#include "lab/service/service_time.h"
#include "serverk/execute/execution.h"
#include "serverk/execute/execution_internal.h"

#define NS_PER_SECOND   1000000000u
#define PAUSES_PER_LOOK 16u

/* What the thread's operation is still to spend; 0: nothing. */
static _Thread_local struct {
    uint64_t ns;
    const struct execution_context *context;
} owed;

static const struct service_time *service_time_of(const struct execution_context *context)
{
    return context->runner_context;
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static void burn_cpu(uint64_t ns)
{
    uint64_t until_ns = thread_cpu_ns() + ns;
    while (thread_cpu_ns() < until_ns)
        for (unsigned i = 0; i < PAUSES_PER_LOOK; i++)
            pause_cpu();
}

/* The kernel may otherwise wake the thread 50 us late. */
static void wake_on_time(void)
{
    static _Thread_local bool asked;
    if (!asked)
        prctl(PR_SET_TIMERSLACK, 1);
    asked = true;
}

static void sleep_until_ns(uint64_t monotonic_ns)
{
    struct timespec until = {(time_t)(monotonic_ns / NS_PER_SECOND),
                             (long)(monotonic_ns % NS_PER_SECOND)};
    wake_on_time();
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

void serving_before_unlock(void)
{
    if (owed.ns == 0)
        return;
    const struct execution_context *context = owed.context;
    uint64_t asked_ns = owed.ns;
    uint64_t begun_ns = clock_monotonic_ns();
    owed.ns = 0;
    if (service_time_of(context)->work)
        burn_cpu(asked_ns);
    else
        sleep_until_ns(begun_ns + asked_ns);
    struct worker_statistics *statistics = context->statistics;
    statistics_add(&statistics->lab[SERVING_OPERATIONS], 1);
    statistics_add(&statistics->lab[SERVING_ASKED_NS], asked_ns);
    statistics_add(&statistics->lab[SERVING_TAKEN_NS], clock_monotonic_ns() - begun_ns);
}

/* Drawn from the time, not from a state that is carried on: processes of --dispatch process begin
 * with the same one. */
static uint64_t draw_ns(const struct service_time *service_time)
{
    struct random_state random;
    random_seed(&random, clock_monotonic_ns() ^ (uint64_t)(uintptr_t)&owed << 16);
    return delay_draw_ns(&service_time->delay, &random);
}

/* An operation that takes no lock (a value of the cache, a read with --locking optimistic) spends
 * its time without one. */
static void run_served(struct execution *execution)
{
    const struct execution_context *context = execution->context;
    uint64_t ns = draw_ns(service_time_of(context));
    bool locked = service_time_of(context)->locked;
    KV_ASSERT(owed.ns == 0); /* the operation before has spent its time */
    owed.context = context;
    owed.ns = locked ? ns : 0;
    execution_runners[execution->operation->opcode](execution);
    if (!locked)
        owed.ns = ns;
    serving_before_unlock();
}

static operation_runner served_runners[STATISTICS_OPCODES];

/* Before main begins, so that no thread sees half a table. */
__attribute__((constructor)) static void fill_served_runners(void)
{
    static const unsigned served[] = {WIRE_OP_GET,      WIRE_OP_EXISTS, WIRE_OP_PUT,
                                      WIRE_OP_DELETE,   WIRE_OP_ADD,    WIRE_OP_APPEND,
                                      WIRE_OP_EXCHANGE, WIRE_OP_TOUCH,  WIRE_OP_SCAN,
                                      WIRE_OP_TRANSACT, WIRE_OP_RANGE};
    memcpy(served_runners, execution_runners, sizeof served_runners);
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++)
        served_runners[served[i]] = run_served;
}

void serving_begin(struct execution_context *context, const struct service_time *service_time)
{
    context->runner_context = service_time;
    context->runners = served_runners;
}
