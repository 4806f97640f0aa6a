#include "tools/backup/restore_command.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/backup/live_records.h"
#include "tools/backup/restore_target.h"
#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/progress.h"
#include "clientk/program/cli/serverk_program.h"
#include "common/report/error.h"
#include "common/time/clock.h"
#include "kvstore/format/file_name.h"

const struct option_row restore_option_rows[] = {
    {"to", 0, OPTION_TEXT, "DIR", "make a store in DIR, which is new or empty; needs no server",
     OPTION_FIELD(struct restore_options, to)},
    {"if-absent", 0, OPTION_FLAG, NULL, "leave keys that exist as they are",
     OPTION_FIELD(struct restore_options, if_absent)},
    {"from", 0, OPTION_TEXT, "URL,...", "instead of BACKUP: a bucket of this NATS cluster",
     OPTION_FIELD(struct restore_options, from)},
    {"bucket", 0, OPTION_TEXT, "NAME", "with --from: the bucket",
     OPTION_FIELD(struct restore_options, bucket)},
    {"config", 0, OPTION_TEXT, "FILE", "with --from: serverk's configuration file (credentials)",
     OPTION_FIELD(struct restore_options, config)},
    {.name = NULL},
};
const struct restore_options restore_option_defaults = {0};

struct restore {
    bool if_absent;
    struct progress progress;
    struct clientk_pipeline *pipeline;
    uint64_t restored;
    uint64_t renumbered; /* those of the restored entries that have another version than they had */
    uint64_t kept;       /* entries whose keys exist */
    uint64_t expired;
    uint64_t failed;
    unsigned in_a_row;      /* failures in a row for lack of space, up to now */
    enum kv_status failure; /* the status of the first failure */
    enum kv_status stopped; /* if not KV_OK: nothing more is sent */
};

/* Returns true if the server cannot take the entries that follow either. */
static bool ends_it(struct restore *restore, enum kv_status status)
{
    if (status_lacks_room(status))
        return ++restore->in_a_row > REFUSED_IN_A_ROW;
    return status_ends_transfer(status) || status == KV_UNSUPPORTED || status == KV_DENIED;
}

static void count_restore_failure(struct restore *restore, enum kv_status status)
{
    if (restore->failed++ == 0)
        restore->failure = status;
    if (ends_it(restore, status) && restore->stopped == KV_OK)
        restore->stopped = status;
}

/* The completion of one entry, whose tag is the version that it had. */
static void complete_restored_entry(void *context, void *tag, const struct clientk_result *result)
{
    struct restore *restore = context;
    if (result->status == KV_OK) {
        restore->restored++;
        restore->renumbered += result->value.version != (uint64_t)(uintptr_t)tag;
        restore->in_a_row = 0;
    } else if (result->status == KV_EXISTS && restore->if_absent) {
        restore->kept++;
        restore->in_a_row = 0;
    } else {
        count_restore_failure(restore, result->status);
    }
}

static void send_record(struct restore *restore, const struct record *record)
{
    struct clientk_operation operation = {.opcode = CLIENTK_PUT,
                                          .key = record->key,
                                          .value = record->value,
                                          .write = {.if_absent = restore->if_absent,
                                                    .expiry_ms = record->expiry_ms,
                                                    .give_version = record->version}};
    if (record_has_expired(record, clock_realtime_ms())) {
        restore->expired++;
        return;
    }
    enum kv_status status =
        clientk_pipeline_submit(restore->pipeline, &operation, (void *)(uintptr_t)record->version);
    if (status != KV_OK)
        count_restore_failure(restore, status);
    progress_show(&restore->progress, restore->restored, 0);
}

static enum kv_status send_file(struct restore *restore, const struct source_file *file,
                                struct kv_error *error)
{
    struct live_records records;
    struct record record;
    struct file_name name = file_name(file->number, FILE_LOG);
    bool end = false;
    enum kv_status status = live_records_open(&records, file, name.text, error);
    if (status != KV_OK)
        return status;
    while (status == KV_OK && !end && restore->stopped == KV_OK && !interrupt_pending()) {
        status = live_records_next(&records, &record, &end, name.text, error);
        if (status == KV_OK && !end)
            send_record(restore, &record);
    }
    live_records_close(&records);
    return status;
}

static enum kv_status send_all(struct restore *restore, struct backup_source *source,
                               struct kv_error *error)
{
    bool end = false;
    enum kv_status status = KV_OK;
    while (status == KV_OK && restore->stopped == KV_OK && !interrupt_pending()) {
        struct source_file file;
        status = backup_source_next(source, &file, &end, error);
        if (status != KV_OK || end)
            break;
        status = send_file(restore, &file, error);
        source_file_close(&file);
    }
    clientk_pipeline_flush(restore->pipeline);
    if (status == KV_OK && !end && interrupt_pending())
        status = kv_error_set(error, KV_TIMEOUT, "interrupted: some entries are restored");
    return status;
}

/* Reports ------------------------------------------------------------------------------------- */

static const char *explain_restore_status(enum kv_status status)
{
    if (status == KV_UNSUPPORTED)
        return "the server cannot bring back versions: it is of an older version, or its data are "
               "elsewhere";
    return cli_explain(status);
}

/* How to go on. --if-absent would keep old values of those entries that were not sent yet, if the
 * store had these keys before. */
static const char *way_on(const struct restore *restore)
{
    if (restore->stopped == KV_OK)
        return "";
    if (restore->if_absent)
        return "; the rest was not sent. To go on: the same command again";
    return "; the rest was not sent. To go on: the same command again; with --if-absent only if "
           "the store had none of these keys before";
}

static int judge_restore(struct cli_context *context, const struct restore *restore,
                         enum kv_status status, const struct kv_error *error)
{
    char sentence[400];
    int code = EXIT_DONE;
    if (restore->failed > 0) {
        snprintf(sentence, sizeof sentence, "%" PRIu64 " %s: %.200s%s", restore->failed,
                 restore->failed == 1 ? "entry failed" : "entries failed",
                 explain_restore_status(restore->failure), way_on(restore));
        output_failure(&context->output, "restore", restore->failure, sentence);
        code = transfer_exit_code(restore->failure);
    }
    if (status != KV_OK) {
        int other = output_failure(&context->output, "restore", status, error->text);
        code = other > code ? other : code;
    }
    return code;
}

static int restore_to_server(struct cli_context *context, bool if_absent,
                             struct backup_source *source)
{
    struct restore restore = {.if_absent = if_absent};
    struct kv_error error = {0};
    context->patient = true;
    enum kv_status status = cli_connect(context, &error);
    if (status == KV_OK)
        status = clientk_pipeline_open(context->client, 0, 0, complete_restored_entry, &restore,
                                       &restore.pipeline, &error);
    if (status != KV_OK)
        return output_failure(&context->output, "restore", status, error.text);
    progress_start(&restore.progress, "entries restored", false);
    status = send_all(&restore, source, &error);
    clientk_pipeline_close(restore.pipeline);
    progress_end(&restore.progress);
    fprintf(stderr, "clientk: %" PRIu64 " entries restored", restore.restored);
    if (restore.renumbered > 0)
        fprintf(stderr, " (%" PRIu64 " with a new version, since higher ones had been given)",
                restore.renumbered);
    if (restore.kept > 0)
        fprintf(stderr, ", %" PRIu64 " left as they are because their keys exist", restore.kept);
    if (restore.expired > 0)
        fprintf(stderr, ", %" PRIu64 " have expired", restore.expired);
    fprintf(stderr, ", %" PRIu64 " failed\n", restore.failed);
    return judge_restore(context, &restore, status, &error);
}

static int restore_to(struct cli_context *context, const char *dir, struct backup_source *source)
{
    struct kv_error error = {0};
    interrupt_catch();
    enum kv_status status = restore_to_directory(source, dir, &error);
    if (status != KV_OK)
        return output_failure(&context->output, "restore", status, error.text);
    fprintf(stderr, "clientk: restored to %s; start a server from it: serverk -f %s\n", dir, dir);
    return EXIT_DONE;
}

static int restore_backup(struct cli_context *context, const struct restore_options *options,
                          const char *path)
{
    struct backup_source source;
    struct kv_error error = {0};
    signal(SIGXFSZ,
           SIG_IGN); /* a file larger than ulimit -f makes its write fail, and ends nothing */
    enum kv_status status = backup_source_open(&source, path, &error);
    if (status != KV_OK)
        return output_failure(&context->output, "restore",
                              status == KV_NOT_FOUND ? KV_USAGE : status, error.text);
    if (source.manifest.under_way)
        fprintf(stderr,
                "clientk: restore: the last backup into %s was interrupted; this is the "
                "one before\n",
                path);
    int code = options->to ? restore_to(context, options->to, &source)
                           : restore_to_server(context, options->if_absent, &source);
    if (source.is_mixed)
        fprintf(stderr, "clientk: restore: some data files were those of the newer backup: what "
                        "was restored is not of one moment\n");
    backup_source_close(&source);
    return code;
}

/* Restoring from a cluster --------------------------------------------------------------------- */

/* the program, four options with their values, the NULL at the end */
#define MAX_WORDS (1 + 2 * 4 + 1)

static void add_option_words(const char *words[MAX_WORDS], size_t *count, const char *option,
                             const char *value)
{
    if (!value)
        return;
    words[(*count)++] = option;
    words[(*count)++] = value;
}

/* Becomes serverk (--restore-from), since only serverk speaks to clusters; serverk checks the
 * values of the options. Returns only if that fails: KV_UNSUPPORTED: there is no serverk beside
 * clientk; else why the kernel refused to run it. */
static enum kv_status restore_from_cluster(const struct restore_options *options,
                                           struct kv_error *error)
{
    char program[PATH_MAX];
    const char *words[MAX_WORDS] = {"serverk"};
    size_t count = 1;
    if (!serverk_program_find(program))
        return kv_error_set(error, KV_UNSUPPORTED,
                            "--from needs the program serverk, and there is none beside clientk");
    add_option_words(words, &count, "--config", options->config);
    add_option_words(words, &count, "--dir", options->to);
    add_option_words(words, &count, "--restore-from", options->from);
    add_option_words(words, &count, "--bucket", options->bucket);
    execv(program, (char *const *)(uintptr_t)words); /* execv changes none of the words */
    return kv_error_set_errno(error, "cannot run %s", program);
}

/* Returns what contradicts what in the options; NULL: nothing. */
static const char *find_contradiction(const struct restore_options *options, size_t backups)
{
    if (options->to && options->if_absent)
        return "--if-absent is for a running store, --to for an empty directory";
    if (!options->from && (options->bucket || options->config))
        return "--bucket and --config have a meaning with --from only";
    if (!options->from && backups == 0)
        return "which backup? Give its directory or archive, or a cluster (--from)";
    if (options->from && backups > 0)
        return "give a backup or --from, not both";
    if (options->from && !options->to)
        return "--from needs --to DIR: a new store is made; into a running one goes clientk "
               "migrate";
    return NULL;
}

int restore_run(struct cli_context *context, const void *options_given, const struct word *operands,
                size_t count)
{
    const struct restore_options *options = options_given;
    const char *contradiction = find_contradiction(options, count);
    if (contradiction)
        return output_failure(&context->output, "restore", KV_USAGE, contradiction);
    if (!options->from)
        return restore_backup(context, options, operands[0].data);
    struct kv_error error = {0};
    enum kv_status status = restore_from_cluster(options, &error);
    return output_failure(&context->output, "restore", status, error.text);
}
