/* COMMAND: the table of commands, as it describes itself. */
#include <ctype.h>

#include "bridges/kresp/commands/command_functions.h"
#include "common/text/glob.h"
#include "bridges/kresp/session/redis_command.h"

/* Returns true if the row is a command, not a second word of one. */
static bool is_command(const struct redis_command *command)
{
    return strchr(command->name, '|') == NULL;
}

static void reply_flags(struct resp_reply *reply, unsigned flags)
{
    static const struct {
        unsigned flag;
        const char *name;
    } names[] = {{COMMAND_WRITE, "write"},
                 {COMMAND_READ, "readonly"},
                 {COMMAND_FAST, "fast"},
                 {COMMAND_NO_AUTH, "no_auth"},
                 {COMMAND_COUNTED_KEYS, "movablekeys"}};
    size_t count = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        count += (flags & names[i].flag) != 0;
    reply_set(reply, count);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (flags & names[i].flag)
            reply_simple(reply, names[i].name);
}

/* Replies the ten fields of Redis 7; what kresp does not know is empty. */
static void reply_command(struct resp_reply *reply, const struct redis_command *command)
{
    reply_array(reply, 10);
    reply_bulk_text(reply, command->name);
    reply_integer(reply, command->arity);
    reply_flags(reply, command->flags);
    bool counted = (command->flags & COMMAND_COUNTED_KEYS) != 0;
    reply_integer(reply, counted ? 0 : command->first_key);
    reply_integer(reply, counted ? 0 : command->last_key);
    reply_integer(reply, counted ? 0 : command->key_step);
    reply_set(reply, 0);
    for (unsigned i = 0; i < 3; i++)
        reply_array(reply, 0);
}

static size_t count_commands(void)
{
    size_t count = 0;
    for (size_t i = 0; i < redis_command_count; i++)
        count += is_command(&redis_commands[i]);
    return count;
}

bool answer_command(struct redis_job *job)
{
    reply_array(redis_job_reply(job), count_commands());
    for (size_t i = 0; i < redis_command_count; i++)
        if (is_command(&redis_commands[i]))
            reply_command(redis_job_reply(job), &redis_commands[i]);
    return true;
}

bool answer_command_count(struct redis_job *job)
{
    reply_integer(redis_job_reply(job), (int64_t)count_commands());
    return true;
}

/* There are no docs. To be asked for all of them is an error: redis-cli then uses the help that it
 * brings along, and after an empty list it would have none. */
bool answer_command_docs(struct redis_job *job)
{
    if (job->count == 2)
        redis_job_fail(job, "ERR kresp: there are no COMMAND DOCS");
    else
        reply_map(redis_job_reply(job), 0);
    return true;
}

bool answer_command_info(struct redis_job *job)
{
    if (job->count == 2)
        return answer_command(job);
    reply_array(redis_job_reply(job), job->count - 2);
    for (size_t i = 2; i < job->count; i++) {
        const struct redis_command *found = NULL;
        for (size_t row = 0; row < redis_command_count && !found; row++)
            if (is_command(&redis_commands[row]) &&
                redis_argument_is(job, i, redis_commands[row].name))
                found = &redis_commands[row];
        if (found)
            reply_command(redis_job_reply(job), found);
        else
            reply_null(redis_job_reply(job));
    }
    return true;
}

/* COMMAND LIST FILTERBY PATTERN pattern: matches second words too, as Redis does. */
static void list_matching(struct redis_job *job, struct kv_slice pattern)
{
    uint64_t steps = glob_steps(0);
    struct resp_reply names = {.bytes.owner = job->owner, .protocol = 2};
    size_t count = 0;
    for (size_t i = 0; i < redis_command_count && steps > 0; i++)
        if (glob_matches(pattern, kv_slice_from_string(redis_commands[i].name), true, &steps)) {
            reply_bulk_text(&names, redis_commands[i].name);
            count++;
        }
    if (steps == 0) {
        redis_job_fail(job, "ERR kresp: this pattern is too long");
    } else {
        reply_array(redis_job_reply(job), count);
        byte_buffer_append(&redis_job_reply(job)->bytes, names.bytes.data + names.bytes.start,
                           byte_buffer_size(&names.bytes));
    }
    byte_buffer_free(&names.bytes);
}

bool answer_command_list(struct redis_job *job)
{
    if (job->count == 5 && redis_argument_is(job, 2, "FILTERBY")) {
        /* There are no modules, and commands have no categories here. */
        if (redis_argument_is(job, 3, "PATTERN"))
            list_matching(job, job->arguments[4]);
        else if (redis_argument_is(job, 3, "MODULE"))
            reply_array(redis_job_reply(job), 0);
        else if (redis_argument_is(job, 3, "ACLCAT"))
            redis_job_fail(job, "ERR kresp: there are no categories of commands");
        else
            redis_job_fail(job, "ERR syntax error");
        return true;
    }
    if (job->count != 2) {
        redis_job_fail(job, "ERR syntax error");
        return true;
    }
    reply_array(redis_job_reply(job), count_commands());
    for (size_t i = 0; i < redis_command_count; i++)
        if (is_command(&redis_commands[i]))
            reply_bulk_text(redis_job_reply(job), redis_commands[i].name);
    return true;
}

/* COMMAND GETKEYS command argument... */
bool answer_command_getkeys(struct redis_job *job)
{
    const struct kv_slice *arguments = job->arguments + 2;
    size_t count = job->count - 2;
    const struct redis_command *command = redis_command_of(arguments, count);
    struct command_keys keys = {0};
    if (!command)
        redis_job_fail(job, "ERR Invalid command specified");
    else if (command->first_key == 0)
        redis_job_fail(job, "ERR The command has no key arguments");
    else if (!redis_command_has_arity(command, count))
        redis_job_fail(job, "ERR Invalid number of arguments specified for command");
    else if (!redis_command_keys(command, arguments, count, &keys))
        keys.count = 0;
    if (job->error)
        return true;
    reply_array(redis_job_reply(job), keys.count);
    for (size_t i = 0; i < keys.count; i++)
        reply_bulk(redis_job_reply(job), arguments[keys.first + i * keys.step]);
    return true;
}

/* HELP of a command of two words: the second words that it has here, from the table. */
bool answer_help(struct redis_job *job)
{
    char name[64];
    size_t prefix = (size_t)(strchr(job->command->name, '|') + 1 - job->command->name);
    size_t lines = 1;
    for (size_t i = 0; i < redis_command_count; i++)
        lines += strncmp(redis_commands[i].name, job->command->name, prefix) == 0;
    reply_array(redis_job_reply(job), lines);
    reply_simple(redis_job_reply(job), "What kresp has of it (more: the page kresp(1)):");
    for (size_t i = 0; i < redis_command_count; i++) {
        if (strncmp(redis_commands[i].name, job->command->name, prefix) != 0)
            continue;
        size_t size = strlen(redis_commands[i].name);
        for (size_t at = 0; at <= size; at++)
            name[at] = (char)toupper((unsigned char)redis_commands[i].name[at]);
        name[prefix - 1] = ' ';
        reply_simple(redis_job_reply(job), name);
    }
    return true;
}
