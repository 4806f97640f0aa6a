#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/ops/diagnosis.h"
#include "tools/ops/queue_budget.h"
#include "common/text/parse.h"
#include "wire/queue.h"
#include "wire/stale_names.h"

#define SMALLEST_USEFUL_MESSAGE_BYTES 512u
#define UNKNOWN                       UINT64_MAX

/* Returns what the limit leaves; UNKNOWN until the bytes in use are known. */
static uint64_t bytes_left(const struct diagnosis *diagnosis, uint64_t used)
{
    uint64_t limit = diagnosis->limits.msgqueue_bytes;
    if (used == UNKNOWN)
        return UNKNOWN;
    return limit > used ? limit - used : 0;
}

static void report_reply_queues(struct diagnosis *diagnosis, uint64_t left)
{
    const struct wire_geometry *step = wire_reply_ladder;
    for (; step->depth > 0; step++) {
        uint64_t charge = wire_geometry_charge(*step);
        if (step->depth > diagnosis->limits.msg_max ||
            step->message_bytes > diagnosis->limits.msgsize_max)
            finding(diagnosis, "-", "sessions of %u x %" PRIu32 " bytes: above the limits",
                    step->depth, step->message_bytes);
        else if (left == UNKNOWN)
            finding(diagnosis, "-",
                    "sessions of %u x %" PRIu32 " bytes cost %" PRIu64
                    ": the whole budget pays for %" PRIu64,
                    step->depth, step->message_bytes, charge,
                    diagnosis->limits.msgqueue_bytes / charge);
        else
            finding(diagnosis, charge <= left ? "ok" : "low",
                    "sessions of %u x %" PRIu32 " bytes cost %" PRIu64
                    ": what is left pays for %" PRIu64 " more",
                    step->depth, step->message_bytes, charge, left / (charge > 0 ? charge : 1));
    }
}

static const char *limit_text(rlim_t bytes, char buffer[32])
{
    if (bytes == RLIM_INFINITY)
        return "unlimited";
    snprintf(buffer, 32, "%" PRIu64, (uint64_t)bytes);
    return buffer;
}

/* Returns the bytes of the smallest session. */
static uint64_t smallest_session(void)
{
    const struct wire_geometry *step = wire_reply_ladder;
    while (step[1].depth > 0)
        step++;
    return wire_geometry_charge(*step);
}

static void report_use(struct diagnosis *diagnosis, uint64_t used,
                       const struct queue_listing *listing)
{
    uint64_t left = bytes_left(diagnosis, used);
    char how[WIRE_LIMITS_HOW_BYTES];
    if (used == UNKNOWN) {
        finding(diagnosis, "low", "the number of bytes in use cannot be determined");
        return;
    }
    bool none = left < smallest_session();
    bool refused = none && !diagnosis->shares_replies;
    finding(diagnosis,
            refused                                             ? "BAD"
            : left < wire_geometry_charge(wire_reply_ladder[0]) ? "low"
                                                                : "ok",
            "in use %" PRIu64 ", left %" PRIu64 "%s", used, left,
            refused ? ": not enough for a session; new clients of this user are refused"
            : none  ? ": not enough for a reply queue; clients with replies through shared memory "
                      "need none"
                    : "");
    for (unsigned i = 0; listing && i < listing->holder_count; i++)
        finding(diagnosis, "", "  %" PRIu64 " in %u queue%s of %s", listing->holders[i].bytes,
                listing->holders[i].queues, listing->holders[i].queues == 1 ? "" : "s",
                listing->holders[i].name);
    if (listing && used > listing->own_bytes)
        finding(diagnosis, "",
                "  %" PRIu64 " in queues without a name here: open sessions, and those of "
                "other IPC namespaces",
                used - listing->own_bytes);
    if (refused)
        fix(diagnosis, "prlimit --pid $$ --msgqueue=%" PRIu64,
            wire_limits_enough(wire_geometry_charge(wire_reply_ladder[0])));
    if (refused)
        finding(diagnosis, "", "raise the limit: %s",
                wire_limits_how_to_raise(
                    wire_limits_enough(wire_geometry_charge(wire_reply_ladder[0])), how));
}

static void check_budget(struct diagnosis *diagnosis, const struct queue_listing *listing)
{
    struct rlimit budget = {0, 0};
    char soft[32], hard[32];
    uint64_t used = UNKNOWN;
    getrlimit(RLIMIT_MSGQUEUE, &budget);
    finding(diagnosis, "ok", "bytes of queues this user may own (ulimit -q): %s, at most %s",
            limit_text(budget.rlim_cur, soft), limit_text(budget.rlim_max, hard));
    if (queue_budget_used(diagnosis->context->global.queue, &used)) {
        if (used == UNKNOWN)
            used = budget.rlim_max; /* more than the search can see */
        report_use(diagnosis, used, listing);
    } else {
        used = UNKNOWN;
        report_use(diagnosis, used, listing);
    }
    report_reply_queues(diagnosis, bytes_left(diagnosis, used));
}

void doctor_check_limits(struct diagnosis *diagnosis)
{
    const struct wire_limits *limits = &diagnosis->limits;
    struct queue_listing listing;
    heading(diagnosis, "Kernel limits");
    finding(diagnosis, limits->msg_max >= 10 ? "ok" : "low",
            "messages per queue (fs.mqueue.msg_max): %" PRIu64, limits->msg_max);
    if (limits->msg_max < 10)
        fix(diagnosis, "sysctl -w fs.mqueue.msg_max=10");
    finding(diagnosis, limits->msgsize_max >= SMALLEST_USEFUL_MESSAGE_BYTES ? "ok" : "BAD",
            "bytes per message (fs.mqueue.msgsize_max): %" PRIu64, limits->msgsize_max);
    if (limits->msgsize_max < SMALLEST_USEFUL_MESSAGE_BYTES)
        fix(diagnosis, "sysctl -w fs.mqueue.msgsize_max=8192");
    if (diagnosis->removes) {
        struct stale_names removed = wire_stale_names_remove(diagnosis->context->global.queue);
        if (removed.queues + removed.segments > 0)
            finding(diagnosis, "ok",
                    "removed %u queues and %u segments left by dead processes of yours",
                    removed.queues, removed.segments);
    }
    bool listed = queue_listing_read(&listing, geteuid());
    if (listed)
        finding(diagnosis, listing.all >= limits->queues_max ? "BAD" : "ok",
                "queues (fs.mqueue.queues_max): %" PRIu64 ", %u there, %u of them yours",
                limits->queues_max, listing.all, listing.own);
    else
        finding(diagnosis, "ok",
                "queues (fs.mqueue.queues_max): %" PRIu64
                " (their number, and which ones dead processes left, is unknown: /dev/mqueue is "
                "not mounted; as root: mount -t mqueue none /dev/mqueue)",
                limits->queues_max);
    if (listed && listing.all >= limits->queues_max)
        fix(diagnosis, "sysctl -w fs.mqueue.queues_max=%" PRIu64, 4 * limits->queues_max);
    if (!listed)
        fix(diagnosis, "mount -t mqueue none /dev/mqueue");
    check_budget(diagnosis, listed ? &listing : NULL);
}

void doctor_print_limit_advice(struct diagnosis *diagnosis)
{
    uint64_t enough = wire_limits_enough(0);
    if (enough < 8u << 20)
        enough = 8u << 20;
    heading(diagnosis, "To change limits");
    finding(diagnosis, "", "more queues:          sysctl fs.mqueue.queues_max=1024   (as root)");
    finding(diagnosis, "", "deeper queues:        sysctl fs.mqueue.msg_max=64        (as root)");
    finding(diagnosis, "",
            "                      (to keep them: one line each in /etc/sysctl.d/mqkv.conf)");
    finding(diagnosis, "",
            "more bytes, a shell:  ulimit -q %" PRIu64 "   (above the hard limit as root: prlimit "
            "--pid PID --msgqueue=%" PRIu64 ")",
            enough, enough);
    finding(diagnosis, "",
            "more bytes, a user:   NAME - msgqueue %" PRIu64 "  in /etc/security/limits.conf",
            enough);
    finding(diagnosis, "", "more bytes, a unit:   LimitMSGQUEUE=%" PRIu64 "  under [Service]",
            enough);
}
