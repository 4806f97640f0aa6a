#include "clientk/session/server_access.h"
#include "clientk/base/own_groups.h"
#include "common/report/error.h"
#include "wire/own_user.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPABILITY_DAC_OVERRIDE 1u /* CAP_DAC_OVERRIDE of linux/capability.h */

/* What matters here of /proc/PID/status. */
struct server_facts {
    bool opens_everything;
    bool in_group;
};

/* Whether the numbers of the line have the group among them. */
static bool names_group(const char *numbers, gid_t group)
{
    char *end;
    for (unsigned long number; number = strtoul(numbers, &end, 10), end != numbers; numbers = end)
        if (number == group)
            return true;
    return false;
}

/* False: they cannot be read. */
static bool read_facts(pid_t server, gid_t group, struct server_facts *facts)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)server);
    FILE *status = fopen(path, "re");
    if (!status)
        return false;
    *facts = (struct server_facts){0};
    while (fgets(line, sizeof line, status)) {
        if (strncmp(line, "CapEff:", 7) == 0)
            facts->opens_everything = strtoull(line + 7, NULL, 16) >> CAPABILITY_DAC_OVERRIDE & 1;
        else if (strncmp(line, "Gid:", 4) == 0)
            facts->in_group |= names_group(line + 4, group);
        else if (strncmp(line, "Groups:", 7) == 0)
            facts->in_group |= names_group(line + 7, group);
    }
    fclose(status);
    return true;
}

struct server_access server_access_needed(mqd_t lane, pid_t server)
{
    struct stat queue;
    struct server_facts facts;
    if (fstat((int)lane, &queue) != 0)
        return (struct server_access){.mode = 0622};
    if (wire_uid_is_own(queue.st_uid))
        return (struct server_access){.mode = 0600};
    bool known = server > 0 && read_facts(server, queue.st_gid, &facts);
    if (queue.st_uid == 0 && (!known || facts.opens_everything))
        return (struct server_access){.mode = 0600};
    if (known && facts.in_group && own_groups_have(queue.st_gid))
        return (struct server_access){.mode = 0620, .group = queue.st_gid};
    return (struct server_access){.mode = 0622};
}

enum kv_status server_access_grant(mqd_t queue, struct server_access access, struct kv_error *error)
{
    if (access.mode == 0600)
        return KV_OK;
    bool group_given = access.mode == 0620 && fchown((int)queue, (uid_t)-1, access.group) == 0;
    if (fchmod((int)queue, group_given ? 0620 : 0622) == 0)
        return KV_OK;
    return kv_error_set_errno(error, "cannot let the server send to the reply queue");
}
