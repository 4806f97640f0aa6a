#include "tools/ops/stats.h"

#include <math.h>
#include <string.h>

#include "common/text/escape.h"
#include "common/text/parse.h"

#define MAX_COLUMNS 64 /* of a table, as far as the server is believed; it has 27 */
#define PATH_BYTES  160

static bool ends_with(const char *text, const char *end)
{
    size_t text_size = strlen(text), end_size = strlen(end);
    return text_size >= end_size && strcmp(text + text_size - end_size, end) == 0;
}

static bool is_scalar(const struct json_value *value)
{
    return value->kind != JSON_OBJECT && value->kind != JSON_ARRAY;
}

char *stats_format_number(const char *name, const struct json_value *number, char buffer[48])
{
    char fitting[32];
    bool whole = number->number >= 0 && number->number < 1e18;
    if (whole && number->number >= 1024 && ends_with(name, "bytes"))
        snprintf(buffer, 48, "%.20s (%s)", number->text,
                 format_size((uint64_t)number->number, fitting));
    else if (whole && number->number >= 1 && ends_with(name, "_ns"))
        snprintf(buffer, 48, "%s", format_duration_ns((uint64_t)number->number, fitting));
    else
        snprintf(buffer, 48, "%.40s", number->text);
    return buffer;
}

/* Prints only printable characters to the terminal, since strings come from the server. */
static void print_scalar(FILE *stream, const char *name, const struct json_value *value)
{
    char buffer[48];
    if (value->kind == JSON_NUMBER)
        fputs(stats_format_number(name, value, buffer), stream);
    else
        escape_print_text(stream, value->text);
}

/* Sections of a page have a blank line between them. */
struct page {
    FILE *stream;
    bool started;
};

static void print_heading(struct page *page, const char *path)
{
    if (page->started)
        fputc('\n', page->stream);
    page->started = true;
    if (*path) {
        escape_print_text(page->stream, path);
        fputc('\n', page->stream);
    }
}

/* Returns true for an array of objects or an object whose members are all objects: rows of a
 * table. */
static bool is_table(const struct json_value *value)
{
    if (is_scalar(value) || !value->first || !value->first->next)
        return false;
    for (const struct json_value *row = value->first; row; row = row->next) {
        if (row->kind != JSON_OBJECT)
            return false;
        for (const struct json_value *field = row->first; field; field = field->next)
            if (!is_scalar(field))
                return false;
    }
    return true;
}

/* Collects the columns: the names of all rows' members, in the order in which they are first
 * seen. */
static size_t collect_columns(const struct json_value *table, const char *columns[MAX_COLUMNS])
{
    size_t count = 0;
    for (const struct json_value *row = table->first; row; row = row->next) {
        for (const struct json_value *field = row->first; field; field = field->next) {
            size_t i = 0;
            while (i < count && strcmp(columns[i], field->name) != 0)
                i++;
            if (i == count && count < MAX_COLUMNS)
                columns[count++] = field->name;
        }
    }
    return count;
}

static const char *stats_cell_text(const struct json_value *row, const char *column,
                                   char buffer[48])
{
    const struct json_value *cell = json_member(row, column);
    if (!cell)
        return "-";
    snprintf(buffer, 48, "%.40s", cell->text);
    return escape_is_printable(kv_slice_from_string(buffer), false) ? buffer : "?";
}

static int stats_column_width(const struct json_value *table, const char *column)
{
    char buffer[48];
    size_t width = strlen(column);
    for (const struct json_value *row = table->first; row; row = row->next) {
        size_t cell = strlen(stats_cell_text(row, column, buffer));
        if (cell > width)
            width = cell;
    }
    return (int)width;
}

static int row_name_width(const struct json_value *table)
{
    size_t width = 0;
    for (const struct json_value *row = table->first; row; row = row->next)
        if (row->name && strlen(row->name) > width)
            width = strlen(row->name);
    return (int)width;
}

static void print_stats_table(FILE *stream, const struct json_value *table)
{
    const char *columns[MAX_COLUMNS];
    char buffer[48];
    int widths[MAX_COLUMNS], name_width = row_name_width(table);
    size_t count = collect_columns(table, columns);
    fprintf(stream, "  %-*s", name_width, "");
    for (size_t i = 0; i < count; i++) {
        widths[i] = stats_column_width(table, columns[i]);
        fprintf(stream, "  %*s", widths[i], columns[i]);
    }
    fputc('\n', stream);
    for (const struct json_value *row = table->first; row; row = row->next) {
        fprintf(stream, "  %-*s", name_width, row->name ? row->name : "");
        for (size_t i = 0; i < count; i++)
            fprintf(stream, "  %*s", widths[i], stats_cell_text(row, columns[i], buffer));
        fputc('\n', stream);
    }
}

static bool has_scalars(const struct json_value *value)
{
    for (const struct json_value *child = value->first; child; child = child->next)
        if (is_scalar(child))
            return true;
    return false;
}

static void print_list(FILE *stream, const struct json_value *object)
{
    int width = 0;
    for (const struct json_value *member = object->first; member; member = member->next)
        if (is_scalar(member) && member->name && (int)strlen(member->name) > width)
            width = (int)strlen(member->name);
    for (const struct json_value *member = object->first; member; member = member->next) {
        const char *name = member->name ? member->name : "";
        if (!is_scalar(member))
            continue;
        fprintf(stream, "  %-*s  ", width, name);
        print_scalar(stream, name, member);
        fputc('\n', stream);
    }
}

/* Prints the scalar members as a list, then each other member under its own heading. */
static void print_section(struct page *page, const struct json_value *value, const char *path)
{
    if (is_table(value)) {
        print_heading(page, path);
        print_stats_table(page->stream, value);
        return;
    }
    if (has_scalars(value)) {
        print_heading(page, path);
        print_list(page->stream, value);
    }
    for (const struct json_value *member = value->first; member; member = member->next) {
        char part[PATH_BYTES];
        snprintf(part, PATH_BYTES, "%.70s%s%.70s", path, *path && member->name ? "." : "",
                 member->name ? member->name : "");
        if (!is_scalar(member))
            print_section(page, member, part);
    }
}

void stats_print(FILE *stream, const struct json_value *document)
{
    struct page page = {stream, false};
    if (is_scalar(document)) {
        print_scalar(stream, "", document);
        fputc('\n', stream);
    } else {
        print_section(&page, document, "");
    }
}

/* Reports that there is no such section; the sections are the members of the complete
 * statistics. */
static int refuse_section(struct cli_context *context, const char *asked)
{
    char names[256] = "";
    struct clientk_value text = {0};
    enum kv_status status = clientk_stats(context->client, NULL, &text);
    struct json_value *document = status == KV_OK ? json_parse(text.data, text.size) : NULL;
    clientk_value_free(&text);
    size_t used = 0;
    for (const struct json_value *section = document ? document->first : NULL;
         section && section->name && used < sizeof names; section = section->next)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : ": ",
                                 section->name);
    json_free(document);
    char sentence[384];
    snprintf(sentence, sizeof sentence, "there is no section '%.40s'; stats alone shows all%s",
             asked, names);
    return output_failure(&context->output, "stats", KV_USAGE, sentence);
}

int stats_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count)
{
    (void)options;
    int code = cli_connect_for(context, "stats");
    if (code != EXIT_DONE)
        return code;
    struct clientk_value text = {0};
    enum kv_status status =
        clientk_stats(context->client, count > 0 ? operands[0].data : NULL, &text);
    if (status == KV_NOT_FOUND) {
        clientk_value_free(&text);
        return refuse_section(context, count > 0 ? operands[0].data : "");
    }
    if (status != KV_OK) {
        clientk_value_free(&text);
        return output_failure(&context->output, "stats", status, cli_sentence(status));
    }
    struct json_value *document = context->output.format == OUTPUT_JSON || text.size == 0
                                      ? NULL
                                      : json_parse(text.data, text.size);
    if (document) {
        stats_print(context->output.stream, document);
    } else {
        escape_print_document(context->output.stream, text.size > 0 ? kv_slice(text.data, text.size)
                                                                    : kv_slice_from_string("{}"));
        fputc('\n', context->output.stream);
    }
    json_free(document);
    clientk_value_free(&text);
    return EXIT_DONE;
}
