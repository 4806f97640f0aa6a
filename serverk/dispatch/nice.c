#include "serverk/dispatch/nice.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "wire/message.h"

#define HIGHEST_NICE 19

/* Sets the nice value of the calling thread. */
static int set_nice(int value)
{
    return setpriority(PRIO_PROCESS, (id_t)gettid(), value);
}

static int get_nice(void)
{
    return getpriority(PRIO_PROCESS, (id_t)gettid());
}

/* Runs in a thread of its own, because there may be no way back. */
static void *try_up_and_down(void *argument)
{
    bool *permitted = argument;
    int start = get_nice();
    *permitted = start == HIGHEST_NICE || (set_nice(start + 1) == 0 && set_nice(start) == 0);
    return NULL;
}

enum kv_status nice_permitted(struct kv_error *error)
{
    pthread_t thread;
    bool permitted = false;
    int result = pthread_create(&thread, NULL, try_up_and_down, &permitted);
    if (result != 0)
        return kv_error_set_no_thread(error, result, "--nice: cannot start a thread");
    pthread_join(thread, NULL);
    if (permitted)
        return KV_OK;
    int start = get_nice();
    return kv_error_set(error, KV_DENIED,
                        "--nice: this user may raise a nice value but not lower it again: allow %d "
                        "(ulimit -e %d, LimitNICE=%d), or give CAP_SYS_NICE",
                        start, 20 - start, start);
}

void nice_init(struct nice *nice)
{
    int start = get_nice();
    *nice = (struct nice){.on = true, .lowest = start, .current = start};
}

int nice_of(const struct nice *nice, unsigned priority)
{
    if (priority > WIRE_MAX_PRIORITY)
        priority = WIRE_MAX_PRIORITY;
    int below = (int)(WIRE_MAX_PRIORITY - priority);
    int value = nice->lowest + below * (HIGHEST_NICE - nice->lowest) / (int)WIRE_MAX_PRIORITY;
    KV_ASSERT(value >= nice->lowest && value <= HIGHEST_NICE);
    return value;
}

void nice_follow(struct nice *nice, unsigned priority)
{
    int value = nice_of(nice, priority);
    if (value != nice->current && set_nice(value) == 0)
        nice->current = value;
}
