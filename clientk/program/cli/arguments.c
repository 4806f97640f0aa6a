#include "clientk/program/cli/arguments.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clientk/program/cli/suggest.h"
#include "common/error.h"
#include "common/parse.h"

/* An option as it was found: which row, whose target, and the text glued to its name, if any. */
struct found_option {
    const struct option_row *row;
    char *target;
    const char *glued;
};

static bool is_option(const struct word *word)
{
    return !word->literal && word->size >= 2 && word->data[0] == '-' &&
           (word->data[1] == '-' || isalpha((unsigned char)word->data[1]));
}

static bool row_matches(const struct option_row *row, const char *text, const char **glued)
{
    *glued = NULL;
    if (text[1] != '-') {
        *glued = text[2] ? text + 2 : NULL;
        return row->letter && row->letter == text[1];
    }
    size_t size = strcspn(text + 2, "=");
    if (text[2 + size] == '=')
        *glued = text + 2 + size + 1;
    return strlen(row->name) == size && strncmp(row->name, text + 2, size) == 0;
}

static bool find_option(const struct option_set *sets, const char *text, struct found_option *found)
{
    for (const struct option_set *set = sets; set->rows; set++) {
        for (const struct option_row *row = set->rows; row->name; row++) {
            if (row_matches(row, text, &found->glued)) {
                found->row = row;
                found->target = set->target;
                return true;
            }
        }
    }
    return false;
}

static enum kv_status unknown_option(const struct option_set *sets, const char *text,
                                     struct kv_error *error)
{
    struct suggestion suggestion = SUGGESTION_NONE;
    if (text[1] == '-')
        for (const struct option_set *set = sets; set->rows; set++)
            for (const struct option_row *row = set->rows; row->name; row++)
                suggest_consider(&suggestion, text + 2, row->name);
    if (suggestion.name)
        return kv_error_set(error, KV_USAGE, "unknown option %s; did you mean --%s?", text,
                            suggestion.name);
    return kv_error_set(error, KV_USAGE,
                        "unknown option %s (put -- before words that begin with a dash)", text);
}

static bool choose(const struct option_row *row, const char *text, int *choice)
{
    for (int i = 0; row->choices[i]; i++) {
        if (strcasecmp(row->choices[i], text) == 0) {
            *choice = i;
            return true;
        }
    }
    return false;
}

static bool store_value(const struct option_row *row, char *target, const char *text)
{
    void *field = target + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return true;
    case OPTION_NUMBER:
        return parse_u64(text, row->min, row->max, field);
    case OPTION_INTEGER:
        return parse_i64(text, INT64_MIN, INT64_MAX, field);
    case OPTION_SIZE:
        return parse_size(text, row->min, row->max, field);
    case OPTION_DURATION_MS:
        return parse_duration_ms(text, row->min, row->max, field);
    case OPTION_FRACTION:
        return parse_double(text, (double)row->min, (double)row->max, field);
    case OPTION_TEXT:
        *(const char **)field = text;
        return true;
    case OPTION_CHOICE:
        return choose(row, text, field);
    }
    return false;
}

static void list_choices(const struct option_row *row, char *out, size_t size)
{
    out[0] = '\0';
    for (int i = 0; row->choices[i]; i++) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", i ? ", " : "", row->choices[i]);
    }
}

/* What was meant by a time that is none, as the end of a sentence. */
static const char *duration_advice(const char *text)
{
    static const char *const endless[] = {"never", "none", "no",       "off", "forever", "infinity",
                                          "inf",   "0",    "infinite", "-1",  "0s"};
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++)
        if (strcasecmp(text, endless[i]) == 0)
            return "; without a time an entry never expires, persist KEY takes it away, del KEY deletes";
    if (*text == '-')
        return "; a time lies ahead, del KEY deletes at once";
    if (strspn(text, "0123456789.,") > 0)
        return "; units are ms, s, m (minutes), h and d, one of them after the number: 90m, 1.5h, 14d";
    return "";
}

static enum kv_status bad_value(const struct option_row *row, const char *text,
                                struct kv_error *error)
{
    char expected[160] = "";
    const char *advice = "";
    switch (row->kind) {
    case OPTION_NUMBER:
    case OPTION_FRACTION:
        snprintf(expected, sizeof expected, "a number from %" PRIu64 " to %" PRIu64, row->min,
                 row->max);
        break;
    case OPTION_INTEGER:
        snprintf(expected, sizeof expected, "a whole number of 64 bits");
        break;
    case OPTION_SIZE: {
        char min[32], max[32];
        snprintf(expected, sizeof expected, "a size such as 64, 4k or 1M, from %s to %s",
                 format_size(row->min, min), format_size(row->max, max));
        break;
    }
    case OPTION_DURATION_MS:
        snprintf(expected, sizeof expected,
                 "a time such as 250 (milliseconds), 2s, 5m, 1h or 7d, from %" PRIu64 " to %" PRIu64
                 " ms",
                 row->min, row->max);
        if (strcmp(row->name, "ttl") == 0)
            advice = duration_advice(text);
        break;
    case OPTION_CHOICE:
        list_choices(row, expected, sizeof expected);
        break;
    case OPTION_FLAG:
    case OPTION_TEXT:
        break;
    }
    return kv_error_set(error, KV_USAGE, "--%s: \"%.60s\" is not %s%s%s", row->name, text,
                        row->kind == OPTION_CHOICE ? "one of " : "", expected, advice);
}

/* Handles the option at words[*at]; *at ends on the last word it used. */
static enum kv_status take_option(const struct option_set *sets, struct word *words, size_t count,
                                  size_t *at, struct kv_error *error)
{
    const struct word *word = &words[*at];
    struct found_option found;
    if (strlen(word->data) != word->size)
        return kv_error_set(error, KV_USAGE, "an option has a NUL byte in it");
    if (!find_option(sets, word->data, &found))
        return unknown_option(sets, word->data, error);

    const char *value = found.glued;
    if (found.row->kind == OPTION_FLAG) {
        if (value)
            return kv_error_set(error, KV_USAGE, "--%s takes no value, but \"%.60s\" was given",
                                found.row->name, value);
    } else if (!value) {
        if (*at + 1 == count)
            return kv_error_set(error, KV_USAGE, "--%s needs a value: %s", found.row->name,
                                found.row->argument);
        word = &words[++*at];
        if (strlen(word->data) != word->size)
            return kv_error_set(error, KV_USAGE, "the value of --%s has a NUL byte in it",
                                found.row->name);
        value = word->data;
    }
    if (!store_value(found.row, found.target, value))
        return bad_value(found.row, value, error);
    return KV_OK;
}

enum kv_status arguments_take_options(const struct option_set *sets, struct word *words,
                                      size_t *count, bool leading, struct kv_error *error)
{
    size_t kept = 0;
    bool options_end = false;
    for (size_t at = 0; at < *count; at++) {
        if (!options_end && !words[at].literal && word_is(&words[at], "--")) {
            options_end = true;
        } else if (!options_end && is_option(&words[at])) {
            enum kv_status status = take_option(sets, words, *count, &at, error);
            if (status != KV_OK)
                return status;
        } else {
            words[kept] = words[at];
            words[kept++].literal |= options_end && !leading;
            options_end |= leading;
        }
    }
    *count = kept;
    return KV_OK;
}

void arguments_print_help(FILE *stream, const struct option_row *rows)
{
    for (const struct option_row *row = rows; row && row->name; row++) {
        char letter[5] = "   ", left[64];
        if (row->letter)
            snprintf(letter, sizeof letter, "-%c,", row->letter);
        snprintf(left, sizeof left, "%s --%s%s%s", letter, row->name, row->argument ? " " : "",
                 row->argument ? row->argument : "");
        fprintf(stream, "  %-30s %s\n", left, row->help);
    }
}

enum kv_status arguments_integer(const struct word *word, const char *what, int64_t *value,
                                 struct kv_error *error)
{
    if (strlen(word->data) == word->size && parse_i64(word->data, INT64_MIN, INT64_MAX, value))
        return KV_OK;
    return kv_error_set(error, KV_USAGE, "%s, \"%.60s\", is not a whole number of 64 bits", what,
                        word->data);
}

enum kv_status arguments_duration_ms(const struct word *word, const char *what, uint64_t *value,
                                     struct kv_error *error)
{
    if (strlen(word->data) == word->size && parse_duration_ms(word->data, 1, UINT64_MAX / 2, value))
        return KV_OK;
    return kv_error_set(
        error, KV_USAGE,
        "%s, \"%.60s\", is not a time such as 250 (milliseconds), 2s, 5m, 1h or 7d%s", what,
        word->data, duration_advice(word->data));
}
