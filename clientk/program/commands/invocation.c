#include "clientk/program/commands/invocation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/cli/interrupt.h"
#include "common/report/error.h"

static enum kv_status check_operand_count(const struct command *command, size_t count,
                                          struct kv_error *error)
{
    if (count >= command->min_operands && count <= command->max_operands)
        return KV_OK;
    return kv_error_set(error, KV_USAGE, "too %s arguments; usage: %s%s%s",
                        count < command->min_operands ? "few" : "many", command->name,
                        *command->arguments ? " " : "", command->arguments);
}

static enum kv_status take_command_options(struct invocation *prepared, void *target,
                                           struct word *words, size_t *count, unsigned place,
                                           struct global_options *settings, struct kv_error *error)
{
    static const struct option_row none[] = {{.name = NULL}};
    const struct command *command = prepared->command;
    const struct option_set sets[] = {
        {.rows = command->options ? command->options : none,
         .target = target,
         .whole_names = true,
         .with_units = place != COMMAND_BATCH},
        {.rows = settings ? global_option_rows : NULL, .target = settings},
        {.rows = NULL}};
    size_t given = *count;
    enum kv_status status = arguments_take_options(sets, words, count, false, error);
    if (status != KV_OK && !settings) {
        static const struct option_set of_clientk[] = {{.rows = global_option_rows},
                                                       {.rows = NULL}};
        for (size_t i = 0; i < given; i++)
            if (!words[i].literal && option_looks_so(words[i].data) &&
                !option_is_known(sets, words[i].data) && option_is_known(of_clientk, words[i].data))
                kv_error_set(
                    error, KV_USAGE,
                    "'%.60s' is an option of clientk itself: give it when clientk starts, not "
                    "with a command at the prompt or in a batch",
                    words[i].data);
    }
    return status;
}

/* Builds the command for the key that is operand `index`; the caller owns it. */
static enum kv_status build_for_key(const struct invocation *prepared, size_t index, unsigned place,
                                    struct key_command *built, struct kv_error *error)
{
    const struct command *command = prepared->command;
    return key_command_build(built, command->name, command->key_kind, prepared->options,
                             &prepared->operands[index], 1, place, error);
}

/* Nothing is sent before all keys are known to be right. */
static enum kv_status prepare_for_keys(struct invocation *prepared, unsigned place,
                                       struct kv_error *error)
{
    const struct key_command_options *options = prepared->options;
    struct key_command tried;
    enum kv_status status = KV_OK;
    prepared->for_key = false;
    prepared->for_keys = true;
    if (options->if_version != 0)
        return kv_error_set(error, KV_USAGE,
                            "--if-version is for one key: each has its own version");
    for (size_t i = 0; i < prepared->operand_count && status == KV_OK; i++)
        status = build_for_key(prepared, i, place, &tried, error);
    return status;
}

enum kv_status invocation_prepare(struct invocation *prepared, struct word *words, size_t count,
                                  unsigned place, struct global_options *settings,
                                  struct kv_error *error)
{
    *prepared = (struct invocation){0};
    if (count == 0)
        return KV_OK;
    const struct command *command = command_find(&words[0], place, error);
    if (!command)
        return error->status;

    prepared->command = command;
    prepared->operands = words + 1;
    prepared->operand_count = count - 1;
    if (command->option_bytes > 0) {
        prepared->options = malloc(command->option_bytes);
        if (!prepared->options)
            return kv_error_set(error, KV_NO_MEMORY, "no memory for the options");
        memcpy(prepared->options, command->option_defaults, command->option_bytes);
    }
    enum kv_status status = KV_OK;
    if (command->take_words)
        status = command->take_words(prepared->options, words + 1, &prepared->operand_count, place,
                                     error);
    if (status == KV_OK)
        status = take_command_options(prepared, prepared->options, words + 1,
                                      &prepared->operand_count, place, settings, error);
    if (status != KV_OK || (settings && settings->help))
        return status;
    const struct key_command_options *of_key = prepared->options;
    prepared->for_key = command->key_kind && !of_key->prefix && !of_key->together;
    if (command->key_kind && !prepared->for_key)
        return KV_OK; /* the command's `run` looks at the operands */
    status = check_operand_count(command, prepared->operand_count, error);
    if (status == KV_OK && prepared->for_key && prepared->operand_count > 1 &&
        command->key_kind->shape == SHAPE_KEY)
        return prepare_for_keys(prepared, place, error);
    if (status == KV_OK && prepared->for_key)
        status = key_command_build(&prepared->key_command, command->name, command->key_kind,
                                   prepared->options, prepared->operands, prepared->operand_count,
                                   place, error);
    return status;
}

void invocation_free(struct invocation *prepared)
{
    if (prepared->for_key)
        key_command_free(&prepared->key_command);
    free(prepared->options);
    *prepared = (struct invocation){0};
}

/* Says which formats the command has: what reads one of them would get another. */
static int refuse_format(struct output *output, const struct command *command)
{
    char sentence[96], names[40] = "";
    size_t used = 0;
    for (int format = 0; output_format_name(format); format++)
        if (command->formats >> format & 1u)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used > 0 ? ", " : "", output_format_name(format));
    snprintf(sentence, sizeof sentence, "it has no %s, but %s", output_format_name(output->format),
             names);
    return output_failure(output, command->name, KV_USAGE, sentence);
}

/* Executes the commands for `count` keys from operand `first` on in one call and prints their
 * answers. *gone: the server is. Returns the highest exit code. */
static int execute_page_of_keys(struct cli_context *context, const struct invocation *prepared,
                                size_t first, size_t count, bool *gone)
{
    struct key_command asked[KEY_COMMANDS_AT_ONCE];
    struct kv_error error;
    int worst = EXIT_DONE;
    for (size_t i = 0; i < count; i++)
        build_for_key(prepared, first + i, COMMAND_LINE, &asked[i], &error);
    key_command_execute(context->client, asked, count);
    for (size_t i = 0; i < count; i++) {
        int code = key_command_answer(&context->output, &asked[i]);
        worst = code > worst ? code : worst;
        *gone = code == EXIT_NO_SERVER;
        key_command_free(&asked[i]);
    }
    return worst;
}

/* The answers are those of a batch that has a line for each key, also from the shell. */
static int execute_for_keys(struct cli_context *context, const struct invocation *prepared)
{
    struct output *output = &context->output;
    const char *name = prepared->command->name;
    bool one_shot = output->one_shot, gone = false;
    int worst = cli_connect_for(context, name);
    if (worst != EXIT_DONE)
        return worst;
    output->one_shot = false;
    if (one_shot)
        output->reports = stderr;
    size_t at = 0, most = key_commands_at_once(context->client);
    while (at < prepared->operand_count && !gone && !interrupt_pending()) {
        size_t left = prepared->operand_count - at, count = left < most ? left : most;
        int code = execute_page_of_keys(context, prepared, at, count, &gone);
        worst = code > worst ? code : worst;
        at += count;
    }
    if (at < prepared->operand_count) {
        char sentence[128];
        snprintf(sentence, sizeof sentence, "%s: nothing was asked about the last %zu of %zu keys",
                 gone ? "the server is gone" : "interrupted", prepared->operand_count - at,
                 prepared->operand_count);
        worst = output_failure(output, name, gone ? KV_NO_SERVER : KV_TIMEOUT, sentence);
    }
    output->one_shot = one_shot;
    if (one_shot)
        output->reports = NULL;
    return worst;
}

int invocation_execute(struct cli_context *context, struct invocation *prepared)
{
    const struct command *command = prepared->command;
    if (!command)
        return EXIT_DONE;
    if (command->formats && !(command->formats >> context->output.format & 1u))
        return refuse_format(&context->output, command);
    if (prepared->for_keys)
        return execute_for_keys(context, prepared);
    if (!prepared->for_key)
        return command->run(context, prepared->options, prepared->operands,
                            prepared->operand_count);
    int code = cli_connect_for(context, command->name);
    if (code != EXIT_DONE)
        return code;
    key_command_execute(context->client, &prepared->key_command, 1);
    return key_command_answer(&context->output, &prepared->key_command);
}

int invocation_run_words(struct cli_context *context, struct word *words, size_t count,
                         unsigned place)
{
    struct kv_error error = {0};
    struct invocation prepared;
    int code;
    enum kv_status status = invocation_prepare(&prepared, words, count, place, NULL, &error);
    if (status == KV_OK)
        code = invocation_execute(context, &prepared);
    else
        code = output_failure(&context->output, NULL, status, error.text);
    invocation_free(&prepared);
    return code;
}
