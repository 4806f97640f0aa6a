#include "serverk/sandbox/sandbox.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "common/report/error.h"
#include "sandbox/core_files.h"
#include "sandbox/landlock.h"
#include "sandbox/queue_mount.h"
#include "sandbox/syscall_filter.h"
#include "serverk/config/dispatch_model.h"

/* The sanitizers' own code makes calls and reads files that the daemon does not. */
#ifdef MQKV_SANITIZER
#define POSSIBLE false
#else
#define POSSIBLE true
#endif

/* Directories ---------------------------------------------------------------------------------- */

/* Allows access below the directory that the file is in. NULL: there is no such file. */
static enum kv_status allow_around(const struct landlock *landlock, const char *file,
                                   uint64_t access, struct kv_error *error)
{
    if (!file)
        return KV_OK;
    char *path = strdup(file);
    if (!path)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    enum kv_status status = landlock_allow(landlock, dirname(path), access, error);
    free(path);
    return status;
}

/* The pid file is open by now: only its name is removed at the end. Editors replace a configuration
 * file, logrotate renames a log file. */
static enum kv_status allow_files(const struct landlock *landlock,
                                  const struct server_options *options, struct kv_error *error)
{
    enum kv_status status = allow_around(landlock, options->pidfile, LANDLOCK_REMOVE, error);
    if (status == KV_OK)
        status = allow_around(landlock, options->config, LANDLOCK_READ, error);
    if (status == KV_OK)
        status = allow_around(landlock, options->log, LANDLOCK_WRITE | LANDLOCK_MAKE, error);
    if (status == KV_OK)
        status = allow_around(landlock, options->audit, LANDLOCK_WRITE | LANDLOCK_MAKE, error);
    if (status == KV_OK)
        status =
            allow_around(landlock, options->metrics,
                         LANDLOCK_WRITE | LANDLOCK_MAKE | LANDLOCK_REMOVE | LANDLOCK_CUT, error);
    return status;
}

/* What connecting to a cluster reads, each time: credentials, and where names are looked up. */
static enum kv_status allow_network_files(const struct landlock *landlock,
                                          const struct natskv_options *nats, struct kv_error *error)
{
    const char *seed = nats->nkey ? strchr(nats->nkey, ':') : NULL;
    const char *const files[] = {nats->credentials, seed ? seed + 1 : NULL, nats->password_file,
                                 nats->ca,          nats->certificate,      nats->key};
    static const char *const places[] = {"/etc",
                                         "/run/systemd/resolve",
                                         "/usr/lib/ssl",
                                         "/usr/share/zoneinfo",
                                         "/usr/share/ca-certificates",
                                         "/dev/urandom"};
    enum kv_status status = KV_OK;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && status == KV_OK; i++)
        status = allow_around(landlock, files[i], LANDLOCK_READ, error);
    for (size_t i = 0; i < sizeof places / sizeof places[0] && status == KV_OK; i++)
        status = landlock_allow(landlock, places[i], LANDLOCK_READ, error);
    return status;
}

static enum kv_status allow_daemon_paths(const struct landlock *landlock,
                                         const struct server_options *options, const char *queues,
                                         struct kv_error *error)
{
    const struct {
        const char *path;
        uint64_t access;
    } places[] = {
        /* the store's own object */
        {options->direct != KVSTORE_DIRECT_OFF ? "/dev/shm" : "", LANDLOCK_MAKE},
        {options->engine == ENGINE_KIND_NATS ? "" : options->dir,
         LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_LIST | LANDLOCK_MAKE | LANDLOCK_REMOVE |
             LANDLOCK_CUT},
        {queues, LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_LIST | LANDLOCK_REMOVE},
        {"/dev/mqueue", LANDLOCK_LIST}, /* where leftovers are looked for */
        /* segments of clients, and what dead ones left */
        {"/dev/shm", LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_LIST | LANDLOCK_REMOVE},
        {options->audit ? "/proc" : "", LANDLOCK_READ},     /* names of programs */
        {options->config ? "/etc" : "", LANDLOCK_READ},     /* its users and groups, read again */
        {"/dev/null", LANDLOCK_READ | LANDLOCK_WRITE},      /* --daemon */
        {"/proc/sys/fs/mqueue", LANDLOCK_READ},             /* limits, for sentences */
        {"/proc/sys/kernel/random/boot_id", LANDLOCK_READ}, /* for headers of data files */
        {"/proc/sys/kernel/overflowuid", LANDLOCK_READ},    /* and whom that stands for */
        {"/proc/self/uid_map", LANDLOCK_READ},
        {"/proc/self/fdinfo", LANDLOCK_READ},       /* which pids a client has */
        {"/sys/devices/system/cpu", LANDLOCK_READ}, /* how many there are */
        {options->core_dumps ? "." : "", LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_MAKE},
    };
    enum kv_status status = allow_files(landlock, options, error);
    if (status == KV_OK && options_use_nats(options))
        status = allow_network_files(landlock, &options->nats, error);
    for (size_t i = 0; i < sizeof places / sizeof places[0] && status == KV_OK; i++)
        status = landlock_allow(landlock, places[i].path, places[i].access, error);
    return status;
}

/* A directory that is not there is for the store to complain of: without it nothing is served. */
static enum kv_status confine_daemon_files(const struct server_options *options, int queue,
                                           struct sandbox *sandbox, struct kv_error *error)
{
    char queues[1024] = "";
    struct landlock landlock;
    bool files = queue_mount_find(queue, queues, sizeof queues);
    struct stat facts;
    bool network = options_use_nats(options);
    if (options->engine != ENGINE_KIND_NATS && stat(options->dir, &facts) != 0)
        return KV_OK;
    enum kv_status status = landlock_begin(&landlock, files, network, error);
    if (status == KV_OK)
        status = allow_daemon_paths(&landlock, options, queues, error);
    if (status != KV_OK) {
        landlock_abandon(&landlock);
        return status;
    }
    landlock_enter(&landlock);
    sandbox->landlock_abi = landlock.abi;
    sandbox->files_confined = landlock.abi > 0 && files;
    return KV_OK;
}

/* All of it ------------------------------------------------------------------------------------ */

enum kv_status sandbox_enter(const struct server_options *options, int queue,
                             struct sandbox *sandbox, struct kv_error *error)
{
    *sandbox = (struct sandbox){.wanted = options->sandbox, .core_files = options->core_dumps};
    if (options->core_dumps)
        core_files_allow();
    else
        core_files_forbid();
    if (!options->sandbox || !POSSIBLE)
        return KV_OK;
    sandbox->no_new_privileges = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    if (!sandbox->no_new_privileges)
        return KV_OK;
    enum kv_status status = confine_daemon_files(options, queue, sandbox, error);
    if (status != KV_OK)
        return status;
    const struct syscall_needs needs = {.forks = options->dispatch->forks,
                                        .nice = options->nice,
                                        .connects = options_use_nats(options)};
    return syscall_filter_enter(&needs, &sandbox->syscall_filter, error);
}

const char *sandbox_describe(const struct sandbox *sandbox, char text[SANDBOX_TEXT_BYTES])
{
    char landlock[64];
    snprintf(landlock, sizeof landlock, "%s (Landlock ABI %d)",
             sandbox->files_confined ? "files confined" : "new names of files confined",
             sandbox->landlock_abi);
    snprintf(text, SANDBOX_TEXT_BYTES, "%s, %s, %s",
             sandbox->syscall_filter ? "system calls filtered (seccomp)"
                                     : "system calls not filtered",
             sandbox->landlock_abi > 0 ? landlock : "files not confined",
             sandbox->core_files ? "core files" : "no core files");
    return text;
}
