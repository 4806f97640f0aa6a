/* Waiting for descriptors: epoll and poll. A watch with EPOLLET is told of what comes, once: not of
 * what is there. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "tests/explore/kernel_objects.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define WATCHES_MAX 64u

struct interest {
    int descriptor;
    struct description *description; /* NULL: none */
    uint32_t events;                 /* 0: it is to be armed again (EPOLLONESHOT) */
    bool has_edge;                   /* EPOLLET: something came that was not told yet */
    epoll_data_t data;
};

static uint32_t look_at(const struct interest *interest)
{
    if (!interest->description || interest->events == 0 ||
        ((interest->events & EPOLLET) && !interest->has_edge))
        return 0;
    return kernel_ready_events(interest->description->object) &
           (interest->events | EPOLLHUP | EPOLLERR);
}

static uint32_t epoll_ready(const struct object *epoll)
{
    for (unsigned i = 0; i < WATCHES_MAX; i++)
        if (look_at(&epoll->watches[i]) != 0)
            return EPOLLIN;
    return 0;
}

static void free_watches(struct object *epoll)
{
    free(epoll->watches);
    epoll->watches = NULL;
}

static const struct object_kind epoll_kind = {.ready = epoll_ready, .free = free_watches};

void kernel_forget_watches(const struct description *description)
{
    const struct object *epoll;
    for (unsigned i = 0; (epoll = kernel_object(&epoll_kind, i)); i++)
        for (unsigned j = 0; j < WATCHES_MAX; j++)
            if (epoll->watches[j].description == description)
                epoll->watches[j].description = NULL;
}

void kernel_note_edge(const struct object *object, uint32_t events)
{
    const struct object *epoll;
    for (unsigned i = 0; (epoll = kernel_object(&epoll_kind, i)); i++)
        for (unsigned j = 0; j < WATCHES_MAX; j++) {
            struct interest *interest = &epoll->watches[j];
            if (interest->description && interest->description->object == object &&
                (events & (interest->events | EPOLLHUP | EPOLLERR)))
                interest->has_edge = true;
        }
    schedule_note_wake();
}

int explored_epoll_create1(int flags)
{
    if (!schedule_is_running())
        return epoll_create1(flags);
    struct object *epoll = kernel_new_object(&epoll_kind);
    epoll->watches = calloc(WATCHES_MAX, sizeof *epoll->watches);
    if (!epoll->watches)
        schedule_fail("no memory for an epoll set");
    return kernel_open_object(epoll, false, true, false);
}

static struct interest *find_watch(const struct object *epoll, int descriptor,
                                   const struct description *description)
{
    for (unsigned i = 0; i < WATCHES_MAX; i++)
        if (epoll->watches[i].description == description &&
            (!description || epoll->watches[i].descriptor == descriptor))
            return &epoll->watches[i];
    return NULL;
}

int explored_epoll_ctl(int set, int operation, int descriptor, struct epoll_event *event)
{
    if (!kernel_is_ours(set))
        return epoll_ctl(set, operation, descriptor, event);
    kernel_enter(HERE);
    struct description *of_set = kernel_description_as(set, &epoll_kind);
    struct description *description = kernel_description(descriptor);
    if (!of_set || !description) {
        errno = EBADF;
        return -1;
    }
    struct object *epoll = of_set->object;
    struct interest *interest = find_watch(epoll, descriptor, description);
    if (!interest != (operation == EPOLL_CTL_ADD)) {
        errno = interest ? EEXIST : ENOENT;
        return -1;
    }
    if (operation == EPOLL_CTL_DEL) {
        interest->description = NULL;
        return 0;
    }
    if (!interest)
        interest = find_watch(epoll, 0, NULL);
    if (!interest)
        schedule_fail("an epoll set has at most %u descriptors", WATCHES_MAX);
    *interest = (struct interest){descriptor, description, event->events, true, event->data};
    schedule_note_wake();
    kernel_enter(HERE);
    return 0;
}

static int take_events(const struct object *epoll, struct epoll_event *events, int most)
{
    int count = 0;
    unsigned first = (unsigned)(schedule_random() % WATCHES_MAX);
    for (unsigned i = 0; i < WATCHES_MAX && count < most; i++) {
        struct interest *interest = &epoll->watches[(first + i) % WATCHES_MAX];
        uint32_t ready = look_at(interest);
        interest->has_edge = false;
        if (ready == 0)
            continue;
        events[count++] = (struct epoll_event){.events = ready, .data = interest->data};
        if (interest->events & EPOLLONESHOT)
            interest->events = 0;
    }
    return count;
}

static uint64_t until_of(const struct timespec *timeout)
{
    return timeout ? schedule_clock_ns() + kernel_ns_of(timeout) : UINT64_MAX;
}

static uint64_t until_of_ms(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX
                          : schedule_clock_ns() + (uint64_t)timeout_ms * UINT64_C(1000000);
}

static int wait_for_watches(int set, struct epoll_event *events, int most, uint64_t until_ns,
                            const void *place)
{
    kernel_enter(place);
    struct description *description = kernel_description_as(set, &epoll_kind);
    if (!description)
        return -1;
    for (;;) {
        int count = take_events(description->object, events, most);
        if (count > 0 || until_ns <= schedule_clock_ns())
            return count;
        if (!schedule_wait(kernel_is_readable, description->object, until_ns, place))
            return 0;
    }
}

int explored_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms)
{
    if (!kernel_is_ours(set))
        return epoll_wait(set, events, most, timeout_ms);
    return wait_for_watches(set, events, most, until_of_ms(timeout_ms), HERE);
}

int explored_epoll_pwait2(int set, struct epoll_event *events, int most,
                          const struct timespec *timeout, const sigset_t *signals)
{
    if (!kernel_is_ours(set))
        return epoll_pwait2(set, events, most, timeout, signals);
    return wait_for_watches(set, events, most, until_of(timeout), HERE);
}

struct polled {
    struct pollfd *events;
    nfds_t count;
};

static int look(const struct polled *polled)
{
    int ready = 0;
    for (nfds_t i = 0; i < polled->count; i++) {
        struct pollfd *event = &polled->events[i];
        const struct description *description = kernel_description(event->fd);
        event->revents = 0;
        if (event->fd < 0)
            continue;
        if (!kernel_is_ours(event->fd))
            poll(event, 1, 0);
        else if (!description)
            event->revents = POLLNVAL;
        else
            event->revents = (short)(kernel_ready_events(description->object) &
                                     ((uint32_t)event->events | POLLHUP | POLLERR));
        ready += event->revents != 0;
    }
    return ready;
}

static bool is_any_ready(const void *polled)
{
    return look(polled) > 0;
}

static int poll_until(struct pollfd *events, nfds_t count, uint64_t until_ns, const void *place)
{
    struct polled polled = {events, count};
    kernel_enter(place);
    if (look(&polled) == 0 && until_ns > schedule_clock_ns())
        schedule_wait(is_any_ready, &polled, until_ns, place);
    return look(&polled);
}

int explored_poll(struct pollfd *events, nfds_t count, int timeout_ms)
{
    return schedule_is_running() ? poll_until(events, count, until_of_ms(timeout_ms), HERE)
                                 : poll(events, count, timeout_ms);
}

int explored_ppoll(struct pollfd *events, nfds_t count, const struct timespec *timeout,
                   const sigset_t *signals)
{
    return schedule_is_running() ? poll_until(events, count, until_of(timeout), HERE)
                                 : ppoll(events, count, timeout, signals);
}
