#include "sandbox/landlock.h"
#include "common/report/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* uapi/linux/landlock.h, up to ABI 6: older headers end before. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif
#define GET_VERSION       1u
#define RULE_PATH_BENEATH 1
#define FILE_RIGHTS       (LANDLOCK_WRITE | LANDLOCK_READ | LANDLOCK_CUT)
#define NETWORK_RIGHTS    3u /* bind, connect (TCP) */
#define BIND_RIGHT        1u
#define SCOPES            3u /* abstract sockets, signals */

struct ruleset_attributes {
    uint64_t handled_files;
    uint64_t handled_network;
    uint64_t scoped;
};

struct path_rule {
    uint64_t allowed;
    int32_t directory;
} __attribute__((packed));

static long create_ruleset(const struct ruleset_attributes *attributes, size_t size, unsigned flags)
{
    return syscall(SYS_landlock_create_ruleset, attributes, size, flags);
}

/* Everything that the ABI knows of files: 13 rights, then REFER, TRUNCATE, IOCTL_DEV. */
static uint64_t rights_of(int abi)
{
    unsigned count = abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13;
    return (1u << count) - 1;
}

enum kv_status landlock_begin(struct landlock *landlock, bool files, bool network,
                              struct kv_error *error)
{
    *landlock = (struct landlock){.ruleset = -1};
    long abi = create_ruleset(NULL, 0, GET_VERSION);
    if (abi < 1)
        return KV_OK;
    struct ruleset_attributes attributes = {
        .handled_files =
            rights_of((int)abi) & ~(files ? 0 : (uint64_t)(LANDLOCK_WRITE | LANDLOCK_READ)),
        .handled_network = abi >= 4 ? (network ? BIND_RIGHT : NETWORK_RIGHTS) : 0,
        .scoped = abi >= 6 ? SCOPES : 0};
    size_t size = sizeof(uint64_t) * (abi >= 6 ? 3 : abi >= 4 ? 2 : 1);
    long ruleset = create_ruleset(&attributes, size, 0);
    if (ruleset < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return kv_error_set_errno(error,
                                  "cannot confine this process to its directory (--sandbox)");
    if (ruleset < 0)
        return KV_OK;
    *landlock = (struct landlock){
        .abi = (int)abi, .handled = attributes.handled_files, .ruleset = (int)ruleset};
    return KV_OK;
}

enum kv_status landlock_allow(const struct landlock *landlock, const char *path, uint64_t access,
                              struct kv_error *error)
{
    if (landlock->abi == 0 || (access & landlock->handled) == 0)
        return KV_OK;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOMEM)
        return KV_OK;
    struct path_rule rule = {.allowed = access & landlock->handled, .directory = fd};
    long result =
        fd < 0 ? -1
               : syscall(SYS_landlock_add_rule, landlock->ruleset, RULE_PATH_BENEATH, &rule, 0);
    bool passed_over = fd >= 0 && errno == EINVAL; /* a file, which has no rights of directories */
    enum kv_status status =
        result == 0 || passed_over
            ? KV_OK
            : kv_error_set_errno(error, "cannot confine this process to %s (--sandbox)", path);
    if (fd >= 0)
        close(fd);
    return status;
}

void landlock_abandon(struct landlock *landlock)
{
    if (landlock->ruleset >= 0)
        close(landlock->ruleset);
    *landlock = (struct landlock){.ruleset = -1};
}

void landlock_enter(struct landlock *landlock)
{
    if (landlock->abi == 0)
        return;
    if (syscall(SYS_landlock_restrict_self, landlock->ruleset, 0) != 0) {
        landlock_abandon(landlock);
        return;
    }
    close(landlock->ruleset);
    landlock->ruleset = -1;
}
