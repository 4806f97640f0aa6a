#include "tools/transfer/migrate_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/whole_scan.h"
#include "tools/transfer/migration.h"
#include "tools/transfer/move_deletions.h"
#include "tools/transfer/move_page.h"
#include "common/report/error.h"
#include "common/time/clock.h"

const struct option_row migrate_option_rows[] = {
    {"to", 0, OPTION_TEXT, "NAME", "the queue of the serverk that gets the entries",
     OPTION_FIELD(struct migrate_options, to), .expects = "the name of a queue"},
    {"resume", 0, OPTION_FLAG, NULL,
     "go on after an earlier migrate to this target: replace what has changed, and delete what "
     "the source does not have",
     OPTION_FIELD(struct migrate_options, resume)},
    {"force", 0, OPTION_FLAG, NULL,
     "the target has entries: replace those whose keys the source has, leave the others",
     OPTION_FIELD(struct migrate_options, force)},
    {"until-quiet", 0, OPTION_FLAG, NULL,
     "follow the changes until nobody has written to the source for a second",
     OPTION_FIELD(struct migrate_options, until_quiet)},
    {.name = NULL},
};
const struct migrate_options migrate_option_defaults = {0};

/* If nothing changes for this long, nobody writes to the source. */
#define QUIET_MS 1000u

/* Opening -------------------------------------------------------------------------------------- */

static bool visit_nothing(void *context, const struct clientk_entry *entry)
{
    (void)entry;
    *(bool *)context = true;
    return false;
}

static enum kv_status check_target_empty(struct migration *migration, struct kv_error *error)
{
    bool has_entry = false;
    uint64_t cursor = 0;
    enum kv_status status = KV_OK;
    do
        status = clientk_scan(migration->target, kv_slice(NULL, 0), true, &cursor, 1, visit_nothing,
                              &has_entry);
    while (status == KV_OK && !has_entry && cursor != 0);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s: %s", migration->target_context.global.queue,
                            cli_sentence(status));
    if (has_entry)
        return kv_error_set(error, KV_USAGE,
                            "%s has entries: --resume goes on after an earlier migrate, --force "
                            "replaces those whose keys %s has",
                            migration->target_context.global.queue,
                            migration->context->global.queue);
    return KV_OK;
}

static enum kv_status open_both(struct migration *migration, const struct migrate_options *options,
                                struct kv_error *error)
{
    struct cli_context *context = migration->context;
    struct cli_context *target = &migration->target_context;
    if (!options->to)
        return kv_error_set(error, KV_USAGE, "--to NAME says where the entries go");
    if (options->force && options->resume)
        return kv_error_set(error, KV_USAGE, "give --force or --resume, not both");
    if (strcmp(context->global.queue, options->to) == 0)
        return kv_error_set(error, KV_USAGE, "%s is the source itself", options->to);
    context->patient = true;
    *target = *context;
    target->global.queue = options->to;
    enum kv_status status = cli_connect(context, error);
    if (status == KV_OK)
        status = cli_open_client(context, true, &migration->source, error);
    if (status == KV_OK)
        status = cli_connect(target, error);
    if (status == KV_OK)
        status = cli_open_client(target, true, &migration->target, error);
    if (status == KV_OK && !options->force && !options->resume)
        status = check_target_empty(migration, error);
    return status;
}

/* Passes --------------------------------------------------------------------------------------- */

static bool take_scanned_entry(void *context, const struct clientk_entry *entry)
{
    struct move_page *page = context;
    move_page_take(page, entry);
    return migration_goes_on(page->migration);
}

/* Reads the source once and brings what has changed to the target. */
static void run_pass(struct migration *migration, struct move_page *page, bool verifies)
{
    static const char *const what[] = {"entries read", "entries compared"};
    uint64_t left_out = 0;
    struct whole_scan scan = {.command = "migrate", .visit = take_scanned_entry, .context = page};
    migration->pass++;
    migration->verifies = verifies;
    migration->seen = migration->changes = 0;
    if (verifies)
        migration->differing = 0;
    progress_start(&migration->progress, what[verifies], false);
    enum kv_status status = whole_scan_run(migration->context, &scan, &left_out);
    if (status != KV_OK)
        migration_stop(migration, status, cli_sentence(status));
    migration->left_out = left_out;
    if (migration_goes_on(migration))
        move_page_send(page);
    if (migration_goes_on(migration))
        move_deletions(migration);
    progress_end(&migration->progress);
}

static void migrate(struct migration *migration, struct move_page *page, bool until_quiet)
{
    run_pass(migration, page, false);
    do {
        if (migration_goes_on(migration) && migration->changes > 0) {
            /* Follows the changes until there are none, or not fewer than in the pass before. */
            uint64_t before;
            do {
                before = migration->changes;
                if (until_quiet) {
                    for (unsigned waited_ms = 0;
                         waited_ms < QUIET_MS && migration_goes_on(migration); waited_ms += 50)
                        clock_sleep_ms(50);
                }
                run_pass(migration, page, false);
            } while (migration_goes_on(migration) && migration->changes > 0 &&
                     (until_quiet || migration->changes < before / 2));
        }
        if (migration_goes_on(migration))
            run_pass(migration, page, true);
    } while (until_quiet && migration_goes_on(migration) && migration->changes > 0);
}

/* The end -------------------------------------------------------------------------------------- */

static void tell_sums(const struct migration *migration)
{
    fprintf(stderr,
            "clientk: migrate: %" PRIu64 " entries at %s, %" PRIu64 " written and %" PRIu64
            " deleted in %" PRIu32 " pass%s",
            migration->seen, migration->context->global.queue, migration->written,
            migration->deleted, migration->pass, migration->pass == 1 ? "" : "es");
    if (migration->renumbered > 0)
        fprintf(stderr, ", %" PRIu64 " with new versions", migration->renumbered);
    if (migration->refused > 0)
        fprintf(stderr, ", %" PRIu64 " not moved", migration->refused);
    fputc('\n', stderr);
}

static void tell_how_to_go_on(const struct migration *migration)
{
    fprintf(stderr, "clientk: migrate: to go on: clientk -m %s migrate --to %s --resume\n",
            migration->context->global.queue, migration->target_context.global.queue);
}

static int tell_end(struct migration *migration, const struct migrate_options *options)
{
    tell_sums(migration);
    if (!migration_goes_on(migration)) {
        bool interrupted = interrupt_pending();
        enum kv_status status = interrupted ? KV_TIMEOUT : migration->stopped;
        fprintf(stderr, "clientk: migrate: stopped: %s\n",
                interrupted ? "interrupted" : migration->why);
        if (!options->force)
            tell_how_to_go_on(migration);
        return transfer_exit_code(status);
    }
    if (migration->changes > 0) {
        fprintf(stderr,
                "clientk: migrate: others still write to %s: %" PRIu64
                " entries have changed during the last pass\n",
                migration->context->global.queue, migration->changes);
        if (!options->force)
            tell_how_to_go_on(migration);
    }
    if (migration->differing > 0)
        fprintf(stderr, "clientk: migrate: %" PRIu64 " keys differ\n", migration->differing);
    if (migration->refused > 0 || migration->left_out > 0)
        return EXIT_REFUSED;
    if (migration->changes > 0 || migration->differing > 0)
        return EXIT_NOT_FOUND;
    fprintf(stderr, "clientk: migrate: verified: %s has the same entries%s\n",
            migration->target_context.global.queue, options->force ? ", perhaps others, too" : "");
    return EXIT_DONE;
}

int migrate_run(struct cli_context *context, const void *options_given, const struct word *operands,
                size_t count)
{
    (void)operands;
    (void)count;
    const struct migrate_options *options = options_given;
    struct kv_error error = {0};
    struct migration migration = {.context = context,
                                  .overwrites = options->force || options->resume,
                                  .removes = options->resume};
    struct move_page *page = move_page_create(&migration);
    moved_keys_init(&migration.keys);
    enum kv_status status = page ? open_both(&migration, options, &error)
                                 : kv_error_set(&error, KV_NO_MEMORY, "out of memory");
    int code;
    if (status == KV_OK) {
        static const char words[] = "\"engine\":\"kvstore\"";
        struct clientk_value json = {0};
        bool takes = clientk_stats(migration.target, "server", &json) == KV_OK &&
                     memmem(json.data, json.size, words, sizeof words - 1);
        clientk_value_free(&json);
        migration.keeps_versions = takes;
        migrate(&migration, page, options->until_quiet);
        code = tell_end(&migration, options);
    } else {
        code = output_failure(&context->output, "migrate", status, error.text);
    }
    move_page_free(page);
    clientk_close(migration.source);
    clientk_close(migration.target);
    cli_close(&migration.target_context);
    moved_keys_free(&migration.keys);
    return code;
}
