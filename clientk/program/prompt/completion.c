#include "clientk/program/prompt/completion.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clientk/program/cli/command.h"
#include "clientk/program/cli/help.h"
#include "common/text/escape.h"

static void add(struct completion *completion, const char *prefix, struct kv_slice word)
{
    char *text = NULL;
    size_t size = 0;
    if (completion->count == COMPLETION_CANDIDATES)
        return;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    fputs(prefix, stream);
    escape_print_word(stream, word);
    if (fclose(stream) == 0)
        completion->candidates[completion->count++] = text;
}

static void add_commands(struct completion *completion, const char *typed)
{
    for (size_t i = 0; i < command_count; i++)
        if ((commands[i].places & COMMAND_PROMPT) &&
            strncasecmp(commands[i].name, typed, strlen(typed)) == 0)
            add(completion, "", kv_slice_from_string(commands[i].name));
}

static void add_options(struct completion *completion, const struct command *command,
                        const char *typed)
{
    for (const struct option_row *row = command->options; row && row->name; row++)
        if (strncmp(row->name, typed + 2, strlen(typed + 2)) == 0)
            add(completion, "--", kv_slice_from_string(row->name));
}

static bool add_key(void *context, const struct clientk_entry *entry)
{
    struct completion *completion = context;
    add(completion, "", entry->key);
    return completion->count < COMPLETION_CANDIDATES;
}

static void add_keys(struct completion *completion, struct cli_context *context, const char *typed)
{
    if (context->client)
        clientk_scan(context->client, kv_slice_from_string(typed), true, NULL,
                     COMPLETION_CANDIDATES, add_key, completion);
}

void completion_find(struct completion *completion, struct cli_context *context, const char *text,
                     size_t size)
{
    struct line line = {0};
    struct line_error wrong;
    struct kv_error error;
    *completion = (struct completion){0};
    if (!line_parse(&line, text, size, &wrong)) {
        line_free(&line);
        return;
    }
    /* The last word is half typed, unless a blank follows it: then a new word begins. */
    bool begins_word = size == 0 || text[size - 1] == ' ' || text[size - 1] == '\t';
    struct word empty = {(char[]){""}, 0, false};
    struct word typed = begins_word || line.count == 0 ? empty : line.words[line.count - 1];
    size_t position = begins_word ? line.count : line.count - 1;
    completion->typed = typed.size;

    const struct command *command =
        position > 0 ? command_find(&line.words[0], COMMAND_PROMPT, &error) : NULL;
    bool wants_command = position == 0 || (position == 1 && command && command->run == help_run);
    if (typed.literal || strlen(typed.data) != typed.size)
        completion->typed = 0;
    else if (wants_command)
        add_commands(completion, typed.data);
    else if (command && strncmp(typed.data, "--", 2) == 0)
        add_options(completion, command, typed.data);
    else if (position == 1 && command && command->takes_key)
        add_keys(completion, context, typed.data);
    line_free(&line);
}

void completion_free(struct completion *completion)
{
    for (size_t i = 0; i < completion->count; i++)
        free(completion->candidates[i]);
    completion->count = 0;
}

size_t completion_common_bytes(const struct completion *completion)
{
    if (completion->count == 0)
        return 0;
    size_t common = strlen(completion->candidates[0]);
    for (size_t i = 1; i < completion->count; i++) {
        size_t same = 0;
        while (same < common && completion->candidates[i][same] == completion->candidates[0][same])
            same++;
        common = same;
    }
    return common;
}
