#include "serverk/daemon/index_watch.h"

#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/report/log.h"
#include "common/time/clock.h"

/* How often it is looked whether the engine has made it. */
#define LOOK_MS 200u

/* An object that loses a name has other attributes: its number of links. */
static bool watch_object(const struct index_watch *watch, const struct kvstore_direct_facts *facts)
{
    char path[sizeof "/dev/shm" + sizeof facts->name];
    snprintf(path, sizeof path, "/dev/shm%s", facts->name);
    return inotify_add_watch(watch->events, path, IN_ATTRIB | IN_MOVE_SELF) >= 0;
}

struct index_watch index_watch_open(const struct store_engine *engine)
{
    struct index_watch watch = INDEX_WATCH_NONE;
    struct kvstore_direct_facts facts = {0};
    engine->calls->direct_facts(engine, &facts);
    if (facts.direct == KVSTORE_DIRECT_OFF)
        return watch;
    watch.events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    watch.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (watch.events >= 0 && watch.timer >= 0 && watch_object(&watch, &facts))
        return watch;
    index_watch_close(&watch);
    log_info("that /dev/shm%s is there is not watched: no inotify", facts.name);
    return watch;
}

void index_watch_close(struct index_watch *watch)
{
    if (watch->events >= 0)
        close(watch->events);
    if (watch->timer >= 0)
        close(watch->timer);
    *watch = INDEX_WATCH_NONE;
}

static void drain(const struct index_watch *watch)
{
    char events[sizeof(struct inotify_event) + NAME_MAX + 1];
    uint64_t ticks;
    while (read(watch->events, events, sizeof events) > 0)
        ;
    while (read(watch->timer, &ticks, sizeof ticks) > 0)
        ;
}

static void note_index_owner(struct index_watch *watch, bool is_gone)
{
    const uint64_t look_ns = is_gone ? LOOK_MS * UINT64_C(1000000) : 0;
    struct itimerspec times = {.it_value = {.tv_nsec = (long)look_ns},
                               .it_interval = {.tv_nsec = (long)look_ns}};
    watch->is_gone = is_gone;
    timerfd_settime(watch->timer, 0, &times, NULL);
}

void index_watch_tick(struct index_watch *watch, const struct store_engine *engine)
{
    struct kvstore_direct_facts facts = {0};
    drain(watch);
    engine->calls->direct_facts(engine, &facts);
    /* One that was made anew is there when its watch is: else that sees nothing. */
    if (!facts.is_gone && watch->is_gone && watch_object(watch, &facts)) {
        engine->calls->direct_facts(engine, &facts);
        if (!facts.is_gone)
            note_index_owner(watch, false);
    }
    if (!facts.is_gone)
        return;
    if (!watch->is_gone)
        log_error("/dev/shm%s, the index of the store, was removed from there: it is made anew; "
                  "until then reads go by message, which takes longer, and after a kill the data "
                  "files are read; find what removes it (a cleaner of /dev/shm, RemoveIPC= of "
                  "logind)",
                  facts.name);
    if (!watch->is_gone)
        note_index_owner(watch, true);
    /* The engine is asked at a bounded pace: each time it copies all of the index. */
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (watch->asked_ms != 0 && now_ms - watch->asked_ms < INDEX_WATCH_PAUSE_MS)
        return;
    watch->asked_ms = now_ms;
    kvstore_renew_index(engine->store);
}
