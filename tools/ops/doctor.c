#include "tools/ops/doctor.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "clientk/program/cli/denied.h"
#include "tools/ops/diagnosis.h"
#include "common/text/parse.h"
#include "kvstore/shared/store_leftovers.h"
#include "wire/entrance.h"
#include "wire/identity.h"
#include "wire/queue.h"
#include "wire/reply_ring.h"

#define SHM_DIR           "/dev/shm"
#define LEFTOVERS_MS      2000u       /* the longest search for leftovers */
#define FULLEST_SHM_BYTES (16u << 20) /* less free space is reported as low */

/* Reads the IPC namespace of a process ("ipc:[4026531839]"); false: it may not be read. */
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
    doctor_fix_by_start(diagnosis);
    finding(diagnosis, "", "start a server:       serverk -m %s -f DIRECTORY", name);
    finding(diagnosis, "",
            "in a container:       run both in one IPC namespace (--ipc=host; or --ipc=shareable "
            "for the server and --ipc=container:NAME for clients)");
    finding(diagnosis, "", "under systemd:        no PrivateIPC= in one unit alone");
}

/* Returns the name of a process's program; "?" if it cannot be read. */
static const char *program_of(pid_t pid, char program[32])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(program, 32, file))
        strcpy(program, "?");
    if (file)
        fclose(file);
    program[strcspn(program, "\n")] = '\0';
    return program;
}

/* Reports who holds the lock on the lane, which is the server, if there is one. */
static bool check_owner(struct diagnosis *diagnosis, mqd_t lane, const char *base)
{
    char program[32], user[64];
    pid_t owner = wire_lane_server(lane);
    if (owner > 0) {
        diagnosis->server = owner;
        finding(diagnosis, "ok", "served by process %d (%s) of %s", (int)owner,
                program_of(owner, program), user_name(wire_queue_uid(lane), user));
        return true;
    }
    if (owner < 0) {
        finding(diagnosis, "ok", "served by a process of %s, in another PID namespace",
                user_name(wire_queue_uid(lane), user));
        return true;
    }
    finding(diagnosis, "NONE", "the queue is there, but nobody serves it: its server has died");
    doctor_fix_by_start(diagnosis);
    finding(diagnosis, "", "start it again; it takes the queue over: serverk -m %s -f DIRECTORY",
            base);
    return false;
}

/* Adds what lets this user in: membership in the group if a group is let in; else the server's
 * owner decides. */
static void fix_denied(struct diagnosis *diagnosis, enum kv_status status)
{
    char command[160];
    if (status != KV_DENIED)
        return;
    if (denied_command(diagnosis->context->global.queue, command))
        fix(diagnosis, "%s", command);
    else
        fix_by_hand(diagnosis);
}

/* Finds the user that the server must have; false: any user. */
static bool named_server_uid(const struct diagnosis *diagnosis, uid_t *uid)
{
    uint64_t number;
    const char *text = diagnosis->context->global.server_uid;
    if (!text)
        text = getenv("MQKV_SERVER_UID");
    if (!text)
        return false;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    const struct passwd *user = getpwnam(text);
    if (!user && !parse_u64(text, 0, UINT32_MAX - 1, &number))
        return false;
    *uid = user ? user->pw_uid : (uid_t)number;
    return true;
}

/* Returns true if the server is of the user that it must have, or none is named. Otherwise nothing
 * more is asked of the server, nor of its process. */
static bool diagnose_server_uid(struct diagnosis *diagnosis, uid_t owner, const uid_t *server_uid)
{
    char is[64], must_be[64];
    if (!server_uid || owner == *server_uid)
        return true;
    finding(diagnosis, "BAD", "the queue belongs to %s, not to %s (--server-uid)",
            user_name(owner, is), user_name(*server_uid, must_be));
    fix_by_hand(diagnosis);
    diagnosis->server = 0;
    return false;
}

/* Returns true if a client may try to connect. */
static bool diagnose_server(struct diagnosis *diagnosis)
{
    const char *name = diagnosis->context->global.queue;
    struct kv_error error = {0};
    struct wire_geometry geometry;
    struct stat facts;
    char user[64];
    mqd_t lane;
    fprintf(diagnosis->stream, "Server at queue %s\n", name);
    uid_t server_uid;
    bool reads_only, is_named = named_server_uid(diagnosis, &server_uid);
    enum kv_status status = wire_entrance_open(name, is_named ? &server_uid : NULL, &lane,
                                               &geometry, &reads_only, &error);
    if (status == KV_NO_SERVER) {
        report_no_server(diagnosis, name);
        return false;
    }
    if (status == KV_DENIED)
        denied_explain(name, &error);
    if (status != KV_OK) {
        finding(diagnosis, "BAD", "%s", error.text);
        fix_denied(diagnosis, status);
        if (status == KV_DENIED)
            finding(diagnosis, "",
                    "let others in:        serverk --mode 0620 (its group) or 0622 (anyone),"
                    " or for reads only --read-group GROUP");
        return false;
    }
    if (fstat((int)lane, &facts) == 0)
        finding(diagnosis, "ok",
                "owner %s, mode %04o, %u messages of %" PRIu32 " bytes; you may send%s",
                user_name(facts.st_uid, user), (unsigned)(facts.st_mode & 07777), geometry.depth,
                geometry.message_bytes, reads_only ? " to it (NAME.read), for reads" : "");
    bool served =
        check_owner(diagnosis, lane, name) &&
        diagnose_server_uid(diagnosis, wire_queue_uid(lane), is_named ? &server_uid : NULL);
    mq_close(lane);
    return served;
}

static const char *verdict_mark(enum kv_status status)
{
    return exit_code_of(status) == EXIT_NO_SERVER ? "NONE" : "BAD";
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
        finding(diagnosis, verdict_mark(status), "connected, but a round trip fails: %s",
                cli_sentence(status));
    diagnosis->silent = status == KV_TIMEOUT || status == KV_DEADLINE;
    bool smaller = info.reply_depth < wire_reply_ladder[0].depth ||
                   info.reply_bytes < wire_reply_ladder[0].message_bytes;
    finding(diagnosis, smaller ? "low" : "ok",
            "session: %" PRIu32 " replies of %" PRIu32 " bytes%s", info.reply_depth,
            info.reply_bytes, smaller ? " (reduced: few queue bytes are left)" : "");
    if (info.replies_reason)
        finding(diagnosis, "ok", "replies come through a queue, not through shared memory: %s",
                info.replies_reason);
    else
        finding(diagnosis, "ok", "replies come through shared memory: they take no queue bytes");
    if (info.read_only)
        finding(diagnosis, "ok", "this user may read only (serverk --read-group)");
    finding(diagnosis, "ok", "values of up to %s; requests of up to %" PRIu32 " bytes",
            format_size(info.max_value_bytes, value_size),
            info.bulk_bytes ? info.bulk_bytes : info.lane_bytes);
    if (info.direct == CLIENTK_DIRECT_OFF)
        finding(diagnosis, "ok", "reads go by message: %s", info.direct_reason);
    else
        finding(diagnosis, "ok", "reads need no message (%s): %s", direct_name((int)info.direct),
                info.direct_reason);
    if (status == KV_OK)
        doctor_check_store(diagnosis);
}

static void check_connection(struct diagnosis *diagnosis)
{
    struct kv_error error = {0};
    heading(diagnosis, "Connection");
    enum kv_status status = cli_connect(diagnosis->context, &error);
    if (status == KV_OK) {
        report_connection(diagnosis);
    } else {
        finding(diagnosis, verdict_mark(status), "%s", error.text);
        diagnosis->silent = status == KV_TIMEOUT;
    }
}

static void remove_indexes(struct diagnosis *diagnosis)
{
    char size[32];
    struct store_leftovers left = store_leftovers_remove(LEFTOVERS_MS);
    if (left.objects > 0)
        finding(diagnosis, "ok", "removed what killed servers left of stores that are gone: %s",
                format_size(left.bytes, size));
    if (left.unsure_objects > 0)
        finding(
            diagnosis, "ok",
            "%u index%s of killed servers (%s) stay%s: their file system is not mounted here; if "
            "the stores are gone: rm " SHM_DIR "/%s%s",
            left.unsure_objects, left.unsure_objects == 1 ? "" : "es",
            format_size(left.unsure_bytes, size), left.unsure_objects == 1 ? "s" : "",
            left.unsure_name, left.unsure_objects == 1 ? "" : " and the like");
}

static void check_shared_memory(struct diagnosis *diagnosis)
{
    struct statvfs shm;
    char free_size[32];
    heading(diagnosis, "Shared memory (for values above about 4 KiB)");
    if (statvfs("/dev/shm", &shm) != 0) {
        finding(diagnosis, "low", "/dev/shm: %s; large values travel in pieces, which is slower",
                strerror(errno));
        return;
    }
    uint64_t free_bytes = (uint64_t)shm.f_bavail * shm.f_frsize;
    bool writable = access("/dev/shm", W_OK) == 0;
    finding(diagnosis, writable && free_bytes >= FULLEST_SHM_BYTES ? "ok" : "low",
            "/dev/shm has %s free%s", format_size(free_bytes, free_size),
            writable ? "" : ", but you may not write there");
    if (!writable)
        fix(diagnosis, "chmod 1777 " SHM_DIR);
    else if (free_bytes < FULLEST_SHM_BYTES)
        fix(diagnosis, "mount -o remount,size=%" PRIu64 " " SHM_DIR,
            2 * ((uint64_t)shm.f_blocks * shm.f_frsize));
    if (diagnosis->removes)
        remove_indexes(diagnosis);
}

static const char *conclusion(const struct diagnosis *diagnosis)
{
    if (diagnosis->silent)
        return "There is a server, but it does not answer.";
    if (diagnosis->no_server)
        return "There is no server.";
    return diagnosis->problem ? "See BAD above." : "All well.";
}

const struct option_row doctor_option_rows[] = {
    {"fix", 0, OPTION_FLAG, NULL, "print only the commands that mend what is wrong",
     OPTION_FIELD(struct doctor_options, fix)},
    {"clean", 0, OPTION_FLAG, NULL, "remove what killed processes left, with --fix, too",
     OPTION_FIELD(struct doctor_options, clean)},
    {.name = NULL},
};
const struct doctor_options doctor_option_defaults = {.fix = false, .clean = false};

int doctor_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count)
{
    (void)operands, (void)count;
    const struct doctor_options *wanted = options;
    struct diagnosis diagnosis = {.context = context,
                                  .stream = context->output.stream,
                                  .removes = wanted->clean || !wanted->fix};
    if (wanted->fix && !(diagnosis.stream = fopen("/dev/null", "we")))
        return output_failure(&context->output, "doctor", KV_IO, "/dev/null cannot be opened");
    wire_limits_read(&diagnosis.limits);
    const char *replies =
        context->global.replies ? context->global.replies : getenv("MQKV_REPLIES");
    bool wants_queue = replies && strcmp(replies, wire_replies_name(WIRE_REPLIES_QUEUE)) == 0;
    diagnosis.shares_replies =
        !wants_queue &&
        wire_ring_look_for_offer(context->global.queue, geteuid()) == WIRE_RING_OFFERED;
    doctor_check_limits(&diagnosis);
    if (diagnose_server(&diagnosis))
        check_connection(&diagnosis);
    doctor_check_config(&diagnosis, diagnosis.server);
    check_shared_memory(&diagnosis);
    doctor_print_limit_advice(&diagnosis);
    if (has_fixes(&diagnosis))
        finding(&diagnosis, "", "to mend this:         clientk doctor --fix prints the commands");
    heading(&diagnosis, conclusion(&diagnosis));
    if (wanted->fix) {
        fclose(diagnosis.stream);
        print_fixes(&diagnosis, context->output.stream);
    }
    if (diagnosis.no_server)
        return EXIT_NO_SERVER;
    return diagnosis.problem ? EXIT_NOT_FOUND : EXIT_DONE;
}
