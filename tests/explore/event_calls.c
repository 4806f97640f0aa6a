/* Events, timers, and the signals that a descriptor tells of. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "tests/explore/explore.h"
#include "tests/explore/kernel_objects.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* False: nothing has come, and the reader does not wait. */
static bool wait_to_read(const struct description *description, const void *place)
{
    while (!kernel_is_readable(description->object)) {
        if (description->nonblock) {
            errno = EAGAIN;
            return false;
        }
        schedule_wait(kernel_is_readable, description->object, UINT64_MAX, place);
    }
    return true;
}

static ssize_t give_value(uint64_t value, void *buffer)
{
    memcpy(buffer, &value, sizeof value);
    schedule_note_wake();
    return (ssize_t)sizeof value;
}

static bool has_value_bytes(size_t bytes)
{
    errno = EINVAL;
    return bytes >= sizeof(uint64_t);
}

/* Events --------------------------------------------------------------------------------------- */

static uint32_t event_ready(const struct object *event)
{
    return (event->counter > 0 ? EPOLLIN : 0u) | EPOLLOUT;
}

static ssize_t read_event(struct description *description, void *buffer, size_t bytes,
                          const void *place)
{
    struct object *event = description->object;
    if (!has_value_bytes(bytes) || !wait_to_read(description, place))
        return -1;
    uint64_t value = event->is_semaphore ? 1 : event->counter;
    event->counter -= value;
    return give_value(value, buffer);
}

static ssize_t write_event(struct description *description, const void *data, size_t bytes,
                           const void *place)
{
    uint64_t value;
    if (!has_value_bytes(bytes))
        return -1;
    memcpy(&value, data, sizeof value);
    description->object->counter += value;
    kernel_note_edge(description->object, EPOLLIN);
    kernel_enter(place);
    return (ssize_t)sizeof value;
}

static void describe_event(const struct object *event, char *text, size_t size)
{
    if (event->counter > 0)
        snprintf(text, size, "; event %lu is set", (unsigned long)event->inode);
}

static const struct object_kind event_kind = {
    .ready = event_ready, .read = read_event, .write = write_event, .describe = describe_event};

int explored_eventfd(unsigned counter, int flags)
{
    if (!schedule_is_running())
        return eventfd(counter, flags);
    struct object *event = kernel_new_object(&event_kind);
    event->counter = counter;
    event->is_semaphore = (flags & EFD_SEMAPHORE) != 0;
    return kernel_open_object(event, (flags & EFD_NONBLOCK) != 0, true, true);
}

int explored_eventfd_write(int descriptor, eventfd_t value)
{
    return kernel_write(descriptor, &value, sizeof value, HERE) == (ssize_t)sizeof value ? 0 : -1;
}

int explored_eventfd_read(int descriptor, eventfd_t *value)
{
    return kernel_read(descriptor, value, sizeof *value, HERE) == (ssize_t)sizeof *value ? 0 : -1;
}

/* Timers --------------------------------------------------------------------------------------- */

static uint32_t timer_ready(const struct object *timer)
{
    return timer->due_ns != 0 && timer->due_ns <= schedule_clock_ns() ? EPOLLIN : 0;
}

static ssize_t read_timer(struct description *description, void *buffer, size_t bytes,
                          const void *place)
{
    struct object *timer = description->object;
    uint64_t value = 1;
    if (!has_value_bytes(bytes) || !wait_to_read(description, place))
        return -1;
    value += timer->every_ns ? (schedule_clock_ns() - timer->due_ns) / timer->every_ns : 0;
    timer->due_ns = timer->every_ns ? timer->due_ns + value * timer->every_ns : 0;
    return give_value(value, buffer);
}

static const struct object_kind timer_kind = {.ready = timer_ready, .read = read_timer};

int explored_timerfd_create(int clock, int flags)
{
    if (!schedule_is_running())
        return timerfd_create(clock, flags);
    return kernel_open_object(kernel_new_object(&timer_kind), (flags & TFD_NONBLOCK) != 0, true,
                              false);
}

int explored_timerfd_settime(int descriptor, int flags, const struct itimerspec *time,
                             struct itimerspec *before)
{
    (void)before;
    kernel_enter(HERE);
    struct description *description = kernel_description_as(descriptor, &timer_kind);
    if (!description)
        return -1;
    uint64_t first_ns = kernel_ns_of(&time->it_value);
    uint64_t base_ns = flags & TFD_TIMER_ABSTIME ? 0 : schedule_clock_ns();
    description->object->due_ns = first_ns == 0 ? 0 : base_ns + first_ns;
    description->object->every_ns = kernel_ns_of(&time->it_interval);
    schedule_note_wake();
    return 0;
}

bool explore_timer_runs(int timer)
{
    const struct description *description = kernel_description_as(timer, &timer_kind);
    return description && description->object->due_ns != 0;
}

uint64_t kernel_next_timer_ns(void)
{
    uint64_t next_ns = UINT64_MAX;
    const struct object *timer;
    for (unsigned i = 0; (timer = kernel_object(&timer_kind, i)); i++)
        if (timer->due_ns > schedule_clock_ns() && timer->due_ns < next_ns)
            next_ns = timer->due_ns;
    return next_ns;
}

/* Signals -------------------------------------------------------------------------------------- */

static ssize_t read_signal(struct description *description, void *buffer, size_t bytes,
                           const void *place)
{
    struct signalfd_siginfo information = {.ssi_signo = SIGTERM};
    if (bytes < sizeof information) {
        errno = EINVAL;
        return -1;
    }
    if (!wait_to_read(description, place))
        return -1;
    description->object->counter = 0;
    memcpy(buffer, &information, sizeof information);
    return (ssize_t)sizeof information;
}

static const struct object_kind signals_kind = {.ready = event_ready, .read = read_signal};

int explored_signalfd(int descriptor, const sigset_t *signals, int flags)
{
    if (!schedule_is_running())
        return signalfd(descriptor, signals, flags);
    return kernel_open_object(kernel_new_object(&signals_kind), (flags & SFD_NONBLOCK) != 0, true,
                              false);
}

void explore_ask_to_end(void)
{
    struct object *signals;
    for (unsigned i = 0; (signals = kernel_object(&signals_kind, i)); i++) {
        signals->counter = 1;
        kernel_note_edge(signals, EPOLLIN);
    }
}
