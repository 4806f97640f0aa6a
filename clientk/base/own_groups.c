#include "clientk/base/own_groups.h"

#include <unistd.h>

#define MOST_GROUPS 256

bool own_groups_have(gid_t group)
{
    gid_t groups[MOST_GROUPS];
    int count = getgroups(MOST_GROUPS, groups);
    for (int i = 0; i < count; i++)
        if (groups[i] == group)
            return true;
    return getegid() == group;
}
