/* The commands about the connection: who the client is, and which protocol it speaks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/time/clock.h"
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/protocol/decimal.h"

/* A reply that a subscriber can tell from messages. */
static void reply_subscribed_pong(struct redis_job *job)
{
    reply_array(redis_job_reply(job), 2);
    reply_bulk_text(redis_job_reply(job), "pong");
    reply_bulk(redis_job_reply(job), job->count == 2 ? job->arguments[1] : kv_slice("", 0));
}

bool answer_ping(struct redis_job *job)
{
    if (job->count > 2)
        redis_job_fail(job, "ERR wrong number of arguments for 'ping' command");
    else if (redis_session_only_subscribes(job->session))
        reply_subscribed_pong(job);
    else if (job->count == 2)
        reply_bulk(redis_job_reply(job), job->arguments[1]);
    else
        reply_simple(redis_job_reply(job), "PONG");
    return true;
}

bool answer_echo(struct redis_job *job)
{
    reply_bulk(redis_job_reply(job), job->arguments[1]);
    return true;
}

bool answer_quit(struct redis_job *job)
{
    reply_ok(redis_job_reply(job));
    job->session->closing = true;
    return true;
}

bool answer_reset(struct redis_job *job)
{
    struct redis_session *session = job->session;
    redis_transaction_free(&session->transaction);
    key_tracker_stop(&session->tracker);
    redis_subscriber_take(&session->subscriber, &session->reply);
    redis_subscriber_free(&session->subscriber);
    session->reply.protocol = 2;
    session->authenticated = session->service->password == NULL;
    session->name[0] = '\0';
    reply_simple(&session->reply, "RESET");
    return true;
}

bool answer_select(struct redis_job *job)
{
    int64_t database;
    if (!redis_argument_integer(job, 1, &database))
        return true;
    if (database == 0)
        reply_ok(redis_job_reply(job));
    else
        redis_job_fail(job, "ERR DB index is out of range");
    return true;
}

/* Passwords ------------------------------------------------------------------------------------ */

/* Compares in a time that does not depend on where the difference is. */
static bool is_password(struct kv_slice given, const char *password)
{
    size_t size = strlen(password);
    unsigned difference = given.size != size;
    const char *bytes = given.data;
    for (size_t i = 0; i < given.size; i++)
        difference |= (unsigned char)bytes[i] ^ (unsigned char)password[size > 0 ? i % size : 0];
    return difference == 0;
}

/* user.data NULL: the default user. */
static bool authenticate(struct redis_job *job, struct kv_slice user, struct kv_slice password)
{
    struct redis_session *session = job->session;
    bool right = !user.data || kv_slice_equal(user, kv_slice_from_string("default"));
    if (session->service->password)
        right &= is_password(password, session->service->password);
    if (!right) {
        redis_job_fail(job, "WRONGPASS invalid username-password pair or user is disabled.");
        return false;
    }
    session->authenticated = true;
    return true;
}

bool answer_auth(struct redis_job *job)
{
    struct kv_slice user = {NULL, 0};
    if (job->count > 3) {
        redis_job_fail(job, "ERR syntax error");
        return true;
    }
    if (job->count == 2 && !job->session->service->password) {
        redis_job_fail(job, "ERR AUTH <password> called without any password configured for the "
                            "default user. Are you sure your configuration is correct?");
        return true;
    }
    if (job->count == 3)
        user = job->arguments[1];
    if (authenticate(job, user, job->arguments[job->count - 1]))
        reply_ok(redis_job_reply(job));
    return true;
}

bool answer_acl_whoami(struct redis_job *job)
{
    reply_bulk_text(redis_job_reply(job), "default");
    return true;
}

/* Names of clients ----------------------------------------------------------------------------- */

/* Returns true if the name may stand in a line of CLIENT LIST. */
static bool is_name(struct kv_slice name)
{
    const char *bytes = name.data;
    for (size_t i = 0; i < name.size; i++)
        if (bytes[i] < '!' || bytes[i] > '~')
            return false;
    return true;
}

static bool store_name(struct redis_job *job, struct kv_slice name, char out[REDIS_NAME_BYTES],
                       const char *what)
{
    if (!is_name(name)) {
        redis_job_fail(job, "ERR %s cannot contain spaces, newlines or special characters.", what);
        return false;
    }
    size_t size = name.size < REDIS_NAME_BYTES ? name.size : REDIS_NAME_BYTES - 1;
    if (size > 0)
        memcpy(out, name.data, size);
    out[size] = '\0';
    return true;
}

/* HELLO ---------------------------------------------------------------------------------------- */

/* Reads the version of the protocol; *protocol 0: none is given, it stays as it is. */
static bool parse_protocol(struct redis_job *job, int64_t *protocol)
{
    *protocol = 0;
    if (job->count == 1)
        return true;
    if (!decimal_parse(job->arguments[1], protocol))
        redis_job_fail(job, "ERR Protocol version is not an integer or out of range");
    else if (*protocol != 2 && *protocol != 3)
        redis_job_fail(job, "NOPROTO unsupported protocol version");
    return !job->error;
}

/* Takes the options of HELLO. As in Redis each takes effect when it is read, even if a later one is
 * wrong. */
static bool take_hello_options(struct redis_job *job)
{
    for (size_t i = 2; i < job->count; i++) {
        if (redis_argument_is(job, i, "AUTH") && i + 2 < job->count) {
            if (!authenticate(job, job->arguments[i + 1], job->arguments[i + 2]))
                return false;
            i += 2;
        } else if (redis_argument_is(job, i, "SETNAME") && i + 1 < job->count) {
            if (!store_name(job, job->arguments[++i], job->session->name, "Client names"))
                return false;
        } else {
            redis_job_fail(job, "ERR Syntax error in HELLO option '%.*s'",
                           (int)job->arguments[i].size, (const char *)job->arguments[i].data);
            return false;
        }
    }
    return true;
}

bool answer_hello(struct redis_job *job)
{
    struct redis_session *session = job->session;
    int64_t protocol;
    if (!parse_protocol(job, &protocol) || !take_hello_options(job))
        return true;
    if (!session->authenticated) {
        redis_job_fail(job, "NOAUTH HELLO must be called with the client already authenticated, "
                            "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                            "authenticate the client and select the RESP protocol version at the "
                            "same time");
        return true;
    }
    if (protocol != 0)
        session->reply.protocol = (int)protocol;
    if (protocol != 0 && !job->run) /* messages that have come are in the old version */
        redis_subscriber_take(&session->subscriber, &session->reply);
    struct resp_reply *reply = &session->reply;
    reply_map(reply, 7);
    reply_bulk_text(reply, "server");
    reply_bulk_text(reply, "redis");
    reply_bulk_text(reply, "version");
    reply_bulk_text(reply, REDIS_COMPATIBLE_VERSION);
    reply_bulk_text(reply, "proto");
    reply_integer(reply, reply->protocol);
    reply_bulk_text(reply, "id");
    reply_integer(reply, (int64_t)session->id);
    reply_bulk_text(reply, "mode");
    reply_bulk_text(reply, "standalone");
    reply_bulk_text(reply, "role");
    reply_bulk_text(reply, "master");
    reply_bulk_text(reply, "modules");
    reply_array(reply, 0);
    return true;
}

/* CLIENT --------------------------------------------------------------------------------------- */

bool answer_client_id(struct redis_job *job)
{
    reply_integer(redis_job_reply(job), (int64_t)job->session->id);
    return true;
}

bool answer_client_getname(struct redis_job *job)
{
    if (job->session->name[0])
        reply_bulk_text(redis_job_reply(job), job->session->name);
    else
        reply_null(redis_job_reply(job));
    return true;
}

bool answer_client_setname(struct redis_job *job)
{
    if (store_name(job, job->arguments[2], job->session->name, "Client names"))
        reply_ok(redis_job_reply(job));
    return true;
}

bool answer_client_setinfo(struct redis_job *job)
{
    struct redis_session *session = job->session;
    bool stored = false;
    if (redis_argument_is(job, 2, "LIB-NAME"))
        stored = store_name(job, job->arguments[3], session->library, "lib-name");
    else if (redis_argument_is(job, 2, "LIB-VER"))
        stored = store_name(job, job->arguments[3], session->library_version, "lib-ver");
    else
        redis_job_fail(job, "ERR Unrecognized option '%.*s'", (int)job->arguments[2].size,
                       (const char *)job->arguments[2].data);
    if (stored)
        reply_ok(redis_job_reply(job));
    return true;
}

/* CLIENT LIST [TYPE type | ID id...]: *listed: the client that asks is among them; kresp lists no
 * other. False: the job has failed. */
static bool lists_itself(struct redis_job *job, bool *listed)
{
    static const char *const types[] = {"normal", "pubsub", "master", "replica", "slave"};
    size_t type = 0;
    bool subscribes = redis_subscriber_count(&job->session->subscriber) > 0;
    *listed = job->count == 2;
    if (job->count == 4 && redis_argument_is(job, 2, "TYPE")) {
        while (type < sizeof types / sizeof types[0] && !redis_argument_is(job, 3, types[type]))
            type++;
        *listed = type == (subscribes ? 1 : 0);
        if (type == sizeof types / sizeof types[0])
            redis_job_fail(job, "ERR Unknown client type '%.*s'", (int)job->arguments[3].size,
                           (const char *)job->arguments[3].data);
    } else if (job->count > 3 && redis_argument_is(job, 2, "ID")) {
        for (size_t i = 3; i < job->count && !job->error; i++) {
            int64_t id;
            if (!decimal_parse(job->arguments[i], &id))
                redis_job_fail(job, "ERR Invalid client ID");
            else
                *listed |= (uint64_t)id == job->session->id;
        }
    } else if (job->count != 2) {
        redis_job_fail(job, "ERR syntax error");
    }
    return job->error == NULL;
}

bool answer_client_list(struct redis_job *job)
{
    bool listed;
    if (!lists_itself(job, &listed))
        return true;
    if (listed)
        return answer_client_info(job);
    reply_verbatim(redis_job_reply(job), kv_slice("", 0));
    return true;
}

bool answer_client_info(struct redis_job *job)
{
    const struct redis_session *session = job->session;
    unsigned mode = session->tracker.mode;
    char line[640], flags[8];
    snprintf(flags, sizeof flags, "%s%s%s",
             redis_subscriber_count(&session->subscriber) > 0 ? "P"
             : mode                                           ? ""
                                                              : "N",
             mode ? "t" : "", mode & TRACKING_BROADCAST ? "B" : "");
    int size = snprintf(
        line, sizeof line,
        "id=%" PRIu64 " addr=%s laddr=%s fd=0 name=%s age=%" PRIu64
        " idle=0 flags=%s db=0 sub=%zu psub=%zu multi=%d watch=%zu cmd=client|%s user=default "
        "redir=%d lib-name=%s lib-ver=%s resp=%d\n",
        session->id, session->address, session->service->socket_path, session->name,
        (clock_realtime_ms() - session->since_ms) / 1000, flags,
        session->subscriber.wanted[REDIS_CHANNEL], session->subscriber.wanted[REDIS_PATTERN],
        session->transaction.state == TRANSACTION_NONE
            ? -1
            : (int)redis_transaction_count(&session->transaction),
        session->transaction.watched_count, strchr(job->command->name, '|') + 1, mode ? 0 : -1,
        session->library, session->library_version, session->reply.protocol);
    reply_verbatim(redis_job_reply(job),
                   kv_slice(line, size < (int)sizeof line ? (size_t)size : sizeof line - 1));
    return true;
}

/* CLIENT NO-EVICT, NO-TOUCH: accepted; neither has a meaning here. */
bool answer_client_switch(struct redis_job *job)
{
    if (redis_argument_is(job, 2, "ON") || redis_argument_is(job, 2, "OFF"))
        reply_ok(redis_job_reply(job));
    else
        redis_job_fail(job, "ERR syntax error");
    return true;
}
