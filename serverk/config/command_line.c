#include "serverk/config/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"
#include "serverk/config/option_file.h"
#include "serverk/config/option_rules.h"

#define HINT         "serverk -h lists the options"
#define HELP_COLUMNS 26 /* left of what an option means */

static void print_serverk_help(void)
{
    printf("usage: serverk [-d D] [-w M] [-f DIR] [-m NAME] [options]\n"
           "The daemon of mqkv, a key-value store over POSIX message queues.\n\n");
    options_print_help(stdout, HELP_COLUMNS);
    printf("\nSIGTERM and SIGINT stop it cleanly. Manual: serverk(1).\n");
}

/* argv before its words are moved. NULL: out of memory. */
static char **copy_words(int argc, char **argv)
{
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (words)
        memcpy(words, argv, (size_t)argc * sizeof *words);
    return words;
}

enum options_outcome command_line_parse(int argc, char **argv, struct server_options *options,
                                        struct kv_error *error)
{
    struct parsed_line line;
    parsed_line_begin(&line);
    char **words = copy_words(argc, argv);
    const struct option_set sets[] = {
        {.rows = options_rows, .target = &line, .origins = line.options.origins}, {.rows = NULL}};
    enum kv_status status = KV_OK;
    if (!words)
        status = kv_error_set(error, KV_NO_MEMORY, "out of memory");
    if (status == KV_OK)
        status = option_take_argv(sets, HINT, &argc, argv, error);
    bool informs = line.help || line.version;
    if (status == KV_OK && !informs && argc == 1 && line.options.config)
        status = option_file_take(line.options.config, sets, &line.options.access, error);
    *options = line.options;
    options->words = words;
    if (status != KV_OK)
        return OPTIONS_BAD;
    if (line.help)
        print_serverk_help();
    else if (line.version)
        option_print_version(stdout, "serverk");
    if (informs)
        return OPTIONS_DONE;
    if (argc > 1) {
        kv_error_set(error, KV_USAGE, "unexpected argument '%s': serverk takes options only",
                     argv[1]);
        return OPTIONS_BAD;
    }
    return option_rules_check(&line, options, error);
}

enum options_outcome command_line_take(const struct option_origin *given,
                                       struct server_options *options, struct kv_error *error)
{
    struct parsed_line line;
    parsed_line_begin(&line);
    const struct option_set set = {.rows = options_rows, .target = &line};
    for (const struct option_row *row = options_rows; row->name; row++) {
        const struct option_origin *origin = &given[row - options_rows];
        if (origin->text && row->section && option_take_text(&set, row, origin, error) != KV_OK)
            return OPTIONS_BAD;
    }
    enum options_outcome outcome = option_rules_check(&line, &line.options, error);
    *options = line.options;
    return outcome;
}

enum options_outcome command_line_parse_again(const struct server_options *options,
                                              struct server_options *again, struct kv_error *error)
{
    int argc = 0;
    while (options->words[argc])
        argc++;
    char **argv = copy_words(argc, options->words);
    if (!argv) {
        *again = (struct server_options){.words = NULL};
        kv_error_set(error, KV_NO_MEMORY, "out of memory");
        return OPTIONS_BAD;
    }
    enum options_outcome outcome = command_line_parse(argc, argv, again, error);
    free(argv);
    return outcome;
}
