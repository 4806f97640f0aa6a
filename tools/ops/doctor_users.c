#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/ops/diagnosis.h"
#include "clientk/program/cli/json_reader.h"
#include "wire/queue.h"

#define USERS_SHOWN 8u
#define USERS_MAX   256u

struct user {
    uid_t uid;
    pid_t pid; /* process of one of the user's clients; 0: none is seen here */
    unsigned sessions;
    uint64_t queue_bytes; /* bytes of the sessions' reply queues */
};

bool doctor_queue_limit_of(pid_t pid, uint64_t *bytes)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%ld/limits", (long)pid);
    FILE *limits = pid > 0 ? fopen(path, "re") : NULL;
    bool found = false;
    while (limits && !found && fgets(line, sizeof line, limits))
        found = sscanf(line, "Max msgqueue size %" SCNu64, bytes) == 1;
    if (limits)
        fclose(limits);
    return found;
}

static uint64_t number_in(const struct json_value *object, const char *name)
{
    const struct json_value *member = json_member(object, name);
    return member && member->kind == JSON_NUMBER && member->number > 0 ? (uint64_t)member->number
                                                                       : 0;
}

/* Returns the entry of the user; NULL: there are too many. */
static struct user *user_of(struct user *users, unsigned *count, uid_t uid)
{
    for (unsigned i = 0; i < *count; i++)
        if (users[i].uid == uid)
            return &users[i];
    if (*count == USERS_MAX)
        return NULL;
    users[*count] = (struct user){.uid = uid};
    return &users[(*count)++];
}

/* Reports how much of the user's limit the sessions take; other queues are not seen here. */
static void report_user(struct diagnosis *diagnosis, const struct user *user)
{
    char name[64];
    uint64_t limit;
    if (!doctor_queue_limit_of(user->pid, &limit)) {
        finding(diagnosis, "ok", "%s: %u session%s", user_name(user->uid, name), user->sessions,
                user->sessions == 1 ? "" : "s");
        return;
    }
    uint64_t charge = wire_geometry_charge(wire_reply_ladder[0]);
    uint64_t left = limit > user->queue_bytes ? limit - user->queue_bytes : 0;
    finding(diagnosis, left < charge ? "low" : "ok",
            "%s: %u session%s; reply queues take %" PRIu64 " of its %" PRIu64 " bytes: %" PRIu64
            " more at most",
            user_name(user->uid, name), user->sessions, user->sessions == 1 ? "" : "s",
            user->queue_bytes, limit, charge > 0 ? left / charge : 0);
    if (left < charge)
        /* ":UID" is one uid in limits.conf(5), where "#" begins a comment */
        fix(diagnosis, "echo ':%u - msgqueue %" PRIu64 "' >>/etc/security/limits.d/mqkv.conf",
            (unsigned)user->uid, wire_limits_enough(2 * limit));
}

static int most_first(const void *left, const void *right)
{
    const struct user *a = left, *b = right;
    return (a->sessions < b->sessions) - (a->sessions > b->sessions);
}

void doctor_check_users(struct diagnosis *diagnosis, const struct json_value *sessions)
{
    struct user *users = calloc(USERS_MAX, sizeof *users);
    unsigned count = 0;
    const struct json_value *each = json_member(sessions, "each");
    for (const struct json_value *session = each && users ? each->first : NULL; session;
         session = session->next) {
        struct user *user = user_of(users, &count, (uid_t)number_in(session, "uid"));
        if (user) {
            const struct json_value *replies = json_member(session, "replies");
            struct wire_geometry geometry = {(uint16_t)number_in(session, "credits"),
                                             (uint32_t)number_in(session, "reply_bytes")};
            user->sessions++;
            if (user->pid == 0)
                user->pid = (pid_t)number_in(session, "pid");
            if (!replies || replies->kind != JSON_STRING || strcmp(replies->text, "shared") != 0)
                user->queue_bytes += wire_geometry_charge(geometry);
        }
    }
    if (count > 0)
        qsort(users, count, sizeof *users, most_first);
    for (unsigned i = 0, shown = 0; i < count && shown < USERS_SHOWN; i++) {
        if (users[i].uid == geteuid())
            continue;
        report_user(diagnosis, &users[i]);
        shown++;
    }
    free(users);
}
