#include "serverk/daemon/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "common/text/parse.h"
#include "serverk/daemon/json_writer.h"
#include "serverk/session/audit.h"

/* The longest argument of a command, in bytes. */
#define MAX_ARGUMENT_BYTES 4096u

/* A command under way. */
struct admin_command {
    struct admin *admin;
    struct session *session;
    char argument[MAX_ARGUMENT_BYTES + 1];
    FILE *out; /* the answer */
};

typedef enum kv_status (*admin_function)(struct admin_command *command, struct kv_error *error);

/* Commands ------------------------------------------------------------------------------------- */

static struct request_notes *notes_of(const struct admin_command *command)
{
    return command->admin->stats->service->notes;
}

struct wanted_session {
    struct session_table *sessions;
    uint32_t id;
    bool found;
    pid_t pid;
    uid_t uid;
};

static bool kill_if_wanted(void *context, struct session *session)
{
    struct wanted_session *wanted = context;
    if (session->id != wanted->id)
        return true;
    wanted->found = true;
    wanted->pid = session->pid;
    wanted->uid = session->uid;
    session_end(wanted->sessions, session, SESSION_KILLED);
    return false;
}

/* The argument is the name of a setting, or empty for all. */
static enum kv_status config_get(struct admin_command *command, struct kv_error *error)
{
    const char *name = command->argument[0] ? command->argument : NULL;
    return reload_print(command->admin->reload, name, command->out, error);
}

/* The argument is "NAME VALUE". */
static enum kv_status config_set(struct admin_command *command, struct kv_error *error)
{
    char *value = strchr(command->argument, ' ');
    if (!value)
        return kv_error_set(error, KV_USAGE, "config set needs a name and a value");
    *value++ = '\0';
    return reload_set(command->admin->reload, command->argument, value, error);
}

static enum kv_status config_reload(struct admin_command *command, struct kv_error *error)
{
    if (!command->admin->stats->service->options->config)
        return kv_error_set(error, KV_USAGE,
                            "there is no configuration file to read again: serverk was started "
                            "without -c; settings stay as they are (clientk config set)");
    return reload_all(command->admin->reload, error);
}

/* The argument is a session's number. */
static enum kv_status kill_session(struct admin_command *command, struct kv_error *error)
{
    struct session_table *sessions = command->admin->stats->service->sessions;
    struct wanted_session wanted = {.sessions = sessions};
    uint64_t number;
    if (!parse_u64(command->argument, 1, UINT32_MAX, &number))
        return kv_error_set(error, KV_USAGE, "'%.40s' is no session", command->argument);
    if (number == command->session->id)
        return kv_error_set(error, KV_USAGE, "that is the session of this command itself");
    wanted.id = (uint32_t)number;
    session_each(sessions, kill_if_wanted, &wanted);
    if (!wanted.found)
        return kv_error_set(error, KV_NOT_FOUND, "there is no session %" PRIu64, number);
    log_info("session %" PRIu64 " of process %ld, uid %lu: ended by clientk kill", number,
             (long)wanted.pid, (unsigned long)wanted.uid);
    return KV_OK;
}

static void put_time(struct json *json, uint64_t time_ms)
{
    char text[32];
    time_t second = (time_t)(time_ms / 1000);
    struct tm utc;
    size_t size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime_r(&second, &utc));
    snprintf(text + size, sizeof text - size, ".%03uZ", (unsigned)(time_ms % 1000));
    json_put_text(json, "time", text);
}

static void put_slow(struct json *json, const struct slow_request *slow)
{
    json_begin_element(json);
    json_open_object(json);
    put_time(json, slow->time_ms);
    json_put_us(json, "work_us", (double)slow->work_ns);
    json_put_us(json, "lock_wait_us", (double)slow->lock_wait_ns);
    json_put_text(json, "operation", statistics_operation_name(slow->opcode));
    json_put_number(json, "operations", slow->operations);
    json_put_number(json, "session", slow->session);
    json_put_number(json, "uid", slow->uid);
    json_put_number(json, "pid", (uint64_t)slow->pid);
    json_put_number(json, "key_bytes", slow->key_bytes);
    json_put_bytes(json, "key", slow_request_key(slow));
    json_close_object(json);
}

/* Lists slow requests, the latest first. */
static enum kv_status list_slow(struct admin_command *command, struct kv_error *error)
{
    struct json json = {.stream = command->out};
    uint64_t noted;
    struct slow_request *slow = calloc(SLOW_LOG_ENTRIES, sizeof *slow);
    if (!slow)
        return kv_error_set(error, KV_NO_MEMORY, "the server has no memory for the answer");
    unsigned count = slow_log_take(notes_of(command)->slow_log, slow, &noted);
    json_open_array(&json);
    for (unsigned i = 0; i < count; i++)
        put_slow(&json, &slow[i]);
    json_close_array(&json);
    free(slow);
    return KV_OK;
}

static enum kv_status clear_slow(struct admin_command *command, struct kv_error *error)
{
    (void)error;
    slow_log_clear(notes_of(command)->slow_log);
    return KV_OK;
}

/* The argument is a number of milliseconds. */
static enum kv_status begin_hot(struct admin_command *command, struct kv_error *error)
{
    uint64_t ms;
    if (!parse_u64(command->argument, 1, HOT_KEYS_LONGEST_MS, &ms))
        return kv_error_set(error, KV_USAGE, "'%.40s' is not 1 to %u milliseconds",
                            command->argument, HOT_KEYS_LONGEST_MS);
    request_notes_begin_hot(notes_of(command), ms);
    return KV_OK;
}

/* The argument is the number of keys that are wanted at most. */
static enum kv_status list_hot(struct admin_command *command, struct kv_error *error)
{
    struct json json = {.stream = command->out};
    uint64_t limit, seen;
    if (!parse_u64(command->argument, 1, UINT32_MAX, &limit))
        return kv_error_set(error, KV_USAGE, "'%.40s' is no number of keys", command->argument);
    struct hot_key *keys = calloc(HOT_KEYS, sizeof *keys);
    if (!keys)
        return kv_error_set(error, KV_NO_MEMORY, "the server has no memory for the answer");
    unsigned count = hot_keys_take(notes_of(command)->hot_keys, keys, &seen);
    json_open_object(&json);
    json_put_number(&json, "seen", seen);
    json_begin_member(&json, "keys");
    json_open_array(&json);
    for (unsigned i = 0; i < count && i < limit; i++) {
        json_begin_element(&json);
        json_open_object(&json);
        json_put_number(&json, "count", keys[i].count);
        json_put_number(&json, "error", keys[i].error);
        json_begin_member(&json, "share");
        fprintf(command->out, "%.4f", (double)keys[i].count / (double)seen);
        json_put_number(&json, "key_bytes", keys[i].key_bytes);
        json_put_bytes(&json, "key", hot_key_text(&keys[i]));
        json_close_object(&json);
    }
    json_close_array(&json);
    json_close_object(&json);
    free(keys);
    return KV_OK;
}

/* Queues all data files with dead bytes, and does not wait. */
static enum kv_status compact(struct admin_command *command, struct kv_error *error)
{
    struct kvstore *store = command->admin->stats->service->store;
    uint32_t queued = 0;
    if (!store)
        return kv_error_set(error, KV_UNSUPPORTED, "the data are not in files of this server");
    for (uint32_t file = 0; file < kvstore_datafiles(store); file++) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(store, file, &statistics);
        bool has_nothing_dead = statistics.dead_bytes == 0 && statistics.stale_ms == 0;
        if (has_nothing_dead || statistics.read_only)
            continue;
        kvstore_request_compaction(store, file);
        queued++;
    }
    log_info("compaction of %u data files was asked for: clientk compact", queued);
    fprintf(command->out, "{\"queued\":%u}", queued);
    return KV_OK;
}

static const struct admin_entry {
    const char *name;
    admin_function run;
    bool waits; /* it may have to: for a data file, a disk, or a reload that does */
} admin_commands[] = {
    {"compact", compact, true},        {"config-get", config_get, true},
    {"config-set", config_set, true},  {"config-reload", config_reload, true},
    {"kill", kill_session, false},     {"slow", list_slow, false},
    {"slow-clear", clear_slow, false}, {"hot-begin", begin_hot, false},
    {"hot-keys", list_hot, false},
};

/* Running them --------------------------------------------------------------------------------- */

static const struct admin_entry *find_admin_entry(struct kv_slice name)
{
    for (size_t i = 0; i < sizeof admin_commands / sizeof admin_commands[0]; i++)
        if (kv_slice_equal(name, kv_slice_from_string(admin_commands[i].name)))
            return &admin_commands[i];
    return NULL;
}

bool admin_waits(struct kv_slice name)
{
    const struct admin_entry *entry = find_admin_entry(name);
    return entry && entry->waits;
}

static bool take_argument(struct admin_command *command, struct kv_slice argument)
{
    if (argument.size > MAX_ARGUMENT_BYTES || memchr(argument.data, '\0', argument.size))
        return false;
    memcpy(command->argument, argument.data, argument.size);
    return strlen(command->argument) == argument.size; /* a segment changes under our hands */
}

static enum kv_status run_admin_entry(struct admin *admin, const struct admin_call *call, FILE *out,
                                      struct kv_error *error)
{
    struct admin_command command = {.admin = admin, .session = call->session, .out = out};
    uid_t uid = call->session->uid;
    const struct admin_entry *entry = find_admin_entry(call->command);
    if (uid != geteuid() && uid != 0)
        return kv_error_set(error, KV_DENIED,
                            "that is for the server's own user (uid %lu) and root, not for uid %lu",
                            (unsigned long)geteuid(), (unsigned long)uid);
    if (!entry)
        return kv_error_set(error, KV_NOT_FOUND, "the server knows no such command");
    if (!take_argument(&command, call->argument))
        return kv_error_set(error, KV_USAGE, "the argument has a NUL, or more than %u bytes",
                            MAX_ARGUMENT_BYTES);
    char name[32], argument[MAX_ARGUMENT_BYTES + 1];
    snprintf(name, sizeof name, "%.*s", (int)call->command.size, (const char *)call->command.data);
    memcpy(argument, command.argument, sizeof argument); /* the command may cut its own up */
    enum kv_status status = entry->run(&command, error);
    audit_command(call->session->id, uid, call->session->pid, name, argument, status);
    return status;
}

enum kv_status admin_run(void *admin, struct admin_call *call)
{
    struct kv_error error = {0};
    FILE *out = open_memstream(&call->text, &call->size);
    if (!out)
        return KV_NO_MEMORY;
    enum kv_status status = run_admin_entry(admin, call, out, &error);
    if (fclose(out) != 0)
        status = kv_error_set(&error, KV_NO_MEMORY, "the server has no memory for the answer");
    if (status != KV_OK) { /* the sentence takes the place of the answer */
        free(call->text);
        call->text = strdup(error.text);
        call->size = call->text ? strlen(call->text) : 0;
    }
    return status;
}
