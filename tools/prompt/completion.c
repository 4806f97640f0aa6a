#include "tools/prompt/completion.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clientk/program/cli/command.h"
#include "clientk/program/cli/help.h"
#include "clientk/program/cli/json_reader.h"
#include "clientk/program/commands/key_command.h"
#include "clientk/program/commands/queue_command.h"
#include "common/text/escape.h"
#include "mqkv/clientk_queue.h"

/* The names of queues are looked for among so many of their keys. */
#define QUEUE_PREFIX "queue:"
#define QUEUE_KEYS   4096u

static void add_candidate(struct completion *completion, const char *prefix, struct kv_slice word)
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
            add_candidate(completion, "", kv_slice_from_string(commands[i].name));
}

static void add_options(struct completion *completion, const struct command *command,
                        const char *typed)
{
    for (const struct option_row *row = command->options; row && row->name; row++)
        if (strncmp(row->name, typed + 2, strlen(typed + 2)) == 0)
            add_candidate(completion, "--", kv_slice_from_string(row->name));
}

static bool add_key(void *context, const struct clientk_entry *entry)
{
    struct completion *completion = context;
    add_candidate(completion, "", entry->key);
    return completion->count < COMPLETION_CANDIDATES;
}

static void add_keys(struct completion *completion, struct clientk *client, const char *typed)
{
    clientk_scan(client, kv_slice_from_string(typed), true, NULL, COMPLETION_CANDIDATES, add_key,
                 completion);
}

static void add_beginning(struct completion *completion, const char *word, const char *typed)
{
    if (word && strncmp(word, typed, strlen(typed)) == 0)
        add_candidate(completion, "", kv_slice_from_string(word));
}

/* Adds the sections of the statistics, which are the members of the complete statistics. */
static void add_sections(struct completion *completion, struct clientk *client, const char *typed)
{
    struct clientk_value text = {0};
    struct json_value *document =
        clientk_stats(client, NULL, &text) == KV_OK ? json_parse(text.data, text.size) : NULL;
    for (const struct json_value *section = document ? document->first : NULL; section;
         section = section->next)
        add_beginning(completion, section->name, typed);
    json_free(document);
    clientk_value_free(&text);
}

/* Adds the names of settings; live: only those that can be set while the server runs. */
static void add_settings(struct completion *completion, struct clientk *client, const char *typed,
                         bool live)
{
    struct clientk_value text = {0};
    struct json_value *document =
        clientk_admin(client, "config-get", kv_slice_from_string(""), &text) == KV_OK
            ? json_parse(text.data, text.size)
            : NULL;
    for (const struct json_value *row = document ? document->first : NULL; row; row = row->next) {
        const struct json_value *name = json_member(row, "name");
        const struct json_value *is_live = json_member(row, "live");
        if (name && (!live || (is_live && strcmp(is_live->text, "true") == 0)))
            add_beginning(completion, name->text, typed);
    }
    json_free(document);
    clientk_value_free(&text);
}

/* The names of queues are among their keys, queue:NAME:..., of which there may be many. */
struct queue_names {
    struct completion *completion;
    size_t seen;
};

static bool add_queue_name(void *context, const struct clientk_entry *entry)
{
    struct queue_names *names = context;
    struct completion *completion = names->completion;
    const char *name = (const char *)entry->key.data + strlen(QUEUE_PREFIX);
    const char *end = memchr(name, ':', entry->key.size - strlen(QUEUE_PREFIX));
    size_t before = completion->count;
    if (end)
        add_candidate(completion, "", kv_slice(name, (size_t)(end - name)));
    for (size_t i = 0; i < before && before < completion->count; i++)
        if (strcmp(completion->candidates[i], completion->candidates[before]) == 0)
            free(completion->candidates[--completion->count]);
    return completion->count < COMPLETION_CANDIDATES && ++names->seen < QUEUE_KEYS;
}

static void add_queue_names(struct completion *completion, struct clientk *client,
                            const char *typed)
{
    char prefix[sizeof QUEUE_PREFIX + CLIENTK_MAX_QUEUE_NAME];
    struct queue_names names = {.completion = completion};
    int size = snprintf(prefix, sizeof prefix, "%s%s", QUEUE_PREFIX, typed);
    if (size > 0 && (size_t)size < sizeof prefix)
        clientk_scan(client, kv_slice(prefix, (size_t)size), true, NULL, 0, add_queue_name, &names);
}

static void add_queue_words(struct completion *completion, const struct word *word, size_t position,
                            const char *typed)
{
    static const char *const states[] = {"ready", "leased", "later", "dead"};
    const char *name;
    for (size_t i = 0; position == 1 && (name = queue_word_name(i)); i++)
        add_beginning(completion, name, typed);
    for (size_t i = 0; position == 3 && word_is(word, "list") && i < 4; i++)
        add_beginning(completion, states[i], typed);
}

/* Returns true if the command takes any number of keys. */
static bool takes_keys(const struct command *command)
{
    return command->key_kind && command->key_kind->shape == SHAPE_KEY &&
           command->max_operands == COMMAND_ANY_NUMBER;
}

/* Adds words for the operand at that position, from 1. line: the words up to the typed one. */
static void add_operands(struct completion *completion, struct clientk *client,
                         const struct command *command, const struct line *line, size_t position,
                         const char *typed)
{
    enum operand_kind operand = command->operand;
    if (operand == OPERAND_SETTINGS && position == 1) {
        add_beginning(completion, "get", typed);
        add_beginning(completion, "set", typed);
        add_beginning(completion, "reload", typed);
    }
    if (operand == OPERAND_QUEUE && position > 0)
        add_queue_words(completion, &line->words[1], position, typed);
    if (!client)
        return;
    if (operand == OPERAND_QUEUE && position == 2)
        add_queue_names(completion, client, typed);
    else if (operand == OPERAND_KEY && (position == 1 || takes_keys(command)))
        add_keys(completion, client, typed);
    else if (operand == OPERAND_SECTION && position == 1)
        add_sections(completion, client, typed);
    else if (operand == OPERAND_SETTINGS && position == 2 && !word_is(&line->words[1], "reload"))
        add_settings(completion, client, typed, word_is(&line->words[1], "set"));
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
    else if (command)
        add_operands(completion, context->client, command, &line, position, typed.data);
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
