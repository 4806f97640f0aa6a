#include "wire/limits.h"
#include "common/report/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ipc/mqueue.c, mqueue_get_inode: a struct msg_msg (48 bytes) and a struct posix_msg_tree_node (48)
 * for each message beside its bytes. */
#define KERNEL_BYTES_PER_MESSAGE 96u

/* include/linux/ipc_namespace.h: DFLT_MSGMAX, DFLT_MSGSIZEMAX, DFLT_QUEUESMAX; MQ_BYTES_MAX. */
#define DEFAULT_MSG_MAX        10u
#define DEFAULT_MSGSIZE_MAX    8192u
#define DEFAULT_QUEUES_MAX     256u
#define DEFAULT_MSGQUEUE_BYTES 819200u

/* The advice for RLIMIT_MSGQUEUE includes room for the lanes of a daemon, or for some sessions, and
 * is rounded up to whole steps. */
#define SPARE_MSGQUEUE_BYTES (256u << 10)
#define RAISE_STEP_BYTES     (1u << 20)

uint64_t wire_geometry_charge(struct wire_geometry geometry)
{
    return geometry.depth * ((uint64_t)geometry.message_bytes + KERNEL_BYTES_PER_MESSAGE);
}

static uint64_t read_limit(const char *path, uint64_t otherwise)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return otherwise;
    unsigned long long value;
    int fields = fscanf(file, "%llu", &value);
    fclose(file);
    return fields == 1 ? value : otherwise;
}

void wire_limits_read(struct wire_limits *limits)
{
    limits->msg_max = read_limit("/proc/sys/fs/mqueue/msg_max", DEFAULT_MSG_MAX);
    limits->msgsize_max = read_limit("/proc/sys/fs/mqueue/msgsize_max", DEFAULT_MSGSIZE_MAX);
    limits->queues_max = read_limit("/proc/sys/fs/mqueue/queues_max", DEFAULT_QUEUES_MAX);
    struct rlimit limit;
    limits->msgqueue_bytes =
        getrlimit(RLIMIT_MSGQUEUE, &limit) == 0 ? limit.rlim_cur : DEFAULT_MSGQUEUE_BYTES;
}

/* Returns true if the process has no descriptor left. mq_open fails with EMFILE for two limits: the
 * descriptors of the process, and the user's bytes in queues. */
static bool out_of_descriptors(void)
{
    int probe = open("/", O_PATH | O_CLOEXEC);
    if (probe < 0)
        return errno == EMFILE;
    close(probe);
    return false;
}

static enum kv_status explain_descriptors(const char *name, struct kv_error *error)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    return kv_error_set(error, KV_LIMIT,
                        "cannot create the message queue %s: this process has all of the %llu "
                        "descriptors open that it may have (RLIMIT_NOFILE). Raise it: `ulimit -n "
                        "%llu` in the shell, or LimitNOFILE=%llu in a systemd unit",
                        name, (unsigned long long)limit.rlim_cur,
                        (unsigned long long)limit.rlim_cur * 2,
                        (unsigned long long)limit.rlim_cur * 2);
}

/* Nobody can read what the user's other queues take (unlinked ones are not listed anywhere), but it
 * is at most the limit of the processes that made them, which is the kernel's default in most cases
 * where this process has less. The sum adds what was asked for, and something to spare: a limit
 * that is reached again at once is no help. */
uint64_t wire_limits_enough(uint64_t need_bytes)
{
    struct wire_limits limits;
    wire_limits_read(&limits);
    uint64_t have = limits.msgqueue_bytes;
    if (have > UINT64_MAX / 2)
        return have;
    uint64_t others = have > DEFAULT_MSGQUEUE_BYTES ? have : DEFAULT_MSGQUEUE_BYTES;
    uint64_t enough = others + need_bytes + SPARE_MSGQUEUE_BYTES;
    return (enough / RAISE_STEP_BYTES + 1) * RAISE_STEP_BYTES;
}

const char *wire_limits_how_to_raise(uint64_t enough, char how[WIRE_LIMITS_HOW_BYTES])
{
    struct rlimit limit = {0};
    unsigned long long bytes = enough;
    bool allowed = getrlimit(RLIMIT_MSGQUEUE, &limit) != 0 || enough <= limit.rlim_max;
    if (allowed)
        snprintf(
            how, WIRE_LIMITS_HOW_BYTES,
            "`ulimit -q %llu` in the shell that starts this program, or LimitMSGQUEUE=%llu in a "
            "systemd unit",
            bytes, bytes);
    else
        snprintf(how, WIRE_LIMITS_HOW_BYTES,
                 "above the hard limit, %llu, only root may: LimitMSGQUEUE=%llu in a systemd unit, "
                 "`USER - msgqueue %llu` in /etc/security/limits.conf and a new login, or for this "
                 "shell `prlimit --pid $$ --msgqueue=%llu`",
                 (unsigned long long)limit.rlim_max, bytes, bytes, bytes);
    return how;
}

static enum kv_status explain_bytes(const char *name, struct wire_geometry geometry,
                                    struct kv_error *error)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_MSGQUEUE, &limit);
    unsigned long long need = wire_geometry_charge(geometry);
    char how[WIRE_LIMITS_HOW_BYTES];
    return kv_error_set(
        error, KV_LIMIT,
        "cannot create the message queue %s: its %u messages of %u bytes take %llu bytes of the "
        "%llu that uid %u may have in message queues (RLIMIT_MSGQUEUE), and less than that is "
        "left. Raise it: %s; or remove queues that nobody uses (clientk doctor)",
        name, geometry.depth, geometry.message_bytes, need, (unsigned long long)limit.rlim_cur,
        (unsigned)getuid(), wire_limits_how_to_raise(wire_limits_enough(need), how));
}

static enum kv_status explain_geometry(const char *name, struct wire_geometry geometry,
                                       struct kv_error *error)
{
    struct wire_limits limits;
    wire_limits_read(&limits);
    if (geometry.depth > limits.msg_max)
        return kv_error_set(error, KV_LIMIT,
                            "cannot create the message queue %s: %u messages deep, the kernel "
                            "allows %llu. Raise it, as root: `sysctl fs.mqueue.msg_max=%u`",
                            name, geometry.depth, (unsigned long long)limits.msg_max,
                            geometry.depth);
    if (geometry.message_bytes > limits.msgsize_max)
        return kv_error_set(error, KV_LIMIT,
                            "cannot create the message queue %s: messages of %u bytes, the kernel "
                            "allows %llu. Raise it, as root: `sysctl fs.mqueue.msgsize_max=%u`",
                            name, geometry.message_bytes, (unsigned long long)limits.msgsize_max,
                            geometry.message_bytes);
    return kv_error_set(error, KV_IO,
                        "cannot create the message queue %s of %u messages of %u bytes: the kernel "
                        "rejected the name or the size (EINVAL)",
                        name, geometry.depth, geometry.message_bytes);
}

enum kv_status wire_limits_explain(const char *name, struct wire_geometry geometry,
                                   int error_number, struct kv_error *error)
{
    struct wire_limits limits;
    switch (error_number) {
    case EMFILE:
        return out_of_descriptors() ? explain_descriptors(name, error)
                                    : explain_bytes(name, geometry, error);
    case ENOSPC:
        wire_limits_read(&limits);
        return kv_error_set(error, KV_LIMIT,
                            "cannot create the message queue %s: there are as many queues as the "
                            "kernel allows, %llu (fs.mqueue.queues_max). Raise it, as root: "
                            "`sysctl fs.mqueue.queues_max=%llu`; or remove queues that nobody uses "
                            "(clientk doctor)",
                            name, (unsigned long long)limits.queues_max,
                            (unsigned long long)limits.queues_max * 2);
    case EINVAL:
    case EOVERFLOW:
        return explain_geometry(name, geometry, error);
    case EEXIST:
        return kv_error_set(error, KV_EXISTS,
                            "cannot create the message queue %s: there is one of that name already "
                            "(ls -l /dev/mqueue%s)",
                            name, name);
    case EACCES:
        return kv_error_set(error, KV_DENIED,
                            "cannot create the message queue %s: the kernel does not allow it to "
                            "uid %u (a security module or the permissions of /dev/mqueue)",
                            name, (unsigned)getuid());
    case ENOSYS:
        return kv_error_set(error, KV_IO,
                            "cannot create the message queue %s: this kernel has no POSIX message "
                            "queues (CONFIG_POSIX_MQUEUE)",
                            name);
    default:
        errno = error_number;
        return kv_error_set_errno(error, "cannot create the message queue %s", name);
    }
}
