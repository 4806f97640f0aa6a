#include "wire/own_user.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define DEFAULT_OVERFLOW_UID 65534u

/* How many uids a namespace maps that maps all: each but (uid_t)-1, which is no uid. */
#define MAPPED_ALL UINT32_MAX

/* More supplementary groups than users have. */
#define GROUPS_MAX 256

/* The overflow uid of the kernel. All namespaces share the setting, so it is read once. */
static uid_t overflow_uid(void)
{
    static _Atomic int64_t known = -1;
    int64_t uid = atomic_load_explicit(&known, memory_order_relaxed);
    if (uid >= 0)
        return (uid_t)uid;
    unsigned number = DEFAULT_OVERFLOW_UID;
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    if (file && fscanf(file, "%u", &number) != 1)
        number = DEFAULT_OVERFLOW_UID;
    if (file)
        fclose(file);
    atomic_store_explicit(&known, number, memory_order_relaxed);
    return number;
}

/* Each line of uid_map has the first uid inside, the first uid outside, and the number of uids
 * (user_namespaces(7)). */
static bool maps_everybody(void)
{
    uint64_t mapped = 0, count;
    FILE *file = fopen("/proc/self/uid_map", "re");
    while (file && fscanf(file, "%*u %*u %" SCNu64, &count) == 1)
        mapped += count;
    if (file)
        fclose(file);
    return mapped >= MAPPED_ALL;
}

bool wire_uid_is_shared(uid_t uid)
{
    return uid == overflow_uid() && !maps_everybody();
}

bool wire_uid_is_own(uid_t uid)
{
    return uid == geteuid() && !wire_uid_is_shared(uid);
}

bool wire_gid_is_own(gid_t gid)
{
    gid_t groups[GROUPS_MAX];
    int count = getgroups(GROUPS_MAX, groups);
    for (int i = 0; i < count; i++)
        if (groups[i] == gid)
            return true;
    return getegid() == gid;
}
