#include "serverk/config/settings.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/text/parse.h"

/* What is in force because of another option goes and comes with that one. */
static const char *text_given(const struct option_origin *origin)
{
    return origin->by ? NULL : origin->text;
}

bool settings_next_change(const struct option_origin *before, const struct option_origin *now,
                          unsigned *next, struct changed_setting *change)
{
    for (; options_rows[*next].name; ++*next) {
        const char *was = text_given(&before[*next]);
        const char *is = text_given(&now[*next]);
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
    else if (origin->by)
        snprintf(text, text_bytes, "%s", origin->by);
    else if (origin->file)
        snprintf(text, text_bytes, "%s:%u", origin->file, origin->line);
    else
        snprintf(text, text_bytes, "%s", origin->is_set ? "config set" : "command line");
}

struct kv_slice settings_effective_default(const struct server_options *options,
                                           const struct option_row *row, char number[32])
{
    if (strcmp(row->name, "direct") == 0)
        return kv_slice_from_string(kvstore_direct_name(options->direct));
    if (strcmp(row->name, "workers") != 0)
        return settings_default(row);
    snprintf(number, 32, "%" PRIu32, options->workers);
    return kv_slice_from_string(number);
}

/* Sizes and times are told by what help calls them: of a kind of the table, or parsed. */
static bool is_called(const struct option_row *row, const char *argument)
{
    return row->argument && strcmp(row->argument, argument) == 0;
}

struct kv_slice settings_value(const struct option_row *row, const char *given,
                               char text[SETTINGS_VALUE_BYTES])
{
    static const char interval[] = "interval:";
    char number[32];
    uint64_t value;
    const char *digits = given;
    if (strcmp(row->name, "sync") == 0 && strncmp(given, interval, sizeof interval - 1) == 0)
        digits += sizeof interval - 1;
    bool is_time = is_called(row, "TIME") || digits != given;
    if ((!is_time && !is_called(row, "SIZE")) || !parse_u64(digits, 1, UINT64_MAX, &value))
        return kv_slice_from_string(given);
    snprintf(text, SETTINGS_VALUE_BYTES, "%.*s%s", (int)(digits - given), given,
             is_time ? format_duration_ms_exactly(value, number)
                     : format_size_exactly(value, number));
    return kv_slice_from_string(text);
}

/* What nobody has given is a comment, with a value that may be given: what help says behind it
 * ("(default 0: no bound)") is none. */
static void print_default(const struct server_options *options, const struct option_row *row,
                          FILE *stream)
{
    char number[32];
    struct kv_slice value = settings_effective_default(options, row, number);
    bool has_value =
        value.size > 0 && (value.data == (void *)number || !strstr(row->help, "(default: "));
    const char *meaning = has_value ? memmem(value.data, value.size, ": ", 2) : NULL;
    size_t size = meaning ? (size_t)(meaning - (const char *)value.data) : value.size;
    if (has_value)
        fprintf(stream, "; %s = %.*s ; default%.*s\n", row->name, (int)size,
                (const char *)value.data, (int)(value.size - size), meaning ? meaning : "");
    else
        fprintf(stream, "; %s is not set%s%.*s\n", row->name, value.size > 0 ? ": " : "",
                (int)value.size, (const char *)value.data);
}

static void print_option(const struct server_options *options, const struct option_row *row,
                         FILE *stream)
{
    const struct option_origin *origin = &options->origins[row - options_rows];
    char where[PATH_MAX], text[SETTINGS_VALUE_BYTES];
    if (!origin->text) {
        print_default(options, row, stream);
        return;
    }
    struct kv_slice value = settings_value(row, origin->text, text);
    settings_describe_origin(origin, where, sizeof where);
    fprintf(stream, "%s%s = %.*s ; %s\n", origin->by ? "; " : "", row->name, (int)value.size,
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
