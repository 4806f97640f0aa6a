#include "clientk/program/cli/help.h"

#include <string.h>

#include "clientk/program/cli/global_options.h"

#define HELP_COLUMNS  30 /* width of the column before the meaning of an option */
#define USAGE_COLUMNS 26 /* width of the column before the summary of a command */

static void print_commands(FILE *stream, unsigned place)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        if (!(command->places & place))
            continue;
        int used = fprintf(stream, "  %s %s", command->name, command->arguments) - 2;
        if (used > USAGE_COLUMNS)
            fprintf(stream, "\n  %*s %s\n", USAGE_COLUMNS, "", command->summary);
        else
            fprintf(stream, "%*s %s\n", USAGE_COLUMNS - used, "", command->summary);
    }
}

void help_print_usage(FILE *stream)
{
    fputs("usage: clientk [options]                    a prompt, or commands from a pipe\n"
          "       clientk [options] COMMAND ...        one command\n\ncommands:\n",
          stream);
    print_commands(stream, COMMAND_SHELL);
    fputs("\noptions:\n", stream);
    option_print_help(stream, global_option_rows, HELP_COLUMNS);
    fputs("\nclientk help COMMAND explains one command, clientk help all of them. Manual: "
          "clientk(1).\n",
          stream);
}

void help_print_command(FILE *stream, const struct command *command)
{
    fprintf(stream, "%s%s%s\n  %s%s%s\n", command->name, *command->arguments ? " " : "",
            command->arguments, command->summary, command->alias ? "; also: " : "",
            command->alias ? command->alias : "");
    if (command->details)
        fprintf(stream, "\n%s\n", command->details);
    if (command->options) {
        fputs("\noptions:\n", stream);
        option_print_help(stream, command->options, HELP_COLUMNS);
    }
}

/* The help of all commands. */
static void print_everything(FILE *stream)
{
    help_print_usage(stream);
    for (size_t i = 0; i < command_count; i++) {
        if (commands[i].places & COMMAND_SHELL) {
            fputc('\n', stream);
            help_print_command(stream, &commands[i]);
        }
    }
    fputs(
        "\nexit codes: 0 done; 1 not found, or a condition did not hold; 2 usage; 3 no server, or "
        "no\nanswer in time; 4 the server refused or failed.\n"
        "environment: MQKV_QUEUE names the queue (default /serverk).\n",
        stream);
}

static void print_prompt_help(FILE *stream)
{
    print_commands(stream, COMMAND_PROMPT);
    fputs(
        "\nhelp COMMAND explains one command. Words with blanks or binary bytes need double\n"
        "quotes, with the escapes \\\\ \\\" \\n \\r \\t \\0 \\xHH. TAB completes, Ctrl-C cancels\n"
        "the line, Ctrl-D leaves.\n",
        stream);
}

int help_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count)
{
    (void)options;
    struct kv_error error = {0};
    FILE *stream = context->output.stream;
    unsigned place = context->interactive ? COMMAND_PROMPT : COMMAND_SHELL;
    if (count == 0 && context->interactive) {
        print_prompt_help(stream);
    } else if (count == 0) {
        print_everything(stream);
    } else {
        const struct command *command = command_find(&operands[0], place, &error);
        if (!command)
            return output_failure(&context->output, "help", KV_USAGE, error.text);
        help_print_command(stream, command);
    }
    return EXIT_DONE;
}
