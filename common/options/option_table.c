#include "common/options/option_table.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "common/report/error.h"
#include "common/text/suggest.h"

/* A row, and the set that it is of. */
struct found_option {
    const struct option_row *row;
    const struct option_set *set;
};

/* Values --------------------------------------------------------------------------------------- */

static bool is_flag(const struct option_row *row)
{
    return row->kind == OPTION_FLAG || row->kind == OPTION_STOP;
}

static void store_unsigned(const struct option_row *row, void *field, uint64_t value)
{
    if (row->bytes == sizeof(uint64_t))
        *(uint64_t *)field = value;
    else if (row->bytes == sizeof(uint32_t))
        *(uint32_t *)field = (uint32_t)value;
    else
        *(bool *)field = value != 0;
}

static bool parse_unsigned(const struct option_row *row, const char *text, void *field)
{
    uint64_t value;
    bool good = row->kind == OPTION_NUMBER ? parse_u64(text, row->min, row->max, &value)
                : row->kind == OPTION_SIZE ? parse_size(text, row->min, row->max, &value)
                                           : parse_duration_ms(text, row->min, row->max, &value);
    if (good)
        store_unsigned(row, field, value);
    return good;
}

static bool store_value(const struct found_option *found, const char *text)
{
    const struct option_row *row = found->row;
    void *field = (char *)found->set->target + row->offset;
    int choice;
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_STOP:
        *(bool *)field = true;
        return true;
    case OPTION_NUMBER:
    case OPTION_SIZE:
    case OPTION_DURATION_MS:
        return parse_unsigned(row, text, field);
    case OPTION_INTEGER:
        return parse_i64(text, INT64_MIN, INT64_MAX, field);
    case OPTION_FRACTION:
        return parse_double(text, (double)row->min, (double)row->max, field);
    case OPTION_TEXT:
        *(const char **)field = text;
        return strlen(text) >= row->min;
    case OPTION_CHOICE:
        if (!parse_choice(text, row->choice_name, &choice))
            return false;
        store_unsigned(row, field, (uint64_t)choice);
        return true;
    case OPTION_PARSED:
        return row->parse(text, field);
    }
    return false;
}

static void note_origin(const struct found_option *found, const struct option_origin *origin)
{
    if (found->set->origins)
        found->set->origins[found->row - found->set->rows] = *origin;
}

/* What a right value is ------------------------------------------------------------------------ */

/* Long enough for the longest list of choices and for two sizes. */
#define EXPECTED_BYTES 200

/* "red, green or blue" */
static void list_choices(const struct option_row *row, char *out)
{
    size_t used = 0;
    for (int i = 0; row->choice_name(i) && used < EXPECTED_BYTES; i++) {
        const char *before = i == 0 ? "" : row->choice_name(i + 1) ? ", " : " or ";
        used += (size_t)snprintf(out + used, EXPECTED_BYTES - used, "%s%s", before,
                                 row->choice_name(i));
    }
}

static const char *expected_value(const struct option_row *row, char *out)
{
    char min[32], max[32];
    if (row->expects)
        return row->expects;
    snprintf(out, EXPECTED_BYTES, "%s", row->argument);
    if (row->kind == OPTION_INTEGER)
        return "a whole number of 64 bits";
    if (row->kind == OPTION_CHOICE)
        list_choices(row, out);
    if (row->kind == OPTION_SIZE)
        snprintf(out, EXPECTED_BYTES, "a size such as 64, 4k or 1M, from %s to %s",
                 format_size(row->min, min), format_size(row->max, max));
    if (row->kind == OPTION_DURATION_MS)
        snprintf(out, EXPECTED_BYTES,
                 "a time such as " DURATION_EXAMPLES ", from %" PRIu64 " to %" PRIu64 " ms",
                 row->min, row->max);
    if (row->kind == OPTION_NUMBER || row->kind == OPTION_FRACTION) {
        int used = snprintf(out, EXPECTED_BYTES, "a number from %" PRIu64, row->min);
        if (row->max != UINT64_MAX)
            snprintf(out + used, EXPECTED_BYTES - (size_t)used, " to %" PRIu64, row->max);
    }
    return out;
}

static enum kv_status bad_value(const struct option_row *row, const char *dashes, const char *text,
                                struct kv_error *error)
{
    char expected[EXPECTED_BYTES];
    return kv_error_set(error, KV_USAGE, "%s%s: '%.60s' is not %s%s", dashes, row->name, text,
                        expected_value(row, expected), row->advise ? row->advise(text) : "");
}

/* Names ---------------------------------------------------------------------------------------- */

bool option_looks_so(const char *word)
{
    return word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1]));
}

static bool find_letter(const struct option_set *sets, char letter, struct found_option *found)
{
    for (const struct option_set *set = sets; set->rows; set++)
        for (const struct option_row *row = set->rows; row->name; row++)
            if (row->letter == letter) {
                *found = (struct found_option){row, set};
                return true;
            }
    return false;
}

/* The row of that name; else the only one whose name begins so. Returns how many rows it may be. */
static unsigned find_name(const struct option_set *sets, const char *name, size_t size,
                          struct found_option *found)
{
    unsigned beginnings = 0;
    for (const struct option_set *set = sets; set->rows; set++) {
        for (const struct option_row *row = set->rows; row->name; row++) {
            if (size == 0 || strncmp(row->name, name, size) != 0)
                continue;
            if (row->name[size] == '\0') {
                *found = (struct found_option){row, set};
                return 1;
            }
            if (beginnings++ == 0)
                *found = (struct found_option){row, set};
        }
    }
    return beginnings;
}

bool option_is_known(const struct option_set *sets, const char *word)
{
    struct found_option found;
    if (word[1] != '-')
        return find_letter(sets, word[1], &found);
    size_t size = strcspn(word + 2, "=");
    return find_name(sets, word + 2, size, &found) > 0 && strlen(found.row->name) == size;
}

static enum kv_status unknown_name(const struct option_set *sets, const char *hint,
                                   const char *name, int size, unsigned beginnings,
                                   struct kv_error *error)
{
    struct suggestion suggestion = SUGGESTION_NONE;
    char typed[64];
    snprintf(typed, sizeof typed, "%.*s", size, name);
    if (beginnings > 1)
        return kv_error_set(error, KV_USAGE,
                            "option '--%s' is ambiguous: %u options begin that way", typed,
                            beginnings);
    for (const struct option_set *set = sets; set->rows; set++)
        for (const struct option_row *row = set->rows; row->name; row++)
            suggest_consider(&suggestion, typed, row->name);
    if (suggestion.name)
        return kv_error_set(error, KV_USAGE, "unknown option '--%s'; did you mean --%s?", typed,
                            suggestion.name);
    return kv_error_set(error, KV_USAGE, "unknown option '--%s': %s", typed, hint);
}

/* Taking them ---------------------------------------------------------------------------------- */

static bool lacks_unit(const struct found_option *found, const char *value)
{
    const struct option_row *row = found->row;
    return found->set->with_units && row->kind == OPTION_DURATION_MS &&
           strcmp(row->argument, "MS") != 0 && parse_lacks_unit(value);
}

/* glued: the value that stands in the word of the option, or NULL. */
static enum kv_status take_option_value(const struct found_option *found, const char *glued,
                                        const char *next, bool *took_next, struct kv_error *error)
{
    const struct option_row *row = found->row;
    char expected[EXPECTED_BYTES];
    const char *value = glued ? glued : next;
    if (is_flag(row) && glued)
        return kv_error_set(error, KV_USAGE, "--%s takes no value, but '%.60s' was given",
                            row->name, glued);
    if (!is_flag(row) && !value)
        return kv_error_set(error, KV_USAGE, "--%s needs a value: %s", row->name,
                            expected_value(row, expected));
    *took_next = !is_flag(row) && !glued;
    if (*took_next && strncmp(next, "--", 2) == 0)
        return kv_error_set(error, KV_USAGE,
                            "--%s needs a value: %s; '%.60s' looks like an option (if you mean it: "
                            "--%s=%.60s)",
                            row->name, expected_value(row, expected), next, row->name, next);
    if (lacks_unit(found, value))
        return kv_error_set(error, KV_USAGE, "--%s: %.20s what? %.20ss or %.20sms", row->name,
                            value, value, value);
    if (!store_value(found, value))
        return bad_value(row, "--", value, error);
    note_origin(found, &(struct option_origin){.text = is_flag(row) ? "on" : value});
    return KV_OK;
}

/* letters: those behind the dash. */
static enum kv_status take_letters(const struct option_set *sets, const char *hint,
                                   const char *letters, const char *next, bool *took_next,
                                   struct kv_error *error)
{
    for (const char *letter = letters; *letter; letter++) {
        struct found_option found;
        if (!find_letter(sets, *letter, &found))
            return kv_error_set(error, KV_USAGE, "unknown option '-%c': %s", *letter, hint);
        bool flag = is_flag(found.row);
        const char *glued = flag || !letter[1] ? NULL : letter + 1;
        enum kv_status status = take_option_value(&found, glued, next, took_next, error);
        if (status != KV_OK || !flag)
            return status;
    }
    return KV_OK;
}

enum kv_status option_take(const struct option_set *sets, const char *hint, const char *word,
                           const char *next, bool *took_next, struct kv_error *error)
{
    *took_next = false;
    if (word[1] != '-')
        return take_letters(sets, hint, word + 1, next, took_next, error);
    const char *name = word + 2;
    size_t size = strcspn(name, "=");
    struct found_option found;
    unsigned matches = find_name(sets, name, size, &found);
    if (matches == 1 && found.set->whole_names && strlen(found.row->name) != size)
        return kv_error_set(error, KV_USAGE, "unknown option '--%.*s'; did you mean --%s?",
                            (int)size, name, found.row->name);
    if (matches != 1)
        return unknown_name(sets, hint, name, (int)size, matches, error);
    return take_option_value(&found, name[size] ? name + size + 1 : NULL, next, took_next, error);
}

static bool was_stopped(const struct option_set *sets)
{
    for (const struct option_set *set = sets; set->rows; set++)
        for (const struct option_row *row = set->rows; row->name; row++)
            if (row->kind == OPTION_STOP && *((const bool *)set->target + row->offset))
                return true;
    return false;
}

enum kv_status option_take_argv(const struct option_set *sets, const char *hint, int *argc,
                                char **argv, struct kv_error *error)
{
    int kept = 1;
    bool options_end = false;
    for (int i = 1; i < *argc; i++) {
        if (options_end || !option_looks_so(argv[i])) {
            argv[kept++] = argv[i];
        } else if (was_stopped(sets)) {
            continue;
        } else if (strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else {
            bool took_next;
            const char *next = i + 1 < *argc ? argv[i + 1] : NULL;
            enum kv_status status = option_take(sets, hint, argv[i], next, &took_next, error);
            if (status != KV_OK)
                return status;
            i += took_next;
        }
    }
    *argc = kept;
    return KV_OK;
}

static bool parse_switch(const char *text, bool *on)
{
    static const char *const names[] = {"off", "on", "no", "yes", "false", "true", "0", "1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *on = i % 2 == 1;
            return true;
        }
    }
    return false;
}

enum kv_status option_take_text(const struct option_set *set, const struct option_row *row,
                                const struct option_origin *origin, struct kv_error *error)
{
    struct found_option found = {row, set};
    if (is_flag(row)) {
        bool *field = (bool *)((char *)set->target + row->offset);
        if (!parse_switch(origin->text, field))
            return kv_error_set(error, KV_USAGE, "%s: '%.60s' is neither on nor off", row->name,
                                origin->text);
    } else if (!store_value(&found, origin->text)) {
        return bad_value(row, "", origin->text, error);
    }
    note_origin(&found, origin);
    return KV_OK;
}

static void print_option_row(FILE *stream, const struct option_row *row, int columns)
{
    char letter[5] = "   ", left[64];
    if (row->letter)
        snprintf(letter, sizeof letter, "-%c,", row->letter);
    snprintf(left, sizeof left, "%s --%s%s%s", letter, row->name, row->argument ? " " : "",
             row->argument ? row->argument : "");
    if ((int)strlen(left) > columns)
        fprintf(stream, "  %s\n  %*s %s\n", left, columns, "", row->help);
    else
        fprintf(stream, "  %-*s %s\n", columns, left, row->help);
}

void option_print_help(FILE *stream, const struct option_row *rows, int columns)
{
    for (const struct option_row *row = rows; row && row->name; row++)
        print_option_row(stream, row, columns);
}

static bool is_below(const struct option_row *row, const struct option_heading *heading)
{
    if (row->page != heading->page || !row->section != !heading->section)
        return false;
    return !row->section || strcmp(row->section, heading->section) == 0;
}

void option_print_section(FILE *stream, const struct option_row *rows,
                          const struct option_heading *heading, int columns)
{
    bool has_title = false;
    for (const struct option_row *row = rows; row->name; row++) {
        if (!is_below(row, heading))
            continue;
        if (!has_title)
            fprintf(stream, "\n%s\n", heading->title);
        has_title = true;
        print_option_row(stream, row, columns);
    }
}

void option_print_version(FILE *stream, const char *program)
{
#ifdef MQKV_SANITIZER
    fprintf(stream, "%s " MQKV_VERSION " (built with " MQKV_SANITIZER ")\n", program);
#else
    fprintf(stream, "%s " MQKV_VERSION "\n", program);
#endif
}
