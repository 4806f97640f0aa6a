#include "clientk/program/cli/denied.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of this user and of the queue's owner and group; "": it has none. */
struct denied_names {
    char user[48], owner[48], group[48];
    bool by_group;
};

static bool find_denied_names(const char *queue, struct denied_names *names)
{
    char path[128];
    struct stat facts;
    *names = (struct denied_names){.by_group = false};
    snprintf(path, sizeof path, "/dev/mqueue%s", queue);
    if (stat(path, &facts) != 0)
        return false;
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    const struct passwd *user = getpwuid(geteuid());
    if (user)
        snprintf(names->user, sizeof names->user, "%s", user->pw_name);
    user = getpwuid(facts.st_uid);
    if (user)
        snprintf(names->owner, sizeof names->owner, "%s", user->pw_name);
    const struct group *group = getgrgid(facts.st_gid);
    if (group)
        snprintf(names->group, sizeof names->group, "%s", group->gr_name);
    /* NOLINTEND(concurrency-mt-unsafe) */
    names->by_group = (facts.st_mode & S_IWGRP) != 0;
    return true;
}

bool denied_command(const char *queue, char command[160])
{
    struct denied_names names;
    if (!find_denied_names(queue, &names) || !names.by_group || !*names.user || !*names.group)
        return false;
    snprintf(command, 160, "usermod -aG %s %s   # takes effect at the next login", names.group,
             names.user);
    return true;
}

void denied_explain(const char *queue, struct kv_error *error)
{
    struct denied_names names;
    if (!find_denied_names(queue, &names) || (!*names.owner && !*names.group))
        return;
    size_t used = strlen(error->text);
    used += (size_t)snprintf(error->text + used, sizeof error->text - used,
                             "; these are user %s and group %s", *names.owner ? names.owner : "-",
                             *names.group ? names.group : "-");
    if (names.by_group && *names.user && *names.group && used < sizeof error->text)
        snprintf(error->text + used, sizeof error->text - used,
                 ": usermod -aG %s %s lets %s in, at the next login", names.group, names.user,
                 names.user);
}
