/* CLIENT TRACKING and its like: the client is told of changes of keys that it keeps. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"

static bool has_prefix(const struct tracked_client *client, struct kv_slice name)
{
    for (const struct tracked_prefix *prefix = client->prefixes; prefix; prefix = prefix->next)
        if (kv_slice_equal(prefix->name, name))
            return true;
    return false;
}

static bool overlaps(struct kv_slice one, struct kv_slice other)
{
    return kv_slice_has_prefix(one, other) || kv_slice_has_prefix(other, one);
}

static void fail_overlap(struct redis_job *job, struct kv_slice prefix, const char *which,
                         struct kv_slice other)
{
    redis_job_fail(job,
                   "ERR Prefix '%.*s' overlaps with %s prefix '%.*s'. Prefixes for a single client "
                   "must not overlap.",
                   (int)(prefix.size < 128 ? prefix.size : 128), (const char *)prefix.data, which,
                   (int)(other.size < 128 ? other.size : 128), (const char *)other.data);
}

/* Compares the prefix, argument `at`, with those that the client has, and the earlier arguments. */
static bool prefix_is_apart(struct redis_job *job, size_t at)
{
    struct kv_slice name = job->arguments[at];
    const struct tracked_prefix *had = job->session->tracker.client.prefixes;
    for (; had && !job->error; had = had->next)
        if (overlaps(had->name, name))
            fail_overlap(job, name, "an existing", had->name);
    for (size_t i = 3; i < at && !job->error; i++) {
        if (!redis_argument_is(job, i, "PREFIX"))
            continue;
        if (++i < at && overlaps(job->arguments[i], name))
            fail_overlap(job, job->arguments[i], "another provided", name);
    }
    return !job->error;
}

/* Reads the options of CLIENT TRACKING ON. False: the job has failed. */
static bool parse_tracking(struct redis_job *job, unsigned *mode, size_t *prefixes)
{
    static const struct {
        const char *word;
        unsigned mode;
    } words[] = {{"BCAST", TRACKING_BROADCAST},
                 {"OPTIN", TRACKING_OPTIN},
                 {"OPTOUT", TRACKING_OPTOUT},
                 {"NOLOOP", TRACKING_NOLOOP}};
    *mode = 0;
    *prefixes = 0;
    for (size_t i = 3; i < job->count; i++) {
        size_t word = 0;
        bool has_value = i + 1 < job->count;
        while (word < sizeof words / sizeof words[0] &&
               !redis_argument_is(job, i, words[word].word))
            word++;
        if (word < sizeof words / sizeof words[0]) {
            *mode |= words[word].mode;
        } else if (has_value && redis_argument_is(job, i, "PREFIX")) {
            (*prefixes)++;
            i++;
        } else if (has_value && redis_argument_is(job, i, "REDIRECT")) {
            redis_job_fail(job, "ERR kresp: CLIENT TRACKING has no REDIRECT here: a client is told "
                                "on its own connection, in RESP3 (HELLO 3)");
            return false;
        } else {
            redis_job_fail(job, "ERR syntax error");
            return false;
        }
    }
    return true;
}

static void fail_prefixes(struct redis_job *job)
{
    redis_job_fail(job,
                   "ERR kresp: a user has at most %u prefixes, as far as there is memory for them "
                   "(--buffers)",
                   TRACKING_PREFIXES_OF_USER);
}

static bool mode_is_possible(struct redis_job *job, unsigned mode, size_t prefixes)
{
    const unsigned opts = TRACKING_OPTIN | TRACKING_OPTOUT;
    unsigned now = job->session->tracker.mode;
    if (!(mode & TRACKING_BROADCAST) && prefixes > 0)
        redis_job_fail(job, "ERR PREFIX option requires BCAST mode to be enabled");
    else if (now && (now & TRACKING_BROADCAST) != (mode & TRACKING_BROADCAST))
        redis_job_fail(job, "ERR You can't switch BCAST mode on/off before disabling tracking for "
                            "this client, and then re-enabling it with a different mode.");
    else if ((mode & TRACKING_BROADCAST) && (mode & opts))
        redis_job_fail(job, "ERR OPTIN and OPTOUT are not compatible with BCAST");
    else if ((mode & opts) == opts)
        redis_job_fail(job, "ERR You can't specify both OPTIN mode and OPTOUT mode");
    else if (((mode & TRACKING_OPTIN) && (now & TRACKING_OPTOUT)) ||
             ((mode & TRACKING_OPTOUT) && (now & TRACKING_OPTIN)))
        redis_job_fail(job, "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for "
                            "this client, and then re-enabling it with a different mode.");
    else if (prefixes > TRACKING_PREFIXES_OF_USER) /* before each is compared with all others */
        fail_prefixes(job);
    else if (redis_job_reply(job)->protocol < 3)
        redis_job_fail(job, "ERR kresp: CLIENT TRACKING needs RESP3 (HELLO 3): RESP2 has no way to "
                            "tell a client of changes");
    return !job->error;
}

/* Adds the prefixes; without one, a client is told of all keys. */
static void add_prefixes(struct redis_job *job, size_t prefixes)
{
    struct key_tracker *tracker = &job->session->tracker;
    struct kv_slice every = kv_slice("", 0);
    bool added = prefixes > 0 || has_prefix(&tracker->client, every) ||
                 tracking_table_add_prefix(tracker->table, &tracker->client, every);
    for (size_t i = 3; added && i < job->count; i++)
        if (redis_argument_is(job, i, "PREFIX"))
            added =
                tracking_table_add_prefix(tracker->table, &tracker->client, job->arguments[++i]);
    if (!added)
        fail_prefixes(job);
}

static bool begin_tracking(struct redis_job *job)
{
    struct key_tracker *tracker = &job->session->tracker;
    unsigned mode;
    size_t prefixes;
    if (!parse_tracking(job, &mode, &prefixes) || !mode_is_possible(job, mode, prefixes))
        return false;
    for (size_t i = 3; prefixes > 0 && i < job->count; i++)
        if (redis_argument_is(job, i, "PREFIX") && !prefix_is_apart(job, ++i))
            return false;
    bool was_on = tracker->mode != 0;
    if (!key_tracker_start(tracker, mode))
        redis_job_fail(job, "ERR kresp: no memory for CLIENT TRACKING is left (--buffers)");
    else if (mode & TRACKING_BROADCAST)
        add_prefixes(job, prefixes);
    if (job->error && !was_on)
        key_tracker_stop(tracker);
    return !job->error;
}

/* ON is answered when the store's feed of changes is followed; until then the job goes on. number:
 * the request. */
static bool turn_on(struct redis_job *job)
{
    struct redis_session *session = job->session;
    struct channel_link *link = session->service->link;
    struct kv_error error;
    if (job->phase == 0) {
        if (!begin_tracking(job))
            return true;
        job->number = channel_link_ask_tracking(link);
        job->phase = 1;
    }
    redis_subscriber_await(&session->subscriber);
    enum link_answer answer = channel_link_answer(link, job->number, &error);
    session->is_waiting = answer == LINK_IS_BUSY;
    if (answer == LINK_IS_BUSY)
        return false;
    if (answer == LINK_TELLS) {
        reply_ok(&session->reply);
        return true;
    }
    key_tracker_stop(&session->tracker);
    redis_job_fail(job, "ERR kresp: CLIENT TRACKING needs the store's feed of changes: %s",
                   error.text);
    return true;
}

bool answer_client_tracking(struct redis_job *job)
{
    unsigned mode;
    size_t prefixes;
    if (redis_argument_is(job, 2, "ON"))
        return turn_on(job);
    if (!redis_argument_is(job, 2, "OFF")) {
        redis_job_fail(job, "ERR syntax error");
        return true;
    }
    if (!parse_tracking(job, &mode, &prefixes))
        return true;
    key_tracker_stop(&job->session->tracker);
    reply_ok(redis_job_reply(job));
    return true;
}

bool answer_client_caching(struct redis_job *job)
{
    struct key_tracker *tracker = &job->session->tracker;
    bool says_yes = redis_argument_is(job, 2, "YES");
    if (!tracker->mode)
        redis_job_fail(job, "ERR CLIENT CACHING can be called only when the client is in tracking "
                            "mode with OPTIN or OPTOUT mode enabled");
    else if (!says_yes && !redis_argument_is(job, 2, "NO"))
        redis_job_fail(job, "ERR syntax error");
    else if (says_yes && !(tracker->mode & TRACKING_OPTIN))
        redis_job_fail(job, "ERR CLIENT CACHING YES is only valid when tracking is enabled in "
                            "OPTIN mode.");
    else if (!says_yes && !(tracker->mode & TRACKING_OPTOUT))
        redis_job_fail(job, "ERR CLIENT CACHING NO is only valid when tracking is enabled in "
                            "OPTOUT mode.");
    if (job->error)
        return true;
    tracker->is_told_caching = true;
    reply_ok(redis_job_reply(job));
    return true;
}

bool answer_client_trackinginfo(struct redis_job *job)
{
    const struct key_tracker *tracker = &job->session->tracker;
    struct resp_reply *reply = redis_job_reply(job);
    const struct {
        const char *name;
        bool is_shown;
    } flags[] = {{tracker->mode ? "on" : "off", true},
                 {"bcast", tracker->mode & TRACKING_BROADCAST},
                 {"optin", tracker->mode & TRACKING_OPTIN},
                 {"caching-yes", tracker->is_told_caching && (tracker->mode & TRACKING_OPTIN)},
                 {"optout", tracker->mode & TRACKING_OPTOUT},
                 {"caching-no", tracker->is_told_caching && (tracker->mode & TRACKING_OPTOUT)},
                 {"noloop", tracker->mode & TRACKING_NOLOOP}};
    size_t shown = 0, prefixes = 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        shown += flags[i].is_shown;
    reply_map(reply, 3);
    reply_bulk_text(reply, "flags");
    reply_set(reply, shown);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].is_shown)
            reply_bulk_text(reply, flags[i].name);
    reply_bulk_text(reply, "redirect");
    reply_integer(reply, tracker->mode ? 0 : -1);
    for (const struct tracked_prefix *at = tracker->client.prefixes; at; at = at->next)
        prefixes++;
    reply_bulk_text(reply, "prefixes");
    reply_array(reply, prefixes);
    for (const struct tracked_prefix *at = tracker->client.prefixes; at; at = at->next)
        reply_bulk(reply, at->name);
    return true;
}

/* Nobody is told of changes on another connection. */
bool answer_client_getredir(struct redis_job *job)
{
    reply_integer(redis_job_reply(job), job->session->tracker.mode ? 0 : -1);
    return true;
}
