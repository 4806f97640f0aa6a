#include "bridges/kresp/bridge/bridge_sandbox.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "sandbox/core_files.h"
#include "sandbox/landlock.h"
#include "sandbox/queue_mount.h"
#include "sandbox/syscall_filter.h"

#define ALL_OF_FILES                                                                    \
    (LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_LIST | LANDLOCK_MAKE | LANDLOCK_REMOVE | \
     LANDLOCK_CUT)

static enum kv_status allow_places(const struct landlock *landlock, const char *socket_path,
                                   const char *queues, struct kv_error *error)
{
    char *path = strdup(socket_path);
    if (!path)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    const struct {
        const char *path;
        uint64_t access;
    } places[] = {
        {"/", LANDLOCK_READ | LANDLOCK_LIST},
        {"/dev/shm", ALL_OF_FILES},
        {queues, ALL_OF_FILES},
        {dirname(path), LANDLOCK_REMOVE},
    };
    enum kv_status status = KV_OK;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && status == KV_OK; i++)
        status = landlock_allow(landlock, places[i].path, places[i].access, error);
    free(path);
    return status;
}

static enum kv_status confine_files(const char *socket_path, int *abi, struct kv_error *error)
{
    char queues[1024] = "";
    struct landlock landlock;
    bool files = queue_mount_find(queue_mount_any_queue(), queues, sizeof queues);
    enum kv_status status = landlock_begin(&landlock, files, false, error);
    if (status == KV_OK)
        status = allow_places(&landlock, socket_path, queues, error);
    if (status != KV_OK) {
        landlock_abandon(&landlock);
        return status;
    }
    landlock_enter(&landlock);
    *abi = landlock.abi;
    return KV_OK;
}

enum kv_status bridge_sandbox_enter(const char *socket_path, struct kv_error *error)
{
    const struct syscall_needs needs = {.serves = true};
    int landlock_abi = 0;
    bool filtered = false;
    core_files_forbid();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return KV_OK;
    enum kv_status status = confine_files(socket_path, &landlock_abi, error);
    if (status == KV_OK)
        status = syscall_filter_enter(&needs, &filtered, error);
    log_debug("sandbox: system calls %sfiltered (seccomp), files %sconfined (Landlock ABI %d), no "
              "core files",
              filtered ? "" : "not ", landlock_abi > 0 ? "" : "not ", landlock_abi);
    return status;
}
