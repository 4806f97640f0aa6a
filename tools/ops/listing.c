#include "tools/ops/listing.h"

#include <stdio.h>
#include <string.h>

#include "common/text/escape.h"

/* The width of a cell in a table; only the last column may be wider. */
#define CELL_BYTES 48u

static const char *listing_member_text(const struct json_value *row, const char *member)
{
    const struct json_value *cell = json_member(row, member);
    return cell && cell->text ? cell->text : "-";
}

/* Returns the text of the cell in printable characters: others wrote it, and it must not reach the
 * terminal as it is. */
static const char *listing_cell_text(const struct json_value *row, const char *member,
                                     char buffer[CELL_BYTES])
{
    snprintf(buffer, CELL_BYTES, "%.*s", (int)CELL_BYTES - 1, listing_member_text(row, member));
    return escape_is_printable(kv_slice_from_string(buffer), false) ? buffer : "?";
}

static int listing_column_width(const struct json_value *rows, const struct listing_column *column)
{
    char buffer[CELL_BYTES];
    size_t width = strlen(column->heading);
    for (const struct json_value *row = rows->first; row; row = row->next) {
        size_t size = strlen(listing_cell_text(row, column->member, buffer));
        if (size > width)
            width = size;
    }
    return (int)width;
}

static void print_listing_table(FILE *stream, const struct json_value *rows,
                                const struct listing_column *columns, size_t count)
{
    char buffer[CELL_BYTES];
    int widths[LISTING_MAX_COLUMNS] = {0}; /* below 0: aligned to the left */
    for (size_t i = 0; i < count; i++) {
        int width = i + 1 < count ? listing_column_width(rows, &columns[i]) : 0;
        widths[i] = columns[i].is_number ? width : -width;
        fprintf(stream, "%s%*s", i > 0 ? "  " : "", widths[i], columns[i].heading);
    }
    fputc('\n', stream);
    for (const struct json_value *row = rows->first; row; row = row->next) {
        for (size_t i = 0; i + 1 < count; i++)
            fprintf(stream, "%*s  ", widths[i], listing_cell_text(row, columns[i].member, buffer));
        escape_print_text(stream, listing_member_text(row, columns[count - 1].member));
        fputc('\n', stream);
    }
}

static void print_listing_raw(FILE *stream, const struct json_value *rows,
                              const struct listing_column *columns, size_t count)
{
    for (const struct json_value *row = rows->first; row; row = row->next)
        for (size_t i = 0; i < count; i++)
            fprintf(stream, "%s%c", listing_member_text(row, columns[i].member),
                    i + 1 < count ? '\t' : '\n');
}

static void print_listing_csv(FILE *stream, const struct json_value *rows,
                              const struct listing_column *columns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "%s%c", columns[i].member, i + 1 < count ? ',' : '\n');
    for (const struct json_value *row = rows->first; row; row = row->next)
        for (size_t i = 0; i < count; i++) {
            output_csv_bytes(stream,
                             kv_slice_from_string(listing_member_text(row, columns[i].member)));
            fputc(i + 1 < count ? ',' : '\n', stream);
        }
}

void listing_print(struct output *output, struct kv_slice json, const struct json_value *document,
                   const struct listing_column *columns, size_t count)
{
    switch (output->format) {
    case OUTPUT_TEXT:
        print_listing_table(output->stream, document, columns, count);
        break;
    case OUTPUT_RAW:
        print_listing_raw(output->stream, document, columns, count);
        break;
    case OUTPUT_JSON:
        escape_print_document(output->stream, json);
        fputc('\n', output->stream);
        break;
    case OUTPUT_CSV:
        print_listing_csv(output->stream, document, columns, count);
        break;
    }
}

bool listing_print_cell(struct output *output, const struct json_value *document,
                        const char *member)
{
    const struct json_value *cell = json_member(document->first, member);
    if (!cell || !cell->text)
        return false;
    escape_print_text(output->stream, cell->text);
    fputc('\n', output->stream);
    return true;
}

enum kv_status listing_print_text(struct output *output, struct kv_slice json,
                                  const struct listing_column *columns, size_t count)
{
    struct json_value *document = json_parse(json.data, json.size);
    if (!document)
        return KV_IO;
    listing_print(output, json, document, columns, count);
    json_free(document);
    return KV_OK;
}
