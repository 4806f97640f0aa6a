#include "serverk/daemon/index_watch.h"

#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/report/log.h"

int index_watch_open(const struct store_engine *engine)
{
    struct kvstore_direct_facts facts = {0};
    char path[sizeof "/dev/shm" + sizeof facts.name];
    engine->calls->direct_facts(engine, &facts);
    if (facts.direct == KVSTORE_DIRECT_OFF)
        return -1;
    snprintf(path, sizeof path, "/dev/shm%s", facts.name);
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    /* An object that loses a name has other attributes: its number of links. */
    if (fd >= 0 && inotify_add_watch(fd, path, IN_ATTRIB | IN_MOVE_SELF) < 0) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        log_info("that %s is there is not watched: no inotify", path);
    return fd;
}

void index_watch_tick(int fd, const struct store_engine *engine)
{
    char events[sizeof(struct inotify_event) + NAME_MAX + 1];
    struct kvstore_direct_facts facts = {0};
    while (read(fd, events, sizeof events) > 0)
        ;
    engine->calls->direct_facts(engine, &facts);
    if (!facts.is_gone)
        return;
    log_error("/dev/shm%s, the index of the store, was removed from there: programs that come from "
              "now on read by message, which takes longer, and after a kill the data files are "
              "read; restart the daemon to make it anew, and find what removes it (a cleaner of "
              "/dev/shm, RemoveIPC= of logind)",
              facts.name);
}
