#include "clientk/program/commands/range_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/whole_scan.h"
#include "common/report/error.h"
#include "common/text/escape.h"

const struct option_row count_option_rows[] = {
    {"from", 0, OPTION_TEXT, "KEY", "only keys from this one on",
     OPTION_FIELD(struct count_options, bounds.from), .expects = "a key"},
    {"to", 0, OPTION_TEXT, "KEY", "only keys before this one",
     OPTION_FIELD(struct count_options, bounds.to), .expects = "a key"},
    {"prefix", 0, OPTION_TEXT, "PREFIX", "only keys that begin so",
     OPTION_FIELD(struct count_options, bounds.prefix), .expects = "a prefix"},
    {.name = NULL},
};
const struct count_options count_option_defaults = {.bounds = {.from = NULL}};

const struct option_row one_key_option_rows[] = {
    {"prefix", 0, OPTION_TEXT, "PREFIX", "of the keys that begin so",
     OPTION_FIELD(struct one_key_options, bounds.prefix), .expects = "a prefix"},
    {"keys", 0, OPTION_FLAG, NULL, "print the key only",
     OPTION_FIELD(struct one_key_options, keys_only)},
    {.name = NULL},
};
const struct one_key_options one_key_option_defaults = {.keys_only = false};

bool range_bounds_are_given(const struct range_bounds *bounds)
{
    return bounds->from || bounds->to || bounds->prefix || bounds->reverse;
}

static struct kv_slice slice_of_option(const char *text)
{
    return text ? kv_slice(text, strlen(text)) : kv_slice(NULL, 0);
}

enum kv_status range_bounds_take(const struct range_bounds *bounds, const struct word *operands,
                                 size_t count, struct clientk_range *range, struct kv_error *error)
{
    *range = (struct clientk_range){.reverse = bounds->reverse};
    if (bounds->prefix && count > 0)
        return kv_error_set(error, KV_USAGE, "give the prefix once, as PREFIX or with --prefix");
    range->from = slice_of_option(bounds->from);
    range->to = slice_of_option(bounds->to);
    range->prefix = count > 0 ? word_slice(&operands[0]) : slice_of_option(bounds->prefix);
    return KV_OK;
}

enum kv_status range_visit_all(struct cli_context *context, const char *command,
                               const struct clientk_range *range, clientk_visit visit,
                               void *visit_context, uint64_t *left_out)
{
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    *left_out = 0;
    enum kv_status status = clientk_cursor_open(context->client, range, &cursor);
    while (status == KV_OK) {
        status = clientk_cursor_next(cursor, &entry);
        bool passed_over = status == KV_CORRUPT || status == KV_IO;
        if (status == KV_OK && !visit(visit_context, &entry))
            break;
        if (passed_over && !range->atomic) {
            if ((*left_out)++ < WHOLE_SCAN_TOLD)
                output_failure(&context->output, command, status, cli_sentence(status));
            status = KV_OK;
        }
    }
    clientk_cursor_close(cursor);
    return status == KV_NOT_FOUND ? KV_OK : status;
}

void range_hint_pattern(const struct cli_context *context, const char *command,
                        struct kv_slice prefix)
{
    bool is_read = context->output.one_shot || context->interactive;
    if (!is_read || prefix.size == 0 ||
        (!memchr(prefix.data, '*', prefix.size) && !memchr(prefix.data, '?', prefix.size)))
        return;
    fprintf(stderr, "clientk: %s: no key begins with ", command);
    escape_print_word(stderr, prefix);
    fputs(": a prefix is no pattern; scan --match takes one\n", stderr);
}

/* Counting ------------------------------------------------------------------------------------- */

/* A clientk_visit. */
static bool count_entry(void *context, const struct clientk_entry *entry)
{
    uint64_t *found = context;
    (void)entry;
    *found += 1;
    return !interrupt_pending();
}

/* Of a server without order: every key is looked at. */
static enum kv_status count_by_scan(struct cli_context *context, struct kv_slice prefix,
                                    uint64_t *found, uint64_t *left_out)
{
    struct whole_scan scan = {.command = "count",
                              .prefix = prefix,
                              .keys_only = true,
                              .visit = count_entry,
                              .context = found};
    *found = 0;
    return whole_scan_run(context, &scan, left_out);
}

int count_run(struct cli_context *context, const void *options_given, const struct word *operands,
              size_t count)
{
    const struct count_options *options = options_given;
    struct kv_error error = {0};
    struct clientk_range range;
    uint64_t found = 0, left_out = 0;
    if (range_bounds_take(&options->bounds, operands, count, &range, &error) != KV_OK)
        return output_failure(&context->output, "count", error.status, error.text);
    int code = cli_connect_for(context, "count");
    if (code != EXIT_DONE)
        return code;
    enum kv_status status = clientk_count_range(context->client, &range, &found);
    bool by_prefix = range.from.size == 0 && range.to.size == 0;
    if ((status == KV_UNSUPPORTED || status == KV_BUSY) && by_prefix)
        status = count_by_scan(context, range.prefix, &found, &left_out);
    if (interrupt_pending())
        return output_failure(&context->output, "count", KV_TIMEOUT, "interrupted");
    if (status != KV_OK)
        return output_failure(&context->output, "count", status, cli_sentence(status));
    if (found == 0)
        range_hint_pattern(context, "count", range.prefix);
    struct answer answer = {.command = "count", .has_number = true, .number = (int64_t)found};
    code = output_answer(&context->output, &answer);
    return left_out > 0 ? EXIT_REFUSED : code;
}

/* One entry ------------------------------------------------------------------------------------ */

static int print_entry(struct cli_context *context, const char *command,
                       const struct one_key_options *options, struct clientk_range *range)
{
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    int code = cli_connect_for(context, command);
    if (code != EXIT_DONE)
        return code;
    range->limit = 1;
    range->keys_only = options->keys_only;
    enum kv_status status = clientk_cursor_open(context->client, range, &cursor);
    if (status == KV_OK)
        status = clientk_cursor_next(cursor, &entry);
    if (status == KV_OK) {
        const char *value = entry.value.data ? entry.value.data : "";
        output_entry(&context->output, entry.key,
                     kv_slice(options->keys_only ? NULL : value, entry.value.size), entry.version,
                     entry.expiry_ms);
    } else if (status == KV_NOT_FOUND) {
        struct answer answer = {.command = command, .status = status};
        range_hint_pattern(context, command, range->prefix);
        code = output_answer(&context->output, &answer);
    } else {
        code = output_failure(&context->output, command, status, cli_sentence(status));
    }
    clientk_cursor_close(cursor);
    return code;
}

static int print_end(struct cli_context *context, const char *command, const void *options_given,
                     const struct word *operands, size_t count, bool reverse)
{
    const struct one_key_options *options = options_given;
    struct range_bounds bounds = options->bounds;
    struct kv_error error = {0};
    struct clientk_range range;
    bounds.reverse = reverse;
    if (range_bounds_take(&bounds, operands, count, &range, &error) != KV_OK)
        return output_failure(&context->output, command, error.status, error.text);
    return print_entry(context, command, options, &range);
}

int first_run(struct cli_context *context, const void *options, const struct word *operands,
              size_t count)
{
    return print_end(context, "first", options, operands, count, false);
}

int last_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count)
{
    return print_end(context, "last", options, operands, count, true);
}

int next_run(struct cli_context *context, const void *options_given, const struct word *operands,
             size_t count)
{
    const struct one_key_options *options = options_given;
    struct clientk_range range = {.from = word_slice(&operands[0]),
                                  .behind_from = true,
                                  .prefix = slice_of_option(options->bounds.prefix)};
    (void)count;
    return print_entry(context, "next", options, &range);
}

int previous_run(struct cli_context *context, const void *options_given,
                 const struct word *operands, size_t count)
{
    const struct one_key_options *options = options_given;
    struct clientk_range range = {.to = word_slice(&operands[0]),
                                  .reverse = true,
                                  .prefix = slice_of_option(options->bounds.prefix)};
    (void)count;
    if (range.to.size == 0)
        return output_failure(&context->output, "previous", KV_BAD_KEY, "a key is not empty");
    return print_entry(context, "previous", options, &range);
}
