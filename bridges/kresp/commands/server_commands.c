/* The commands about the server: INFO, CONFIG, and answers to what has no meaning here but is asked
 * for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/text/parse.h"
#include "common/time/clock.h"
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/keyspace_events.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_error.h"
#include "bridges/kresp/session/transaction_run.h"
#include "bridges/kresp/protocol/decimal.h"
#include "common/text/glob.h"

bool answer_ok(struct redis_job *job)
{
    reply_ok(redis_job_reply(job));
    return true;
}

bool answer_zero(struct redis_job *job)
{
    reply_integer(redis_job_reply(job), 0);
    return true;
}

/* There is no slow log, so the reply is an empty list, however many entries are asked for. */
bool answer_slowlog_get(struct redis_job *job)
{
    int64_t count = -1;
    if (job->count > 3)
        redis_job_fail(job,
                       "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try "
                       "SLOWLOG HELP.",
                       (int)job->arguments[1].size, (const char *)job->arguments[1].data);
    else if (job->count == 3 && (!decimal_parse(job->arguments[2], &count) || count < -1))
        redis_job_fail(job, "ERR count should be greater than or equal to -1");
    else
        reply_array(redis_job_reply(job), 0);
    return true;
}

bool answer_empty_array(struct redis_job *job)
{
    reply_array(redis_job_reply(job), 0);
    return true;
}

bool answer_time(struct redis_job *job)
{
    struct timespec now;
    char text[INTEGER_BYTES];
    clock_gettime(CLOCK_REALTIME, &now);
    reply_array(redis_job_reply(job), 2);
    reply_bulk(redis_job_reply(job), kv_slice(text, format_i64(now.tv_sec, text)));
    reply_bulk(redis_job_reply(job), kv_slice(text, format_i64(now.tv_nsec / 1000, text)));
    return true;
}

/* WAIT, WAITAOF: there are no replicas; what was written before is on disk when they reply.
 * ----- */

static bool sync_store(struct redis_job *job)
{
    int64_t number, timeout_ms;
    for (size_t i = 1; i + 1 < job->count; i++)
        if (!redis_argument_integer(job, i, &number))
            return false;
    if (!decimal_parse(job->arguments[job->count - 1], &timeout_ms)) {
        redis_job_fail(job, "ERR timeout is not an integer or out of range");
        return false;
    }
    if (timeout_ms < 0) {
        redis_job_fail(job, "ERR timeout is negative");
        return false;
    }
    enum kv_status status = redis_store_sync(job->session->service->store);
    if (status == KV_OK)
        return true;
    reply_status(redis_job_reply(job), status);
    return false;
}

bool answer_wait(struct redis_job *job)
{
    if (sync_store(job))
        reply_integer(redis_job_reply(job), 0);
    return true;
}

bool answer_waitaof(struct redis_job *job)
{
    if (!sync_store(job))
        return true;
    reply_array(redis_job_reply(job), 2);
    reply_integer(redis_job_reply(job), 1);
    reply_integer(redis_job_reply(job), 0);
    return true;
}

/* SAVE, BGSAVE: what was written before is on disk when they reply. */
bool answer_save(struct redis_job *job)
{
    struct redis_service *service = job->session->service;
    bool in_background = job->command->name[0] == 'b';
    if (job->count > 2 || (job->count == 2 && !redis_argument_is(job, 1, "SCHEDULE"))) {
        redis_job_fail(job, "ERR syntax error");
        return true;
    }
    enum kv_status status = redis_store_sync(service->store);
    if (status == KV_OK)
        atomic_store(&service->saved_ms, clock_realtime_ms());
    if (status != KV_OK)
        reply_status(redis_job_reply(job), status);
    else
        reply_simple(redis_job_reply(job), in_background ? "Background saving started" : "OK");
    return true;
}

bool answer_lastsave(struct redis_job *job)
{
    reply_integer(redis_job_reply(job),
                  (int64_t)(atomic_load(&job->session->service->saved_ms) / 1000));
    return true;
}

/* A master without replicas. */
bool answer_role(struct redis_job *job)
{
    reply_array(redis_job_reply(job), 3);
    reply_bulk_text(redis_job_reply(job), "master");
    reply_integer(redis_job_reply(job), 0);
    reply_array(redis_job_reply(job), 0);
    return true;
}

/* INFO ----------------------------------------------------------------------------------------- */

/* What the sections of INFO report. */
struct info_facts {
    struct redis_service *service;
    struct redis_store_figures figures;
    enum kv_status status; /* what asking the server for its figures came to */
};

static void info_server(FILE *out, const struct info_facts *facts)
{
    uint64_t uptime_s = (clock_realtime_ms() - facts->service->start_ms) / 1000;
    fprintf(out,
            "redis_version:%s\r\nredis_mode:standalone\r\nkresp_version:%s\r\nos:Linux\r\n"
            "arch_bits:%zu\r\nmultiplexing_api:epoll\r\nprocess_id:%ld\r\ntcp_port:%" PRIu64
            "\r\nuptime_in_seconds:%" PRIu64 "\r\nuptime_in_days:%" PRIu64 "\r\nunix_socket:%s\r\n",
            REDIS_COMPATIBLE_VERSION, MQKV_VERSION, sizeof(void *) * 8, (long)getpid(),
            facts->service->port, uptime_s, uptime_s / 86400, facts->service->socket_path);
}

static void info_clients(FILE *out, const struct info_facts *facts)
{
    fprintf(out, "connected_clients:%" PRIu64 "\r\nmaxclients:%" PRIu64 "\r\nblocked_clients:0\r\n",
            redis_users_connections(&facts->service->users), facts->service->users.max_connections);
    fprintf(out, "tracking_clients:%zu\r\n",
            tracking_table_count(&facts->service->tracking).clients);
}

static void info_memory(FILE *out, const struct info_facts *facts)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    fprintf(out,
            "used_memory:%" PRIu64 "\r\nused_memory_rss:%ld\r\nmaxmemory:0\r\n"
            "maxmemory_policy:noeviction\r\nkresp_buffer_bytes:%zu\r\n",
            facts->figures.bytes, usage.ru_maxrss * 1024, byte_buffer_total());
}

static void info_persistence(FILE *out, const struct info_facts *facts)
{
    fprintf(out,
            "loading:%d\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\n"
            "rdb_bgsave_in_progress:0\r\nrdb_last_bgsave_status:ok\r\naof_enabled:0\r\n"
            "aof_rewrite_in_progress:0\r\n",
            facts->status != KV_OK);
}

static void info_stats(FILE *out, const struct info_facts *facts)
{
    struct redis_service *service = facts->service;
    fprintf(out,
            "total_connections_received:%" PRIu64 "\r\ntotal_commands_processed:%" PRIu64
            "\r\nrejected_connections:%" PRIu64 "\r\nexpired_keys:0\r\nevicted_keys:0\r\n"
            "keyspace_hits:%" PRIu64 "\r\nkeyspace_misses:%" PRIu64
            "\r\npubsub_channels:%zu\r\npubsub_patterns:%zu\r\n",
            atomic_load(&service->connections), atomic_load(&service->commands),
            atomic_load(&service->refused), atomic_load(&service->hits),
            atomic_load(&service->misses), redis_channels_count(&service->channels, REDIS_CHANNEL),
            redis_channels_count(&service->channels, REDIS_PATTERN));
    struct tracking_counts counts = tracking_table_count(&service->tracking);
    fprintf(out,
            "tracking_total_keys:%zu\r\ntracking_total_items:%zu\r\n"
            "tracking_total_prefixes:%zu\r\n",
            counts.keys, counts.reads, counts.prefixes);
}

static void info_replication(FILE *out, const struct info_facts *facts)
{
    (void)facts;
    fprintf(out, "role:master\r\nconnected_slaves:0\r\n");
}

static void info_cpu(FILE *out, const struct info_facts *facts)
{
    struct rusage usage;
    (void)facts;
    getrusage(RUSAGE_SELF, &usage);
    fprintf(out, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n",
            (long)usage.ru_stime.tv_sec, (long)usage.ru_stime.tv_usec, (long)usage.ru_utime.tv_sec,
            (long)usage.ru_utime.tv_usec);
}

static void info_cluster(FILE *out, const struct info_facts *facts)
{
    (void)facts;
    fprintf(out, "cluster_enabled:0\r\n");
}

/* Writes what a user of Redis must know of this store. */
static void info_mqkv(FILE *out, const struct info_facts *facts)
{
    fprintf(out,
            "mqkv_multi:transaction\r\nmqkv_datafiles:%" PRIu64
            "\r\nmqkv_max_value_bytes:%zu\r\nmqkv_threads:%" PRIu64 "\r\n",
            facts->figures.files, redis_store_max_value_bytes(facts->service->store),
            facts->service->threads);
}

static void info_keyspace(FILE *out, const struct info_facts *facts)
{
    if (facts->figures.keys > 0)
        fprintf(out, "db0:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0\r\n", facts->figures.keys,
                facts->figures.expiring_keys);
}

static const struct {
    const char *name;
    void (*print)(FILE *out, const struct info_facts *facts);
} info_sections[] = {
    {"Server", info_server}, {"Clients", info_clients},
    {"Memory", info_memory}, {"Persistence", info_persistence},
    {"Stats", info_stats},   {"Replication", info_replication},
    {"CPU", info_cpu},       {"Cluster", info_cluster},
    {"Mqkv", info_mqkv},     {"Keyspace", info_keyspace},
};

static bool wants_section(const struct redis_job *job, const char *name)
{
    static const char *const all[] = {"all", "everything", "default"};
    if (job->count == 1)
        return true;
    for (size_t i = 1; i < job->count; i++) {
        if (redis_argument_is(job, i, name))
            return true;
        for (size_t word = 0; word < sizeof all / sizeof all[0]; word++)
            if (redis_argument_is(job, i, all[word]))
                return true;
    }
    return false;
}

bool answer_info(struct redis_job *job)
{
    struct info_facts facts = {.service = job->session->service};
    char *text = NULL;
    size_t size = 0, sections = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        reply_status(redis_job_reply(job), KV_NO_MEMORY);
        return true;
    }
    facts.status = redis_transaction_count_store(job, &facts.figures);
    for (size_t i = 0; i < sizeof info_sections / sizeof info_sections[0]; i++) {
        if (!wants_section(job, info_sections[i].name))
            continue;
        fprintf(out, "%s# %s\r\n", sections++ > 0 ? "\r\n" : "", info_sections[i].name);
        info_sections[i].print(out, &facts);
    }
    fclose(out);
    reply_verbatim(redis_job_reply(job), kv_slice(text, size));
    free(text);
    return true;
}

/* CONFIG --------------------------------------------------------------------------------------- */

enum { CONFIG_VALUE_BYTES = 128 };

#define NOTIFY_NAME "notify-keyspace-events"

/* Settings that clients and tools ask for. value NULL: one of the numbers below. */
static const struct config_row {
    const char *name;
    const char *value;
} config_rows[] = {
    {"appendfsync", "everysec"},
    {"appendonly", "no"},
    {"bind", "127.0.0.1"},
    {"client-output-buffer-limit", "normal 0 0 0 slave 0 0 0 pubsub 33554432 0 0"},
    {"databases", "1"},
    {"maxclients", NULL},
    {"maxmemory", "0"},
    {"maxmemory-policy", "noeviction"},
    {NOTIFY_NAME, NULL},
    {"port", NULL},
    {"proto-max-bulk-len", NULL},
    {"save", ""},
    {"timeout", "0"},
    {"unixsocket", NULL},
};

static const char *config_value(const struct redis_service *service, const struct config_row *row,
                                char out[CONFIG_VALUE_BYTES])
{
    if (row->value)
        return row->value;
    if (strcmp(row->name, "unixsocket") == 0)
        return service->socket_path;
    if (strcmp(row->name, NOTIFY_NAME) == 0) {
        keyspace_events_write(service->link ? channel_link_events(service->link) : 0, out);
        return out;
    }
    uint64_t number = redis_store_max_value_bytes(service->store);
    if (strcmp(row->name, "maxclients") == 0)
        number = service->users.max_connections;
    else if (strcmp(row->name, "port") == 0)
        number = service->port;
    snprintf(out, CONFIG_VALUE_BYTES, "%" PRIu64, number);
    return out;
}

#define CONFIG_ROWS (sizeof config_rows / sizeof config_rows[0])

/* Finds the rows that one of the patterns names. False: the job has failed. */
static bool find_rows(struct redis_job *job, bool wanted[CONFIG_ROWS], size_t *count)
{
    uint64_t steps = glob_steps(0);
    *count = 0;
    for (size_t row = 0; row < CONFIG_ROWS; row++) {
        wanted[row] = false;
        for (size_t i = 2; i < job->count && !wanted[row] && steps > 0; i++)
            wanted[row] = glob_matches(job->arguments[i],
                                       kv_slice_from_string(config_rows[row].name), true, &steps);
        *count += wanted[row];
    }
    if (steps == 0)
        redis_job_fail(job, "ERR kresp: these patterns are too long");
    return steps > 0;
}

bool answer_config_get(struct redis_job *job)
{
    char number[CONFIG_VALUE_BYTES];
    bool wanted[CONFIG_ROWS];
    size_t count;
    if (!find_rows(job, wanted, &count))
        return true;
    reply_map(redis_job_reply(job), count);
    for (size_t row = 0; row < CONFIG_ROWS; row++) {
        if (!wanted[row])
            continue;
        reply_bulk_text(redis_job_reply(job), config_rows[row].name);
        reply_bulk_text(redis_job_reply(job),
                        config_value(job->session->service, &config_rows[row], number));
    }
    return true;
}

static const struct config_row *find_row(const struct redis_job *job, size_t i)
{
    for (size_t row = 0; row < CONFIG_ROWS; row++)
        if (redis_argument_is(job, i, config_rows[row].name))
            return &config_rows[row];
    return NULL;
}

static void fail_events(struct redis_job *job, const char *why)
{
    redis_job_fail(
        job, "ERR CONFIG SET failed (possibly related to argument '" NOTIFY_NAME "') - %s", why);
}

/* Changes what clients are told of changed keys. False: that is not done yet, and the job goes on
 * when the link has answered. In a transaction nobody waits for it. number: the request. */
static bool set_events(struct redis_job *job, unsigned events)
{
    struct channel_link *link = job->session->service->link;
    struct kv_error error;
    if (job->phase == 0)
        job->number = channel_link_ask_events(link, events);
    job->phase = 1;
    if (job->run)
        return true;
    redis_subscriber_await(&job->session->subscriber);
    enum link_answer answer = channel_link_answer(link, job->number, &error);
    job->session->is_waiting = answer == LINK_IS_BUSY;
    if (answer == LINK_REFUSES)
        fail_events(job, error.text);
    return answer != LINK_IS_BUSY;
}

/* No other setting can be changed; setting one to the value that it has succeeds. */
bool answer_config_set(struct redis_job *job)
{
    char number[CONFIG_VALUE_BYTES];
    unsigned events = 0;
    bool sets_events = false;
    if (job->count % 2 == 1) {
        redis_job_fail(job, "ERR syntax error");
        return true;
    }
    for (size_t i = 2; i < job->count; i += 2) {
        const struct config_row *row = find_row(job, i);
        const char *value = row ? config_value(job->session->service, row, number) : NULL;
        if (row && strcmp(row->name, NOTIFY_NAME) == 0 && job->session->service->link) {
            sets_events = true;
            if (keyspace_events_parse(job->arguments[i + 1], &events))
                continue;
            fail_events(job, KEYSPACE_EVENTS_INVALID);
            return true;
        }
        if (value && redis_argument_is(job, i + 1, value))
            continue;
        redis_job_fail(job,
                       row ? "ERR CONFIG SET failed (possibly related to argument '%.*s') - can't "
                             "set immutable config"
                           : "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'",
                       (int)job->arguments[i].size, (const char *)job->arguments[i].data);
        return true;
    }
    if (sets_events && !set_events(job, events))
        return false;
    if (!job->error)
        reply_ok(redis_job_reply(job));
    return true;
}
