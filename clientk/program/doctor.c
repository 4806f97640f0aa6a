#include "clientk/program/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/parse.h"
#include "wire/queue.h"

#define FULLEST_SHM_BYTES             (16u << 20) /* less room than this is worth a word */
#define SMALLEST_USEFUL_MESSAGE_BYTES 512u

struct diagnosis {
    struct context *context;
    FILE *stream;
    struct wire_limits limits;
    int code;    /* the exit code so far */
    bool silent; /* there is a server, but an answer did not come in time */
};

static void __attribute__((format(printf, 3, 4)))
finding(const struct diagnosis *diagnosis, const char *mark, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(diagnosis->stream, "  %-5s ", mark);
    vfprintf(diagnosis->stream, format, arguments);
    fputc('\n', diagnosis->stream);
    va_end(arguments);
}

static void heading(const struct diagnosis *diagnosis, const char *text)
{
    fprintf(diagnosis->stream, "%s\n", text);
}

static void spoil(struct diagnosis *diagnosis, int code)
{
    if (code > diagnosis->code)
        diagnosis->code = code;
}

static const char *user_name(uid_t uid, char buffer[64])
{
    const struct passwd *entry = getpwuid(uid);
    snprintf(buffer, 64, "uid %u%s%.40s%s", (unsigned)uid, entry ? " (" : "",
             entry ? entry->pw_name : "", entry ? ")" : "");
    return buffer;
}

/* How many queues there are, and how many of them are this user's; false if nobody can tell because
 * the file system is not mounted. */
static bool count_queues(unsigned *all, unsigned *own)
{
    DIR *directory = opendir("/dev/mqueue");
    struct dirent *entry;
    *all = *own = 0;
    if (!directory)
        return false;
    while ((entry = readdir(directory))) {
        struct stat status;
        if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        (*all)++;
        *own += status.st_uid == getuid();
    }
    closedir(directory);
    return true;
}

static void report_reply_queues(struct diagnosis *diagnosis)
{
    for (const struct wire_geometry *step = wire_reply_ladder; step->depth > 0; step++) {
        uint64_t charge = wire_geometry_charge(*step);
        if (step->depth > diagnosis->limits.msg_max ||
            step->message_bytes > diagnosis->limits.msgsize_max)
            finding(diagnosis, "-", "sessions of %u x %" PRIu32 " bytes: above the limits",
                    step->depth, step->message_bytes);
        else
            finding(diagnosis, charge <= diagnosis->limits.msgqueue_bytes ? "ok" : "low",
                    "sessions of %u x %" PRIu32 " bytes cost %" PRIu64
                    ": the budget pays for %" PRIu64 " of them",
                    step->depth, step->message_bytes, charge,
                    diagnosis->limits.msgqueue_bytes / charge);
    }
}

static void check_budget(struct diagnosis *diagnosis)
{
    const struct wire_limits *limits = &diagnosis->limits;
    struct rlimit budget = {0, 0};
    char soft[32], hard[32] = "?";
    if (getrlimit(RLIMIT_MSGQUEUE, &budget) == 0)
        snprintf(hard, sizeof hard, "%" PRIu64, (uint64_t)budget.rlim_max);
    if (budget.rlim_max == RLIM_INFINITY)
        snprintf(hard, sizeof hard, "unlimited");
    snprintf(soft, sizeof soft, "%" PRIu64, limits->msgqueue_bytes);
    if (limits->msgqueue_bytes == RLIM_INFINITY)
        snprintf(soft, sizeof soft, "unlimited");
    finding(diagnosis, "ok", "bytes of queues this user may own (ulimit -q): %s, at most %s", soft,
            hard);
}

static void check_limits(struct diagnosis *diagnosis)
{
    const struct wire_limits *limits = &diagnosis->limits;
    unsigned all, own;
    heading(diagnosis, "Kernel limits");
    finding(diagnosis, limits->msg_max >= 10 ? "ok" : "low",
            "messages a queue (fs.mqueue.msg_max): %" PRIu64, limits->msg_max);
    finding(diagnosis, limits->msgsize_max >= SMALLEST_USEFUL_MESSAGE_BYTES ? "ok" : "BAD",
            "bytes a message (fs.mqueue.msgsize_max): %" PRIu64, limits->msgsize_max);
    if (limits->msgsize_max < SMALLEST_USEFUL_MESSAGE_BYTES)
        spoil(diagnosis, EXIT_REFUSED);
    if (!count_queues(&all, &own)) {
        finding(diagnosis, "ok",
                "queues (fs.mqueue.queues_max): %" PRIu64
                " (how many there are only /dev/mqueue tells, which is not mounted)",
                limits->queues_max);
    } else {
        bool full = all >= limits->queues_max;
        finding(diagnosis, full ? "BAD" : "ok",
                "queues (fs.mqueue.queues_max): %" PRIu64 ", %u there, %u of them yours",
                limits->queues_max, all, own);
        if (full)
            spoil(diagnosis, EXIT_REFUSED);
    }
    check_budget(diagnosis);
    report_reply_queues(diagnosis);
}

static void print_limit_advice(const struct diagnosis *diagnosis)
{
    heading(diagnosis, "To change limits");
    finding(diagnosis, "", "more queues:          sysctl fs.mqueue.queues_max=1024");
    finding(diagnosis, "", "deeper queues:        sysctl fs.mqueue.msg_max=64");
    finding(diagnosis, "",
            "                      (to keep: a line each in /etc/sysctl.d/mqkv.conf)");
    finding(diagnosis, "", "more bytes, a shell:  ulimit -q 8388608");
    finding(diagnosis, "",
            "more bytes, a user:   NAME - msgqueue 8388608  in /etc/security/limits.conf");
    finding(diagnosis, "", "more bytes, a unit:   LimitMSGQUEUE=8388608  under [Service]");
}

/* The IPC namespace of a process ("ipc:[4026531839]"); false if it may not be read. */
static bool ipc_namespace(pid_t pid, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/ipc", (int)pid);
    ssize_t length = readlink(path, out, size - 1);
    if (length < 0)
        return false;
    out[length] = '\0';
    return true;
}

static void report_no_server(struct diagnosis *diagnosis, const char *name)
{
    char namespace_name[64] = "unknown";
    ipc_namespace(getpid(), namespace_name, sizeof namespace_name);
    finding(diagnosis, "NONE", "there is no queue %s in this IPC namespace, %s", name,
            namespace_name);
    finding(diagnosis, "", "start a server:       serverk -m %s -f DIRECTORY", name);
    finding(
        diagnosis, "",
        "in a container:       run both in one IPC and one PID namespace (--ipc=host --pid=host, "
        "or --ipc=container:NAME --pid=container:NAME)");
    finding(diagnosis, "", "under systemd:        no PrivateIPC= in one unit alone");
    spoil(diagnosis, EXIT_NO_SERVER);
}

/* Who holds the lock queue: the server, if there is one. */
static void check_owner(struct diagnosis *diagnosis, const char *base)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    struct kv_error error = {0};
    mqd_t lock;
    wire_queue_name(name, base, WIRE_LOCK, 0, 0);
    enum kv_status status = wire_queue_open(name, true, &lock, NULL, &error);
    if (status == KV_DENIED) {
        finding(diagnosis, "ok", "who serves it only its owner may ask (%s has mode 0600)", name);
        return;
    }
    pid_t owner = status == KV_OK ? wire_queue_owner(lock) : 0;
    if (status == KV_OK)
        mq_close(lock);
    if (owner > 0) {
        finding(diagnosis, "ok", "served by process %d", (int)owner);
        return;
    }
    if (owner < 0) {
        finding(diagnosis, "BAD",
                "this process can not see the server: " WIRE_PID_NAMESPACE_ADVICE);
        spoil(diagnosis, EXIT_REFUSED);
        return;
    }
    finding(diagnosis, "NONE", "the queue is there, but nobody serves it: its server has died");
    finding(diagnosis, "", "start it again; it takes the queue over: serverk -m %s -f DIRECTORY",
            base);
    spoil(diagnosis, EXIT_NO_SERVER);
}

static void check_server(struct diagnosis *diagnosis)
{
    const char *name = diagnosis->context->settings.queue;
    struct kv_error error = {0};
    struct wire_geometry geometry;
    struct stat status;
    char user[64];
    mqd_t lane;
    fprintf(diagnosis->stream, "Server at queue %s\n", name);
    switch (wire_queue_open(name, true, &lane, &geometry, &error)) {
    case KV_OK:
        break;
    case KV_NO_SERVER:
        report_no_server(diagnosis, name);
        return;
    case KV_DENIED:
        finding(diagnosis, "BAD", "%s", error.text);
        finding(diagnosis, "",
                "let others in:        serverk --mode 0622 (anyone) or 0620 (its group)");
        spoil(diagnosis, EXIT_REFUSED);
        return;
    default:
        finding(diagnosis, "BAD", "%s", error.text);
        spoil(diagnosis, EXIT_REFUSED);
        return;
    }
    if (fstat((int)lane, &status) == 0)
        finding(diagnosis, "ok",
                "owner %s, mode %04o, %u messages of %" PRIu32 " bytes; you may send",
                user_name(status.st_uid, user), (unsigned)(status.st_mode & 07777), geometry.depth,
                geometry.message_bytes);
    mq_close(lane);
    check_owner(diagnosis, name);
}

static void report_connection(struct diagnosis *diagnosis)
{
    struct clientk_info info;
    uint64_t round_trip_ns = 0;
    char value_size[32], time[32];
    struct clientk *client = diagnosis->context->client;
    enum kv_status status = clientk_ping(client, &round_trip_ns);
    clientk_info(client, &info);
    if (status == KV_OK)
        finding(diagnosis, "ok", "connected; a round trip takes %s",
                format_duration_ns(round_trip_ns, time));
    else
        finding(diagnosis, "BAD", "connected, but a round trip fails: %s",
                context_sentence(status));
    diagnosis->silent = status == KV_TIMEOUT || status == KV_DEADLINE;
    spoil(diagnosis, exit_code_of(status));
    bool smaller = info.reply_depth < wire_reply_ladder[0].depth ||
                   info.reply_bytes < wire_reply_ladder[0].message_bytes;
    finding(diagnosis, smaller ? "low" : "ok",
            "session: %" PRIu32 " replies of %" PRIu32 " bytes%s", info.reply_depth,
            info.reply_bytes,
            smaller ? " (smaller than could be: the budget of queue bytes is short)" : "");
    finding(diagnosis, "ok", "values of up to %s; requests of up to %" PRIu32 " bytes",
            format_size(info.max_value_bytes, value_size),
            info.bulk_bytes ? info.bulk_bytes : info.lane_bytes);
}

static void check_connection(struct diagnosis *diagnosis)
{
    struct kv_error error = {0};
    heading(diagnosis, "Connection");
    enum kv_status status = context_connect(diagnosis->context, &error);
    if (status == KV_OK) {
        report_connection(diagnosis);
    } else {
        finding(diagnosis, "BAD", "%s", error.text);
        diagnosis->silent = status == KV_TIMEOUT;
        spoil(diagnosis, exit_code_of(status));
    }
}

static void check_shared_memory(struct diagnosis *diagnosis)
{
    struct statvfs shm;
    char free_size[32];
    heading(diagnosis, "Shared memory (for values above some 4 KiB)");
    if (statvfs("/dev/shm", &shm) != 0) {
        finding(diagnosis, "low", "/dev/shm: %s; big values go in pieces, slower", strerror(errno));
        return;
    }
    uint64_t free_bytes = (uint64_t)shm.f_bavail * shm.f_frsize;
    bool writable = access("/dev/shm", W_OK) == 0;
    finding(diagnosis, writable && free_bytes >= FULLEST_SHM_BYTES ? "ok" : "low",
            "/dev/shm has %s free%s", format_size(free_bytes, free_size),
            writable ? "" : ", but you may not write there");
}

static const char *conclusion(const struct diagnosis *diagnosis)
{
    if (diagnosis->code == EXIT_DONE)
        return "All well.";
    if (diagnosis->code != EXIT_NO_SERVER)
        return "See BAD above.";
    return diagnosis->silent ? "There is a server, but it does not answer." : "There is no server.";
}

int doctor_run(struct context *context, const void *options, const struct word *operands,
               size_t count)
{
    (void)options, (void)operands, (void)count;
    struct diagnosis diagnosis = {.context = context, .stream = context->output.stream};
    wire_limits_read(&diagnosis.limits);
    check_limits(&diagnosis);
    check_server(&diagnosis);
    if (diagnosis.code == EXIT_DONE)
        check_connection(&diagnosis);
    check_shared_memory(&diagnosis);
    print_limit_advice(&diagnosis);
    heading(&diagnosis, conclusion(&diagnosis));
    return diagnosis.code;
}
