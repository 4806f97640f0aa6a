#include "serverk/config/settings.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

bool settings_next_change(const struct option_origin *before, const struct option_origin *now,
                          unsigned *next, struct changed_setting *change)
{
    for (; options_rows[*next].name; ++*next) {
        const char *was = before[*next].text;
        const char *is = now[*next].text;
        if (!options_rows[*next].section || was == is || (was && is && strcmp(was, is) == 0))
            continue;
        *change = (struct changed_setting){options_rows[(*next)++].name, was, is};
        return true;
    }
    return false;
}

struct kv_slice settings_default(const struct option_row *row)
{
    const char *text = strstr(row->help, "(default");
    if (!text)
        return kv_slice_from_string(row->kind == OPTION_FLAG ? "off" : "");
    text += strlen("(default");
    text += strspn(text, ": ");
    return kv_slice(text, strcspn(text, ")"));
}

void settings_describe_origin(const struct option_origin *origin, char *text, size_t text_bytes)
{
    if (!origin->text)
        snprintf(text, text_bytes, "default");
    else if (origin->file)
        snprintf(text, text_bytes, "%s:%u", origin->file, origin->line);
    else
        snprintf(text, text_bytes, "%s", origin->is_set ? "config set" : "command line");
}

/* What an option is that nobody has given: defaults of some depend on other options. */
static struct kv_slice effective_default(const struct server_options *options,
                                         const struct option_row *row, char number[16])
{
    if (strcmp(row->name, "direct") == 0)
        return kv_slice_from_string(kvstore_direct_name(options->direct));
    if (strcmp(row->name, "workers") != 0)
        return settings_default(row);
    snprintf(number, 16, "%" PRIu32, options->workers);
    return kv_slice_from_string(number);
}

/* What nobody has given is a comment. */
static void print_option(const struct server_options *options, const struct option_row *row,
                         FILE *stream)
{
    const struct option_origin *origin = &options->origins[row - options_rows];
    char where[PATH_MAX], number[16];
    struct kv_slice value = effective_default(options, row, number);
    settings_describe_origin(origin, where, sizeof where);
    if (origin->text)
        value = kv_slice_from_string(origin->text);
    fprintf(stream, "%s%s = %.*s ; %s\n", origin->text ? "" : "; ", row->name, (int)value.size,
            (const char *)value.data, where);
}

void settings_print(const struct server_options *options, FILE *stream)
{
    static const char *const sections[] = {"store",   "queues", "workers",
                                           "process", "log",    "cluster"};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        fprintf(stream, "%s[%s]\n", i == 0 ? "" : "\n", sections[i]);
        for (const struct option_row *row = options_rows; row->name; row++)
            if (row->section && strcmp(row->section, sections[i]) == 0)
                print_option(options, row, stream);
    }
    const char *access = access_rules_text(options->access);
    if (*access)
        fprintf(stream, "\n%s", access);
}
