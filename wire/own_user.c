#include "wire/own_user.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define DEFAULT_OVERFLOW_UID 65534u

/* All uids but the one that is none. */
#define MAPPED_ALL UINT32_MAX

/* As the kernel is set; one setting for all namespaces, so that it is read once. */
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

/* Lines of the first uid here, the first outside, and how many there are (user_namespaces(7)). */
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
