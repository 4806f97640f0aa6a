#include "serverk/config/option_file.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/text/suggest.h"

/* A file that is being read. */
struct open_file {
    const char *name;
    FILE *stream;
    const struct option_set *set;
    struct access_rules **access;
    unsigned line;         /* that was read last, or that the failure is about */
    unsigned section_line; /* where the section begins */
    enum kv_status status; /* of the first failure; nothing is taken after it */
    struct kv_error *error;
};

static enum kv_status fail_option_file(struct open_file *open, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum kv_status fail_option_file(struct open_file *open, const char *format, ...)
{
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    open->status = kv_error_set(open->error, KV_USAGE, "%s:%u: %s", open->name, open->line, text);
    return open->status;
}

/* Names ---------------------------------------------------------------------------------------- */

static const struct option_row *find_option_row(const struct option_row *rows, const char *name)
{
    for (const struct option_row *row = rows; row->name; row++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

static bool has_section(const struct option_row *rows, const char *section)
{
    for (const struct option_row *row = rows; row->name; row++)
        if (row->section && strcmp(row->section, section) == 0)
            return true;
    return false;
}

static void explain_section(struct open_file *open, const char *section)
{
    struct suggestion suggestion = SUGGESTION_NONE;
    for (const struct option_row *row = open->set->rows; row->name; row++)
        if (row->section)
            suggest_consider(&suggestion, section, row->section);
    open->line = open->section_line;
    fail_option_file(open, "unknown section [%.40s]%s%s%s", section,
                     suggestion.name ? "; did you mean [" : "",
                     suggestion.name ? suggestion.name : "", suggestion.name ? "]?" : "");
}

static void explain_name(struct open_file *open, const char *section, const char *name)
{
    const struct option_row *row = find_option_row(open->set->rows, name);
    struct suggestion suggestion = SUGGESTION_NONE;
    if (row && !row->section) {
        fail_option_file(open, "'%.40s' can be given on the command line only", name);
        return;
    }
    if (row) {
        fail_option_file(open, "'%.40s' belongs to section [%s], not [%.40s]", name, row->section,
                         section);
        return;
    }
    for (row = open->set->rows; row->name; row++)
        if (row->section)
            suggest_consider(&suggestion, name, row->name);
    fail_option_file(open, "unknown key '%.40s'%s%s%s", name,
                     suggestion.name ? "; did you mean '" : "",
                     suggestion.name ? suggestion.name : "", suggestion.name ? "'?" : "");
}

/* Values --------------------------------------------------------------------------------------- */

static void take_file_value(struct open_file *open, const struct option_row *row, const char *value)
{
    const struct option_set *set = open->set;
    const struct option_origin *given = &set->origins[row - set->rows];
    struct kv_error error;
    if (given->text && given->file == open->name) {
        fail_option_file(open, "'%s' stands here for the second time; the first is in line %u",
                         row->name, given->line);
        return;
    }
    if (given->text) /* the command line says otherwise */
        return;
    char *text = strdup(value);
    struct option_origin origin = {.text = text, .file = open->name, .line = open->line};
    if (!text) {
        open->status = kv_error_set(open->error, KV_NO_MEMORY, "%s: out of memory", open->name);
    } else if (option_take_text(set, row, &origin, &error) != KV_OK) {
        fail_option_file(open, "%s", error.text);
        free(text);
    }
}

static void take_access_line(struct open_file *open, const char *section, const char *name,
                             const char *value)
{
    struct kv_error error;
    if (access_rules_take(open->access, section, name, value, open->section_line, &open->line,
                          &error) != KV_OK)
        fail_option_file(open, "%s", error.text);
}

/* An ini_handler: 0 tells inih that the line is wrong. */
static int take_option_line(void *context, const char *section, const char *name, const char *value)
{
    struct open_file *open = context;
    const struct option_row *row = find_option_row(open->set->rows, name);
    if (open->status != KV_OK)
        return 0;
    if (section[0] == '\0')
        fail_option_file(open, "'%.40s' stands before the first section%s%s%s", name,
                         row && row->section ? "; it belongs below [" : "",
                         row && row->section ? row->section : "", row && row->section ? "]" : "");
    else if (access_rules_know(section))
        take_access_line(open, section, name, value);
    else if (!has_section(open->set->rows, section))
        explain_section(open, section);
    else if (!row || !row->section || strcmp(row->section, section) != 0)
        explain_name(open, section, name);
    else
        take_file_value(open, row, value);
    return open->status == KV_OK;
}

/* An ini_reader: as fgets, and counts lines. */
static char *read_option_line(char *line, int room, void *context)
{
    struct open_file *open = context;
    if (open->status != KV_OK || !fgets(line, room, open->stream))
        return NULL;
    open->line++;
    size_t size = strlen(line);
    /* For inih an indented line continues the one before. */
    size_t indent = strspn(line, " \t");
    memmove(line, line + indent, size - indent + 1);
    size -= indent;
    if (line[0] == '[')
        open->section_line = open->line;
    if (size > 0 && line[size - 1] != '\n' && !feof(open->stream)) {
        fail_option_file(open, "the line is longer than %u bytes, or has a NUL",
                         OPTION_FILE_LINE_BYTES);
        return NULL;
    }
    return line;
}

/* Opening -------------------------------------------------------------------------------------- */

static enum kv_status check_kind(const char *name, int fd, struct kv_error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return kv_error_set_errno(error, "%s: cannot be read", name);
    if (!S_ISREG(status.st_mode))
        return kv_error_set(error, KV_USAGE, "%s: not a regular file", name);
    if (status.st_size > OPTION_FILE_MAX_BYTES)
        return kv_error_set(error, KV_USAGE, "%s: longer than a configuration can be (1 MiB)",
                            name);
    return KV_OK;
}

enum kv_status option_file_take(const char *file, const struct option_set *set,
                                struct access_rules **access, struct kv_error *error)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return kv_error_set_errno(error, "%s: cannot be opened", file);
    enum kv_status status = check_kind(file, fd, error);
    FILE *stream = status == KV_OK ? fdopen(fd, "r") : NULL;
    if (!stream) {
        close(fd);
        return status == KV_OK ? kv_error_set(error, KV_NO_MEMORY, "%s: out of memory", file)
                               : status;
    }
    struct open_file open = {
        .name = file, .stream = stream, .set = set, .access = access, .error = error};
    int wrong_line = ini_parse_stream(read_option_line, &open, take_option_line, &open);
    bool unreadable = ferror(stream) != 0;
    fclose(stream);
    struct kv_error wrong;
    if (open.status == KV_OK && wrong_line == 0 && !unreadable &&
        access_rules_finish(*access, &open.line, &wrong) != KV_OK)
        fail_option_file(&open, "%s", wrong.text);
    if (open.status != KV_OK)
        return open.status;
    if (unreadable)
        return kv_error_set(error, KV_IO, "%s: cannot be read", file);
    if (wrong_line < 0)
        return kv_error_set(error, KV_NO_MEMORY, "%s: out of memory", file);
    if (wrong_line > 0)
        return kv_error_set(error, KV_USAGE,
                            "%s:%d: neither [section], nor name = value, nor a comment", file,
                            wrong_line);
    return KV_OK;
}
