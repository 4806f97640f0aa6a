#include "serverk/daemon/name_watch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"
#include "common/time/clock.h"

/* How often it is looked whether what is made anew is there. */
#define LOOK_MS 200u

/* An object that loses a name has other attributes: its number of links. */
static bool watch_path(const struct name_watch *watch, const char *path)
{
    return inotify_add_watch(watch->events, path, IN_ATTRIB | IN_MOVE_SELF) >= 0;
}

/* Watches the index; true also if there is none. */
static bool watch_index(const struct name_watch *watch, const struct store_engine *engine)
{
    struct kvstore_direct_facts facts = {0};
    engine->calls->direct_facts(engine, &facts);
    char path[sizeof "/dev/shm" + sizeof facts.name];
    snprintf(path, sizeof path, "/dev/shm%s", facts.name);
    return facts.direct == KVSTORE_DIRECT_OFF || watch_path(watch, path);
}

/* A descriptor is a path to a queue that needs no mount of theirs. */
static bool watch_lanes(const struct name_watch *watch, const struct lanes *lanes)
{
    mqd_t queues[LANES_NAMED_MAX];
    unsigned count = lanes_named(lanes, queues);
    bool watched = true;
    for (unsigned i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", (int)queues[i]);
        watched &= watch_path(watch, path);
    }
    return watched;
}

/* Where the directory itself goes nothing comes of it; but its files went before. */
static void watch_data(const struct name_watch *watch)
{
    inotify_add_watch(watch->events, watch->dir, IN_DELETE | IN_MOVED_TO | IN_MOVE_SELF);
}

struct name_watch name_watch_open(const struct store_engine *engine, const struct lanes *lanes,
                                  const char *dir)
{
    struct name_watch watch = NAME_WATCH_NONE;
    watch.dir = dir;
    watch.events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    watch.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    bool watched = watch.events >= 0 && watch.timer >= 0 && watch_lanes(&watch, lanes);
    if (!watched || !watch_index(&watch, engine))
        log_info("that the %s there is not watched: no inotify",
                 watched ? "index is" : "queues are");
    if (!watched)
        name_watch_close(&watch);
    else if (engine->store)
        watch_data(&watch);
    return watch;
}

void name_watch_close(struct name_watch *watch)
{
    if (watch->events >= 0)
        close(watch->events);
    if (watch->timer >= 0)
        close(watch->timer);
    *watch = NAME_WATCH_NONE;
}

/* Returns whether the timer has run for a while. */
static bool drain(const struct name_watch *watch)
{
    char events[sizeof(struct inotify_event) + NAME_MAX + 1];
    uint64_t ticks;
    while (read(watch->events, events, sizeof events) > 0)
        ;
    return read(watch->timer, &ticks, sizeof ticks) > 0;
}

/* The timer runs while a name is gone, from the moment when that was seen. */
static void run_look_timer(struct name_watch *watch)
{
    bool runs = watch->index_is_gone || watch->lanes_are_gone;
    const uint64_t look_ns = runs ? LOOK_MS * UINT64_C(1000000) : 0;
    struct itimerspec times = {.it_value = {.tv_nsec = (long)look_ns},
                               .it_interval = {.tv_nsec = (long)look_ns}};
    if (runs != watch->timer_runs)
        timerfd_settime(watch->timer, 0, &times, NULL);
    watch->timer_runs = runs;
}

/* Returns whether it may be made anew now: that copies all of the index, or may be in vain. */
static bool may_renew(uint64_t *asked_ms, uint64_t pause_ms)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (*asked_ms != 0 && now_ms - *asked_ms < pause_ms)
        return false;
    *asked_ms = now_ms;
    return true;
}

static void look_at_index(struct name_watch *watch, const struct store_engine *engine)
{
    struct kvstore_direct_facts facts = {0};
    engine->calls->direct_facts(engine, &facts);
    /* One that was made anew is there when its watch is: else that sees nothing. */
    if (!facts.is_gone && watch->index_is_gone && watch_index(watch, engine)) {
        engine->calls->direct_facts(engine, &facts);
        watch->index_is_gone = facts.is_gone;
    }
    if (!facts.is_gone)
        return;
    if (!watch->index_is_gone)
        log_error("/dev/shm%s, the index of the store, was removed from there: it is made anew; "
                  "until then reads go by message, which takes longer, and after a kill the data "
                  "files are read; find what removes it (a cleaner of /dev/shm, RemoveIPC= of "
                  "logind)",
                  facts.name);
    watch->index_is_gone = true;
    if (may_renew(&watch->index_asked_ms, NAME_WATCH_INDEX_PAUSE_MS))
        kvstore_renew_index(engine->store);
}

/* Whoever removes them is given the time from a tick to the next one to come to all. */
static void look_at_lanes(struct name_watch *watch, struct lanes *lanes, bool ticked)
{
    if (lanes_are_linked(lanes))
        return;
    if (!watch->lanes_are_gone)
        log_error("message queues of the daemon were removed: they are made anew; until then "
                  "nobody else finds it; find what removes them (rm in /dev/mqueue, RemoveIPC= of "
                  "logind, which a daemon of a system user is spared)");
    watch->lanes_are_gone = true;
    if (!ticked || !may_renew(&watch->lanes_asked_ms, NAME_WATCH_LANES_PAUSE_MS))
        return;
    struct kv_error error = {0};
    if (lanes_renew(lanes, &error) != KV_OK) {
        static struct log_pace pace = LOG_PACE(60000);
        char unsaid[LOG_PACE_TEXT_BYTES];
        if (log_pace_allows(&pace, unsaid))
            log_error("the message queues cannot be made anew, which is tried again: %s%s",
                      error.text, unsaid);
        return;
    }
    /* One that was removed again before its watch was there is seen by this. */
    watch->lanes_are_gone = !watch_lanes(watch, lanes) || !lanes_are_linked(lanes);
    if (!watch->lanes_are_gone)
        log_info("the message queues are there again");
}

/* What compactions and checkpoints remove and replace is seen, too, and is no loss. */
static void look_at_data(struct name_watch *watch, struct kvstore *store)
{
    struct kvstore_file_statistics file;
    uint32_t gone = 0;
    bool displaced = !kvstore_is_in_place(store);
    for (uint32_t number = 0; number < kvstore_datafiles(store); number++) {
        kvstore_file_statistics(store, number, &file);
        gone += file.nameless;
    }
    if (gone > 0 && !watch->data_are_gone)
        log_error("%s: somebody removed or replaced %u of the %u data files: what they have, and "
                  "what is written from now on, is lost when the daemon stops; until then "
                  "`clientk backup DIRECTORY` saves it",
                  watch->dir, gone, kvstore_datafiles(store));
    else if (displaced && !watch->data_are_gone)
        log_error("%s: somebody moved the data directory: the next start finds no store there; "
                  "move it back",
                  watch->dir);
    watch->data_are_gone = gone > 0 || displaced;
}

void name_watch_tick(struct name_watch *watch, const struct store_engine *engine,
                     struct lanes *lanes)
{
    bool ticked = drain(watch);
    look_at_index(watch, engine);
    look_at_lanes(watch, lanes, ticked);
    if (engine->store)
        look_at_data(watch, engine->store);
    run_look_timer(watch);
}
