#include "serverk/config/settings.h"

#include <string.h>

bool settings_next_change(const struct server_options *before, const struct server_options *now,
                          unsigned *next, struct changed_setting *change)
{
    for (; options_rows[*next].name; ++*next) {
        const char *was = before->origins[*next].text;
        const char *is = now->origins[*next].text;
        if (was == is || (was && is && strcmp(was, is) == 0))
            continue;
        *change = (struct changed_setting){options_rows[(*next)++].name, was, is};
        return true;
    }
    return false;
}

/* What help says of the default, in parentheses; "off" of a flag. */
static void print_default(const struct option_row *row, FILE *stream)
{
    const char *text = strstr(row->help, "(default");
    if (!text) {
        fprintf(stream, "; %s = %s", row->name, row->kind == OPTION_FLAG ? "off" : "");
        return;
    }
    text += strlen("(default");
    text += strspn(text, ": ");
    fprintf(stream, "; %s = %.*s", row->name, (int)strcspn(text, ")"), text);
}

static void print_option(const struct option_row *row, const struct option_origin *origin,
                         FILE *stream)
{
    if (!origin->text) {
        print_default(row, stream);
        fprintf(stream, " ; default\n");
    } else if (origin->file) {
        fprintf(stream, "%s = %s ; %s:%u\n", row->name, origin->text, origin->file, origin->line);
    } else {
        fprintf(stream, "%s = %s ; command line\n", row->name, origin->text);
    }
}

void settings_print(const struct server_options *options, FILE *stream)
{
    static const char *const sections[] = {"store",   "queues", "workers",
                                           "process", "log",    "cluster"};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        fprintf(stream, "%s[%s]\n", i == 0 ? "" : "\n", sections[i]);
        for (const struct option_row *row = options_rows; row->name; row++)
            if (row->section && strcmp(row->section, sections[i]) == 0)
                print_option(row, &options->origins[row - options_rows], stream);
    }
}
