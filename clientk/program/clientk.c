/*
 * clientk: the client program. Its arguments decide whether it is a prompt, one command, or a
 * batch.
 */
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/memory/mapguard.h"
#include "clientk/program/commands/batch_command.h"
#include "clientk/program/cli/command.h"
#include "clientk/program/cli/cli_context.h"
#include "clientk/program/commands/invocation.h"
#include "clientk/program/cli/help.h"
#include "tools/prompt/interactive.h"
#include "clientk/program/cli/interrupt.h"
#include "common/report/standard_files.h"

static void print_version(void)
{
#ifdef MQKV_SANITIZER
    printf("clientk %s (%s)\n", MQKV_VERSION, MQKV_SANITIZER);
#else
    printf("clientk %s\n", MQKV_VERSION);
#endif
}

static int run_prompt(struct cli_context *context)
{
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        return interactive_run(context);
    context->output.one_shot = false;
    return batch_run_stdin(context);
}

/* Runs one command of the shell; its words begin with its name. is_decoded: as with --escapes. */
static int run_command(struct cli_context *context, struct word *words, size_t count,
                       bool is_decoded)
{
    struct invocation prepared;
    struct kv_error error = {0};
    int code = EXIT_DONE;
    enum kv_status status =
        invocation_prepare(&prepared, words, count, COMMAND_SHELL, &context->global, &error);
    context->output.format = (enum output_format)context->global.format;
    const char *name = prepared.command ? prepared.command->name : NULL;
    if (status != KV_OK)
        code = output_failure(&context->output, name, status, error.text);
    else if (context->global.version)
        print_version();
    else if (context->global.help)
        help_print_command(stdout, prepared.command);
    else if (context->global.escapes != is_decoded)
        code = output_failure(&context->output, name, KV_USAGE,
                              "give -e as a word of its own, which is no other option's value");
    else
        code = invocation_execute(context, &prepared);
    invocation_free(&prepared);
    return code;
}

static int run_command_line(struct cli_context *context, struct line *words, bool is_decoded)
{
    const struct option_set sets[] = {{.rows = global_option_rows, .target = &context->global},
                                      {.rows = NULL}};
    struct kv_error error = {0};
    enum kv_status status = arguments_take_options(sets, words->words, &words->count, true, &error);
    context->output.format = (enum output_format)context->global.format;
    if (status != KV_OK)
        return output_failure(&context->output, NULL, status, error.text);
    if (context->global.version) {
        print_version();
        return EXIT_DONE;
    }
    if (context->global.help && words->count == 0) {
        help_print_usage(stdout);
        return EXIT_DONE;
    }
    return words->count > 0 ? run_command(context, words->words, words->count, is_decoded)
                            : run_prompt(context);
}

/* Returns true if nobody reads standard output any more. */
static bool reader_left(void)
{
    struct pollfd output = {STDOUT_FILENO, POLLOUT, 0};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR);
}

/* Makes answers that never reached their reader a failure; of a reader that left nothing is
 * printed. */
static int check_output(int code)
{
    if (!ferror(stdout) && fflush(stdout) == 0)
        return code;
    if (!reader_left() && !interrupt_pending())
        fprintf(stderr, "clientk: standard output could not be written\n");
    return EXIT_REFUSED;
}

/* Returns true if the argument is --escapes or an abbreviation of it that is none of another
 * option. */
static bool is_escapes(const char *argument)
{
    size_t size = strlen(argument);
    return strcmp(argument, "-e") == 0 ||
           (size >= sizeof "--es" - 1 && strncmp(argument, "--escapes", size) == 0);
}

/* Looks for -e before any option is known, because -e decides how the words are read. If this
 * search was wrong, run_command_line finds out when it takes the options. */
static bool wants_escapes(char *const *arguments, size_t count)
{
    for (size_t i = 0; i < count && strcmp(arguments[i], "--") != 0; i++)
        if (is_escapes(arguments[i]))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    standard_files_fill();
    struct cli_context context = {
        .global = global_option_defaults(),
        .output = {.stream = stdout, .one_shot = true, .terminal = isatty(STDOUT_FILENO) == 1}};
    struct line words = {0};
    struct line_error wrong;
    size_t count = argc > 1 ? (size_t)argc - 1 : 0;
    bool escapes = wants_escapes(argv + 1, count);
    int code;
    setlocale(LC_CTYPE, "");
    mapguard_install("clientk"); /* data files that are read in place may become shorter */
    signal(SIGPIPE, SIG_IGN);
    if (line_from_arguments(&words, argv + 1, count, escapes, &wrong)) {
        code = run_command_line(&context, &words, escapes);
    } else {
        fprintf(stderr, "clientk: argument %zu: %s\n", wrong.column, wrong.message);
        code = EXIT_USAGE;
    }
    cli_close(&context);
    line_free(&words);
    code = check_output(code);
    interrupt_obey();
    return code;
}
