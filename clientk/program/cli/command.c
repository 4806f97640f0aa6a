#include "clientk/program/cli/command.h"

#include <string.h>
#include <strings.h>

#include "clientk/program/cli/foreign.h"
#include "common/text/suggest.h"
#include "common/report/error.h"
#include "common/text/escape.h"

static const struct command *find_anywhere(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcasecmp(commands[i].name, name) == 0 ||
            (commands[i].alias && strcasecmp(commands[i].alias, name) == 0))
            return &commands[i];
    return NULL;
}

static void fail_unknown_name(const char *name, unsigned place, struct kv_error *error)
{
    struct suggestion suggestion = SUGGESTION_NONE;
    const char *help = place == COMMAND_SHELL ? "clientk help" : "help";
    const char *advice = foreign_advice(name);
    if (advice) {
        kv_error_set(error, KV_USAGE, "mqkv has no %s: %s", name, advice);
        return;
    }
    for (size_t i = 0; i < command_count; i++)
        if (commands[i].places & place)
            suggest_consider(&suggestion, name, commands[i].name);
    if (suggestion.name)
        kv_error_set(error, KV_USAGE, "unknown command '%.40s'; did you mean %s?", name,
                     suggestion.name);
    else
        kv_error_set(error, KV_USAGE, "unknown command '%.40s'; %s lists all", name, help);
}

const struct command *command_find(const struct word *name, unsigned place, struct kv_error *error)
{
    struct kv_slice bytes = kv_slice(name->data, name->size);
    if (strlen(name->data) != name->size || !escape_is_printable(bytes, false)) {
        kv_error_set(error, KV_USAGE, "a line begins with a command, not with binary bytes");
        return NULL;
    }
    const struct command *command = find_anywhere(name->data);
    if (command && (command->places & place))
        return command;
    if (!command)
        fail_unknown_name(name->data, place, error);
    else if (place == COMMAND_SHELL)
        kv_error_set(error, KV_USAGE,
                     "%s works at the prompt%s only: run clientk without a command", command->name,
                     command->places & COMMAND_BATCH ? " and in batches" : "");
    else
        kv_error_set(error, KV_USAGE, "%s works from the shell only: clientk %s ...", command->name,
                     command->name);
    return NULL;
}
