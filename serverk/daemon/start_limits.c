#include "serverk/daemon/start_limits.h"
#include "common/report/error.h"
#include "serverk/config/dispatch_model.h"
#include "serverk/dispatch/nice.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

/* The stack that threads need: the deepest calls take a third of it. */
#define STACK_BYTES (256u << 10)

/* The descriptors of a client: its reply queue, its process, a segment. */
#define CLIENT_DESCRIPTORS 3u

/* The descriptors that the engine opens at once: a new log and a listing; or, at the end, one for
 * each checkpoint that is written in parallel. */
#define COMPACTION_DESCRIPTORS 2u
#define PARALLEL_CHECKPOINTS   8u

/* The descriptors of a dispatch model, beside one for each receiver. */
#define DISPATCH_DESCRIPTORS 3u

/* The most descriptors that are tried; with more receivers the start finds out itself. */
#define MAX_NEEDED 64u

static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* The limit is also the size of threads' stacks, which the C library has read by now. */
static enum kv_status raise_stack(struct kv_error *error)
{
    struct rlimit limit;
    pthread_attr_t attributes;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= STACK_BYTES)
        return KV_OK;
    if (limit.rlim_max < STACK_BYTES)
        return kv_error_set(
            error, KV_LIMIT,
            "stacks may have %llu bytes, serverk needs %u: raise ulimit -s to %u, or "
            "LimitSTACK in a systemd unit",
            (unsigned long long)limit.rlim_max, STACK_BYTES, STACK_BYTES >> 10);
    limit.rlim_cur = STACK_BYTES;
    setrlimit(RLIMIT_STACK, &limit);
    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        pthread_setattr_default_np(&attributes);
        pthread_attr_destroy(&attributes);
    }
    return KV_OK;
}

enum kv_status start_limits_raise(struct kv_error *error)
{
    raise_descriptors();
    return raise_stack(error);
}

/* Opens `wanted` descriptors and closes them again. Returns how many it could open. */
static unsigned try_descriptors(unsigned wanted)
{
    int probes[MAX_NEEDED];
    unsigned opened = 0;
    while (opened < wanted && (probes[opened] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        opened++;
    if (opened < wanted && errno != EMFILE)
        return wanted; /* it tells nothing: stderr is closed */
    for (unsigned i = 0; i < opened; i++)
        close(probes[i]);
    return opened;
}

enum kv_status start_limits_check_descriptors(uint32_t datafiles, unsigned receivers,
                                              struct kv_error *error)
{
    unsigned engine = datafiles < PARALLEL_CHECKPOINTS ? datafiles : PARALLEL_CHECKPOINTS;
    unsigned working = CLIENT_DESCRIPTORS + COMPACTION_DESCRIPTORS;
    unsigned needed = receivers + DISPATCH_DESCRIPTORS + (working > engine ? working : engine);
    unsigned left = try_descriptors(needed < MAX_NEEDED ? needed : MAX_NEEDED);
    if (left >= needed || left == MAX_NEEDED)
        return KV_OK;
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    unsigned long long allowed = limit.rlim_cur;
    return kv_error_set(
        error, KV_LIMIT,
        "only %u of the %llu descriptors of this process are left, too few to serve a client and "
        "to compact: it needs a limit of %llu at least; raise ulimit -n, or LimitNOFILE in a "
        "systemd unit",
        left, allowed, allowed + needed - left);
}

enum kv_status start_limits_check_nice(const struct server_options *options, struct kv_error *error)
{
    return options->nice && !options->dispatch->ends_threads ? nice_permitted(error) : KV_OK;
}
