/*
 * covers: serverk/config/options.c common/options/option_table.c
 *
 * The command line of serverk under libFuzzer: the input's lines are its arguments. They are taken,
 * with every option within its bounds, or a sentence says what is wrong.
 */
#include "tests/fuzz/fuzzing.h"

#include <stdio.h>

#include "serverk/config/command_line.h"
#include "wire/queue_name.h"

#define MOST_ARGUMENTS 24

static void check_bounds(const struct server_options *options)
{
    require(options->workers >= 1 && options->workers <= OPTIONS_MAX_WORKERS);
    require(options->queue && wire_name_valid(options->queue) && options->dir);
    require(options->cache_bytes <= OPTIONS_MAX_CACHE_BYTES);
    require(options->max_value_bytes <= 64u << 20);
    require((options->mode & ~0622u) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool quiet;
    if (!quiet)
        quiet = freopen("/dev/null", "w", stdout) != NULL; /* --help */
    char *text = text_of(data, size), *rest = text, *line;
    char program[] = "serverk";
    char *arguments[MOST_ARGUMENTS + 2] = {program};
    int count = 1;
    while (count <= MOST_ARGUMENTS && (line = strsep(&rest, "\n")))
        arguments[count++] = line;
    struct server_options options;
    struct kv_error error = {0};
    enum options_outcome outcome = command_line_parse(count, arguments, &options, &error);
    require((outcome == OPTIONS_BAD) == (error.text[0] != '\0'));
    if (outcome == OPTIONS_RUN)
        check_bounds(&options);
    options_free(&options);
    free(text);
    return 0;
}
