#include "clientk/program/commands/clear_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/progress.h"
#include "clientk/program/commands/key_command.h"
#include "clientk/program/commands/range_command.h"
#include "common/text/escape.h"

const struct option_row clear_option_rows[] = {
    {"yes", 'y', OPTION_FLAG, NULL, "do not ask", OPTION_FIELD(struct clear_options, yes)},
    {.name = NULL},
};
const struct clear_options clear_option_defaults = {0};

/* Asks at the terminal; true: the answer is "yes". */
static bool is_confirmed(const struct cli_context *context, struct kv_slice prefix)
{
    char line[16];
    fprintf(stderr, "Delete ");
    if (prefix.size > 0) {
        fputs("all entries whose key begins with ", stderr);
        escape_print(stderr, prefix);
    } else {
        fputs("ALL entries", stderr);
    }
    fprintf(stderr, " of %s? Type yes: ", context->global.queue);
    return fgets(line, sizeof line, stdin) && strcmp(line, "yes\n") == 0;
}

static int fail_clear(struct cli_context *context, const char *command, enum kv_status status,
                      uint64_t deleted, const char *why)
{
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%.400s; %" PRIu64 " entries were deleted", why, deleted);
    return output_failure(&context->output, command, status, sentence);
}

/* Looks at every key. */
static enum kv_status delete_by_scan(struct cli_context *context, struct kv_slice prefix,
                                     struct progress *progress, uint64_t *total)
{
    uint64_t deleted = 0, cursor = 0;
    enum kv_status status;
    progress_watch(progress, &deleted);
    do {
        status = clientk_delete_prefix(context->client, prefix, &cursor, &deleted);
        *total += deleted;
    } while (status == KV_OK && cursor != 0 && !interrupt_pending());
    return status;
}

/* Whether a scan may succeed: there is no order, or the user may not write all that begins so, but
 * perhaps all that there is. */
static bool should_scan_instead(enum kv_status status)
{
    return status == KV_UNSUPPORTED || status == KV_BUSY || status == KV_DENIED;
}

static int delete_by_prefix(struct cli_context *context, const char *command,
                            struct kv_slice prefix)
{
    const struct clientk_range range = {.prefix = prefix};
    uint64_t total = 0;
    struct progress progress;
    progress_start(&progress, "entries deleted", false);
    progress_watch(&progress, &total);
    enum kv_status status = clientk_delete_range(context->client, &range, &total);
    if (should_scan_instead(status) && !interrupt_pending())
        status = delete_by_scan(context, prefix, &progress, &total);
    progress_end(&progress);
    if (interrupt_pending())
        return fail_clear(context, command, KV_TIMEOUT, total, "interrupted");
    if (status != KV_OK)
        return fail_clear(context, command, status, total, cli_sentence(status));
    char text[64];
    snprintf(text, sizeof text, "%" PRIu64 " deleted", total);
    struct answer done = {
        .command = command, .text = text, .has_number = true, .number = (int64_t)total};
    if (total == 0)
        range_hint_pattern(context, command, prefix);
    return output_answer(&context->output, &done);
}

int clear_run(struct cli_context *context, const void *options_given, const struct word *operands,
              size_t count)
{
    const struct clear_options *options = options_given;
    struct kv_slice prefix = count > 0 ? word_slice(&operands[0]) : kv_slice(NULL, 0);
    bool may_ask = isatty(STDIN_FILENO) && (context->interactive || context->output.one_shot);
    if (!options->yes && !may_ask)
        return output_failure(&context->output, "clear", KV_USAGE,
                              "this would delete entries; add --yes if it is meant");
    int code = cli_connect_for(context, "clear");
    if (code != EXIT_DONE)
        return code;
    if (!options->yes && !is_confirmed(context, prefix)) {
        output_answer(&context->output,
                      &(struct answer){.command = "clear", .text = "nothing was deleted"});
        return EXIT_USAGE;
    }
    return delete_by_prefix(context, "clear", prefix);
}

int delete_prefix_run(struct cli_context *context, const void *options_given,
                      const struct word *operands, size_t count)
{
    const struct key_command_options *options = options_given;
    (void)operands;
    if (count > 0)
        return output_failure(&context->output, "del", KV_USAGE,
                              "give a key or --prefix, not both");
    if (options->if_version != 0 || options->sync != 0)
        return output_failure(&context->output, "del", KV_USAGE,
                              "--prefix cannot be combined with --if-version or --sync");
    if (*options->prefix == '\0')
        return output_failure(&context->output, "del", KV_USAGE,
                              "the prefix is empty; clear deletes everything");
    int code = cli_connect_for(context, "del");
    return code != EXIT_DONE ? code
                             : delete_by_prefix(context, "del",
                                                kv_slice(options->prefix, strlen(options->prefix)));
}
