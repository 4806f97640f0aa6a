#include "bridges/kresp/session/redis_command.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>

#include "common/report/log.h"
#include "bridges/kresp/protocol/decimal.h"
#include "bridges/kresp/session/log_once.h"

/* Looking up ----------------------------------------------------------------------------------- */

#define SLOTS          512u /* a power of two, about four times the number of commands */
#define MAX_NAME_BYTES 32u

static const struct redis_command *slots[SLOTS];

/* Commands of one word of up to 8 letters, by those letters in lower case as one number: nearly all
 * that clients send. */
#define SHORT_SLOTS 256u
#define SHORT_BYTES 8u

static struct short_name {
    uint64_t letters;
    const struct redis_command *command;
} short_names[SHORT_SLOTS];

static unsigned short_slot(uint64_t letters)
{
    return (unsigned)(letters * 0x9e3779b97f4a7c15u >> 56);
}

/* Returns the number of a name of 1 to 8 bytes. The bit that makes letters small makes no letter of
 * anything else, so that equal numbers are equal names. */
static uint64_t short_letters(const char *name, size_t size)
{
    uint64_t letters = 0;
    for (size_t i = 0; i < size; i++)
        letters = letters << 8 | (unsigned char)name[i] | 0x20;
    return letters;
}

static void add_short(const struct redis_command *command)
{
    size_t size = strlen(command->name);
    if (size > SHORT_BYTES || strchr(command->name, '|'))
        return;
    uint64_t letters = short_letters(command->name, size);
    unsigned slot = short_slot(letters);
    while (short_names[slot].command && short_names[slot].letters != letters)
        slot = (slot + 1) % SHORT_SLOTS;
    short_names[slot] = (struct short_name){letters, command};
}

static const struct redis_command *look_up_short(struct kv_slice name)
{
    if (name.size == 0 || name.size > SHORT_BYTES)
        return NULL;
    uint64_t letters = short_letters(name.data, name.size);
    for (unsigned slot = short_slot(letters); short_names[slot].command;
         slot = (slot + 1) % SHORT_SLOTS)
        if (short_names[slot].letters == letters)
            return short_names[slot].command;
    return NULL;
}

/* Returns a hash of `name` in lower case. */
static unsigned hash(const char *name, size_t size)
{
    unsigned sum = (unsigned)size;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + (unsigned char)name[i];
    return (sum ^ sum >> 9) % SLOTS;
}

void redis_command_init(void)
{
    for (size_t i = 0; i < redis_command_count; i++) {
        unsigned slot = hash(redis_commands[i].name, strlen(redis_commands[i].name));
        while (slots[slot] && slots[slot] != &redis_commands[i])
            slot = (slot + 1) % SLOTS;
        slots[slot] = &redis_commands[i];
        add_short(&redis_commands[i]);
    }
}

static const struct redis_command *look_up(const char *name, size_t size)
{
    for (unsigned slot = hash(name, size); slots[slot]; slot = (slot + 1) % SLOTS)
        if (strncmp(slots[slot]->name, name, size) == 0 && slots[slot]->name[size] == '\0')
            return slots[slot];
    return NULL;
}

/* Appends the word in lower case; false: it is too long for a name. */
static bool add_name_word(char name[MAX_NAME_BYTES], size_t *size, struct kv_slice word)
{
    const char *bytes = word.data;
    if (word.size >= MAX_NAME_BYTES - *size || memchr(bytes, '|', word.size))
        return false;
    for (size_t i = 0; i < word.size; i++)
        name[(*size)++] = (char)tolower((unsigned char)bytes[i]);
    return true;
}

/* Returns the row of the name, and of the second word if that decides; NULL: there is none. *first:
 * the row of the name alone. */
static const struct redis_command *look_up_both(const struct kv_slice *arguments, size_t count,
                                                const struct redis_command **first)
{
    char name[MAX_NAME_BYTES];
    size_t size = 0;
    *first = add_name_word(name, &size, arguments[0]) ? look_up(name, size) : NULL;
    if (!*first || !((*first)->flags & COMMAND_CONTAINER) || count == 1)
        return *first;
    name[size++] = '|';
    return add_name_word(name, &size, arguments[1]) ? look_up(name, size) : NULL;
}

const struct redis_command *redis_command_of(const struct kv_slice *arguments, size_t count)
{
    const struct redis_command *first;
    return look_up_both(arguments, count, &first);
}

/* What cannot be executed ---------------------------------------------------------------------- */

/* Logs each unknown name once. */
static void log_unknown(struct kv_slice name)
{
    static struct log_once seen = LOG_ONCE_EMPTY;
    char copy[MAX_NAME_BYTES] = "";
    const char *bytes = name.data;
    for (size_t i = 0; i < name.size && i < MAX_NAME_BYTES - 1; i++)
        copy[i] = (char)(isgraph((unsigned char)bytes[i]) ? tolower((unsigned char)bytes[i]) : '?');
    if (log_once_is_new(&seen, copy))
        log_info("a client uses the command '%s', which does not exist here", copy);
}

/* Fails as Redis does: with the name and the first arguments, up to 128 bytes of them. */
static void fail_unknown_command(struct redis_job *job)
{
    char arguments[256] = "";
    size_t size = 0;
    for (size_t i = 1; i < job->count && size < 128; i++) {
        size_t left = 128 - size;
        struct kv_slice argument = job->arguments[i];
        size_t shown = strnlen(argument.data ? argument.data : "",
                               argument.size < left ? argument.size : left);
        arguments[size++] = '\'';
        memcpy(arguments + size, argument.data ? argument.data : "", shown);
        size += shown;
        memcpy(arguments + size, "' ", 3);
        size += 2;
    }
    log_unknown(job->arguments[0]);
    redis_job_fail(job, "ERR unknown command '%.*s', with args beginning with: %s",
                   (int)(job->arguments[0].size < 128 ? job->arguments[0].size : 128),
                   job->arguments[0].size > 0 ? (const char *)job->arguments[0].data : "",
                   arguments);
}

/* Returns true if the command is a line of HTTP: a web page can make a browser send such a request,
 * with commands in it, to a port of this host. As in Redis, kresp closes the connection at the
 * first line that no client of Redis sends. */
static bool is_http(const struct redis_job *job)
{
    return redis_argument_is(job, 0, "POST") || redis_argument_is(job, 0, "Host:");
}

static void fail_unknown_word(struct redis_job *job, const struct redis_command *container)
{
    char name[MAX_NAME_BYTES];
    size_t size = strlen(container->name);
    for (size_t i = 0; i <= size; i++)
        name[i] = (char)toupper((unsigned char)container->name[i]);
    redis_job_fail(job, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                   (int)(job->arguments[1].size < 128 ? job->arguments[1].size : 128),
                   job->arguments[1].size > 0 ? (const char *)job->arguments[1].data : "", name);
}

bool redis_command_has_arity(const struct redis_command *command, size_t count)
{
    return command->arity >= 0 ? count == (size_t)command->arity : count >= (size_t)-command->arity;
}

/* Returns the row of the command's name, and of its second word if that decides; NULL: the job has
 * failed. */
static const struct redis_command *look_up_words(struct redis_job *job)
{
    const struct redis_command *first;
    const struct redis_command *command = look_up_both(job->arguments, job->count, &first);
    if (!first && is_http(job)) {
        static atomic_bool logged;
        job->session->closing = true;
        redis_job_fail(job, "ERR kresp: HTTP is not spoken here");
        if (!atomic_exchange(&logged, true))
            log_warn("client %" PRIu64
                     ": closed: it speaks HTTP, as a web page may make a browser do "
                     "(said once)",
                     job->session->id);
    } else if (!first) {
        fail_unknown_command(job);
    } else if (!command) {
        fail_unknown_word(job, first);
    }
    return command;
}

void redis_command_find(struct redis_job *job)
{
    const struct redis_command *command = look_up_short(job->arguments[0]);
    if (!command || (command->flags & COMMAND_CONTAINER))
        command = look_up_words(job);
    if (!command)
        return;
    if (!redis_command_has_arity(command, job->count))
        redis_job_fail(job, "ERR wrong number of arguments for '%s' command", command->name);
    else if (!job->session->authenticated && !(command->flags & COMMAND_NO_AUTH))
        redis_job_fail(job, "NOAUTH Authentication required.");
    else if (redis_session_only_subscribes(job->session) && !(command->flags & COMMAND_SUBSCRIBED))
        redis_job_fail(job,
                       "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
                       "QUIT / RESET are allowed in this context",
                       command->name);
    else
        job->command = command;
}

/* Returns why a script may not call the command with so many arguments; NULL: it may. flags: of the
 * row of its first word. */
static const char *refuse_called(const struct redis_command *command, unsigned flags, size_t count)
{
    if (!redis_command_has_arity(command, count))
        return "ERR Wrong number of args calling Redis command from script";
    if (flags & (COMMAND_NO_SCRIPT | COMMAND_SCRIPT | COMMAND_NOT_QUEUED | COMMAND_NO_AUTH))
        return "ERR This Redis command is not allowed from script";
    if (command->flags & COMMAND_WHOLE_STORE)
        return "ERR kresp: a script cannot call commands about the whole store: it is a "
               "transaction, which is about keys that it names";
    return NULL;
}

enum called_command redis_command_find_called(const struct kv_slice *arguments, size_t count,
                                              const struct redis_command **command,
                                              const char **error)
{
    const struct redis_command *first;
    const struct redis_command *found = look_up_both(arguments, count, &first);
    if (!first)
        log_unknown(arguments[0]);
    unsigned flags = first ? first->flags : 0;
    *error =
        found ? refuse_called(found, flags, count) : "ERR Unknown Redis command called from script";
    *command = *error ? NULL : found;
    return !*error ? CALLED_OK : found ? CALLED_REFUSED : CALLED_UNKNOWN;
}

bool redis_command_keys(const struct redis_command *command, const struct kv_slice *arguments,
                        size_t count, struct command_keys *keys)
{
    if (command->first_key == 0)
        return false;
    *keys = (struct command_keys){.first = (size_t)command->first_key,
                                  .step = (size_t)command->key_step};
    if (command->flags & COMMAND_COUNTED_KEYS) {
        int64_t counted;
        if (!decimal_parse(arguments[keys->first - 1], &counted) || counted < 0 ||
            (uint64_t)counted > (count - keys->first) / keys->step)
            return false;
        keys->count = (size_t)counted;
        return true;
    }
    size_t last = command->last_key < 0 ? count - 1 : (size_t)command->last_key;
    keys->count = (last - keys->first) / keys->step + 1;
    return true;
}

bool redis_command_is_together(const struct redis_job *job)
{
    const struct redis_command *command = job->command;
    if (command->flags & COMMAND_SCRIPT)
        return true;
    if (!(command->flags & COMMAND_TOGETHER))
        return false;
    struct command_keys keys;
    return redis_command_keys(command, job->arguments, job->count, &keys) && keys.count > 1 &&
           keys.count <= CLIENTK_MAX_TRANSACTION_STEPS;
}

void redis_command_remember_reads(struct redis_session *session,
                                  const struct redis_command *command,
                                  const struct clientk_operation *operations, size_t count)
{
    if (!(command->flags & COMMAND_READ) || command->first_key == 0 ||
        !key_tracker_wants_reads(&session->tracker))
        return;
    for (size_t i = 0; i < count; i++)
        redis_session_remember(session, operations[i].key);
}

size_t redis_command_max_argument_bytes(const struct redis_service *service)
{
    const size_t max_key_bytes = 65535;
    size_t max_value_bytes = redis_store_max_value_bytes(service->store);
    return max_value_bytes > max_key_bytes ? max_value_bytes : max_key_bytes;
}
