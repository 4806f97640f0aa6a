#include "serverk/session/admission.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "serverk/session/user_share.h"

/* The live sessions. */
struct census {
    struct session_table *table;
    const struct newcomer *newcomer;
    struct stat queue;    /* the newcomer's */
    struct session *twin; /* of this queue and nonce, held */
    unsigned count, others, of_user;
    unsigned of_process;
    uint32_t pids_of_user[SESSION_MAX_SESSIONS];
    uint32_t uids_of_others[SESSION_MAX_SESSIONS];
};

static bool count_session(void *context, struct session *session)
{
    struct census *census = context;
    if (session->reply_device == census->queue.st_dev &&
        session->reply_inode == census->queue.st_ino) {
        if (session->nonce != census->newcomer->nonce) {
            session_end(census->table, session, SESSION_REPLACED);
            return true;
        }
        session_retain(session);
        census->twin = session;
        return false;
    }
    census->count++;
    census->of_process += session->pid == census->newcomer->pid;
    if (session->uid == census->newcomer->uid)
        census->pids_of_user[census->of_user++] =
            (uint32_t)(session->pid > 0 ? session->pid : session->named_pid);
    if (!user_share_is_owner(session->uid))
        census->uids_of_others[census->others++] = (uint32_t)session->uid;
    return true;
}

static int compare_holders(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* Finds the holder that stands most often in `holders`. Returns how often. */
static unsigned most(uint32_t *holders, unsigned count, uint32_t *holder)
{
    unsigned best = 0;
    qsort(holders, count, sizeof *holders, compare_holders);
    for (unsigned i = 0, run = 0; i < count; i++) {
        run = i > 0 && holders[i] == holders[i - 1] ? run + 1 : 1;
        if (run <= best)
            continue;
        best = run;
        *holder = holders[i];
    }
    return best;
}

static enum kv_status judge_census(struct census *census, struct kv_error *error)
{
    unsigned capacity = session_table_capacity(census->table);
    uid_t uid = census->newcomer->uid;
    uint32_t holder = 0;
    unsigned reserve = census->of_process > 0 ? user_share_sessions_reserved(capacity) : 0;
    if (user_share_is_owner(uid)) {
        if (census->count < capacity - reserve)
            return KV_OK;
        unsigned held = most(census->pids_of_user, census->of_user, &holder);
        return kv_error_set(error, KV_LIMIT,
                            "%u of %u sessions are taken, %u of them by uid %lu (%u by its process "
                            "%u)%s: close some, or raise ulimit -n of the server (4096 at most)",
                            census->count, capacity, census->of_user, (unsigned long)uid, held,
                            holder,
                            reserve > 0 ? ", and the rest is kept for other processes of it" : "");
    }
    unsigned share = census->newcomer->max_sessions ? census->newcomer->max_sessions
                                                    : user_share_sessions_of_one(capacity);
    if (census->of_user >= share) {
        unsigned held = most(census->pids_of_user, census->of_user, &holder);
        return kv_error_set(
            error, KV_LIMIT,
            "uid %lu has %u of the %u sessions that one user may have here%s, %u of "
            "them in process %u: close some (a session is one open handle, or "
            "thread of one)",
            (unsigned long)uid, census->of_user, share,
            census->newcomer->max_sessions ? " by the configuration file" : "", held, holder);
    }
    if (census->others < user_share_sessions_of_others(capacity) && census->count < capacity)
        return KV_OK;
    unsigned held = most(census->uids_of_others, census->others, &holder);
    return kv_error_set(error, KV_LIMIT,
                        "%u of %u sessions are taken, and the rest is kept for the server's owner; "
                        "uid %u has %u of them",
                        census->count, capacity, holder, held);
}

static void take_census(struct census *census)
{
    census->count = census->others = census->of_user = census->of_process = 0;
    session_each(census->table, count_session, census);
    KV_ASSERT(census->count <= session_table_capacity(census->table));
    KV_ASSERT(census->of_user <= census->count && census->others <= census->count);
}

enum kv_status admission_check(struct session_table *table, const struct newcomer *newcomer,
                               struct session **session, struct kv_error *error)
{
    *session = NULL;
    struct census *census = malloc(sizeof *census);
    if (!census)
        return kv_error_set(error, KV_NO_MEMORY, "the server has no memory for a session");
    census->table = table;
    census->newcomer = newcomer;
    census->twin = NULL;
    if (newcomer->pid > 0)
        session_end_abandoned(table, newcomer->pid);
    enum kv_status status = KV_OK;
    if (fstat((int)newcomer->reply_queue, &census->queue) != 0)
        status = kv_error_set_errno(error, "cannot examine the reply queue");
    if (status == KV_OK) {
        take_census(census);
        status = census->twin ? KV_OK : judge_census(census, error);
    }
    if (status == KV_LIMIT) {
        session_end_abandoned(table, 0);
        take_census(census);
        status = judge_census(census, error);
    }
    *session = census->twin;
    free(census);
    return status;
}
