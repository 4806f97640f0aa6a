#include "clientk/program/commands/scan_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/whole_scan.h"
#include "common/text/glob.h"

const struct option_row scan_option_rows[] = {
    {"limit", 0, OPTION_NUMBER, "N", "stop after N entries",
     OPTION_FIELD(struct scan_options, limit), .min = 1, .max = UINT64_MAX},
    {"keys", 0, OPTION_FLAG, NULL, "print keys only", OPTION_FIELD(struct scan_options, keys_only)},
    {"count", 0, OPTION_FLAG, NULL, "print only how many there are",
     OPTION_FIELD(struct scan_options, count_only)},
    {"atomic", 0, OPTION_FLAG, NULL, "a consistent view of each data file, under its reader lock",
     OPTION_FIELD(struct scan_options, atomic)},
    {"match", 0, OPTION_TEXT, "PATTERN", "only keys that match: * ? [a-z] [^a-z], \\ before others",
     OPTION_FIELD(struct scan_options, match), .expects = "a pattern"},
    {"from", 0, OPTION_TEXT, "KEY", "in order, from this key on",
     OPTION_FIELD(struct scan_options, bounds.from), .expects = "a key"},
    {"to", 0, OPTION_TEXT, "KEY", "in order, up to this key, without it",
     OPTION_FIELD(struct scan_options, bounds.to), .expects = "a key"},
    {"prefix", 0, OPTION_TEXT, "PREFIX", "in order, keys that begin so",
     OPTION_FIELD(struct scan_options, bounds.prefix), .expects = "a prefix"},
    {"reverse", 0, OPTION_FLAG, NULL, "in order, the last key first",
     OPTION_FIELD(struct scan_options, bounds.reverse)},
    {.name = NULL},
};
const struct scan_options scan_option_defaults = {0};

struct listing {
    struct output *output;
    const struct scan_options *options;
    struct kv_slice pattern; /* data NULL: none */
    int64_t found;
    bool gave_up; /* the pattern takes too many steps */
};

/* Each key has as many steps as any sensible pattern needs. */
static bool is_wanted(struct listing *scan, struct kv_slice key)
{
    uint64_t steps = glob_steps(key.size);
    bool matches = !scan->pattern.data || glob_matches(scan->pattern, key, false, &steps);
    scan->gave_up = steps == 0;
    return matches;
}

/* A clientk_visit. */
static bool list_entry(void *context, const struct clientk_entry *entry)
{
    struct listing *scan = context;
    if (!is_wanted(scan, entry->key))
        return !scan->gave_up && !interrupt_pending();
    scan->found++;
    if (!scan->options->count_only)
        output_entry(scan->output, entry->key,
                     scan->options->keys_only
                         ? kv_slice(NULL, 0)
                         : kv_slice(entry->value.data ? entry->value.data : "", entry->value.size),
                     entry->version, entry->expiry_ms);
    bool reached_limit = scan->pattern.data && (uint64_t)scan->found == scan->options->limit;
    return !reached_limit && !interrupt_pending() && !ferror(scan->output->stream);
}

static enum kv_status visit_all(struct cli_context *context, const struct clientk_range *range,
                                struct listing *scan, uint64_t *left_out)
{
    const struct scan_options *options = scan->options;
    struct kv_slice prefix = range->prefix;
    bool keys_only = options->keys_only || options->count_only;
    uint64_t limit = options->match ? 0 : options->limit; /* list_entry counts what matches */
    *left_out = 0;
    if (range_bounds_are_given(&options->bounds)) {
        struct clientk_range ordered = *range;
        ordered.keys_only = keys_only;
        ordered.atomic = options->atomic;
        ordered.limit = limit;
        return range_visit_all(context, "scan", &ordered, list_entry, scan, left_out);
    }
    if (options->atomic)
        return clientk_scan_atomic(context->client, prefix, keys_only, list_entry, scan);
    struct whole_scan whole = {.command = "scan",
                               .prefix = prefix,
                               .keys_only = keys_only,
                               .limit = limit,
                               .visit = list_entry,
                               .context = scan};
    return whole_scan_run(context, &whole, left_out);
}

int scan_run(struct cli_context *context, const void *options_given, const struct word *operands,
             size_t count)
{
    const struct scan_options *options = options_given;
    if (options->atomic && options->limit > 0)
        return output_failure(&context->output, "scan", KV_USAGE,
                              "--atomic lists everything: leave out --limit");
    struct kv_error error = {0};
    struct clientk_range range;
    if (range_bounds_take(&options->bounds, operands, count, &range, &error) != KV_OK)
        return output_failure(&context->output, "scan", error.status, error.text);
    struct listing scan = {.output = &context->output, .options = options};
    if (options->match)
        scan.pattern = kv_slice(options->match, strlen(options->match));
    if (options->match && range.prefix.size == 0)
        range.prefix = glob_literal_prefix(scan.pattern);
    int code = cli_connect_for(context, "scan");
    if (code != EXIT_DONE)
        return code;
    if (context->output.one_shot) /* only this thread writes */
        __fsetlocking(context->output.stream, FSETLOCKING_BYCALLER);
    uint64_t left_out;
    enum kv_status status = visit_all(context, &range, &scan, &left_out);
    bool ordered = range_bounds_are_given(&options->bounds);
    if (status == KV_LIMIT && options->atomic && ordered)
        return output_failure(&context->output, "scan", status,
                              "the range has too many entries to read them at one moment");
    if (status == KV_LIMIT && options->atomic)
        return output_failure(
            &context->output, "scan", status,
            "a data file holds too many entries to read them under one lock; leave out "
            "--atomic, or create the store with more data files (serverk -d)");
    if ((status == KV_CORRUPT || status == KV_IO) && options->atomic)
        return output_failure(&context->output, "scan", status,
                              "a record is damaged or cannot be read; without --atomic all others "
                              "are listed");
    bool interrupted = interrupt_pending(); /* between two pages, or while one was waited for */
    if (status != KV_OK && !(interrupted && scan.found > 0))
        return output_failure(&context->output, "scan", status, cli_sentence(status));
    if (interrupted) {
        char sentence[64];
        snprintf(sentence, sizeof sentence, "interrupted after %" PRId64 " entries", scan.found);
        return output_failure(&context->output, "scan", KV_TIMEOUT, sentence);
    }
    if (scan.gave_up)
        return output_failure(&context->output, "scan", KV_LIMIT,
                              "a key takes too long to compare with the pattern: use fewer sets "
                              "and stars");
    if (scan.found == 0)
        range_hint_pattern(context, "scan", range.prefix);
    if (options->count_only) {
        struct answer answer = {.command = "scan", .has_number = true, .number = scan.found};
        output_answer(&context->output, &answer);
    } else {
        output_begin_entries(&context->output); /* even where there are no entries */
    }
    return left_out > 0 ? EXIT_REFUSED : EXIT_DONE;
}
