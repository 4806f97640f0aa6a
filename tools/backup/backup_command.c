#include "tools/backup/backup_command.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/backup/backup_target.h"
#include "tools/backup/file_copy.h"
#include "tools/backup/tar_stream.h"
#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/json_reader.h"
#include "clientk/program/cli/progress.h"
#include "common/report/error.h"
#include "common/text/parse.h"

const struct option_row backup_option_rows[] = {
    {"by-message", 0, OPTION_FLAG, NULL,
     "read data files through the server, even where they can be opened",
     OPTION_FIELD(struct backup_options, by_message)},
    {.name = NULL},
};
const struct backup_options backup_option_defaults = {0};

#define KIB 1024u
#define MIB (1024u * 1024u)

struct backup {
    struct held_store store;
    struct progress progress;
    uint64_t total_bytes;  /* bytes of the store */
    uint64_t done_bytes;   /* bytes of the files before this one */
    uint64_t copied_bytes; /* bytes of the files that the directory did not have */
    uint64_t shared_bytes; /* bytes that became shared blocks instead of being copied */
    uint32_t by_message;   /* files that were read through the server */
};

static bool show_copied_bytes(void *context, uint64_t bytes)
{
    struct backup *backup = context;
    progress_show(&backup->progress, (backup->done_bytes + bytes) >> 20, backup->total_bytes >> 20);
    return !interrupt_pending();
}

static void count_file(struct backup *backup, const struct held_file *file, uint64_t offset)
{
    backup->done_bytes += file->bytes;
    backup->copied_bytes += file->bytes - offset;
    backup->by_message += file->fd < 0 && file->bytes > offset;
}

/* Into a directory ----------------------------------------------------------------------------- */

static enum kv_status copy_to(struct backup *backup, struct backup_target *target,
                              struct held_file *file, struct kv_error *error)
{
    int fd;
    enum kv_status status = backup_target_start_file(target, file, &fd, error);
    uint64_t offset = target->files[file->number].offset;
    if (status != KV_OK || fd < 0) {
        if (status == KV_OK)
            count_file(backup, file, file->bytes);
        return status;
    }
    struct file_copy copy = {.from = file,
                             .to = fd,
                             .is_new = target->files[file->number].plan == BACKUP_REPLACE,
                             .dir = target->dir,
                             .progress = show_copied_bytes,
                             .context = backup};
    status = file_copy_run(&copy, offset, error);
    enum kv_status ended = backup_target_end_file(target, file, fd, status == KV_OK ? error : NULL);
    backup->shared_bytes += copy.shared_bytes;
    count_file(backup, file, offset);
    return status == KV_OK ? ended : status;
}

static enum kv_status copy_files(struct backup *backup, struct backup_target *target,
                                 struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (uint32_t number = 0; number < backup->store.manifest.count && status == KV_OK; number++) {
        struct held_file file;
        status = held_file_open(&file, &backup->store, number, error);
        if (status == KV_OK)
            status = copy_to(backup, target, &file, error);
        held_file_close(&file);
        if (status == KV_OK && interrupt_pending())
            status = kv_error_set(error, KV_TIMEOUT, "interrupted");
    }
    return status;
}

/* Makes what was copied the backup, once the server has said that its hold has lasted: only then
 * the copy is right. */
static enum kv_status back_up_to_directory(struct backup *backup, struct backup_target *target,
                                           struct kv_error *error)
{
    enum kv_status status = backup_target_begin(target, &backup->store.manifest, error);
    if (status == KV_OK)
        status = copy_files(backup, target, error);
    if (status == KV_OK)
        status = held_store_finish(&backup->store, error);
    if (status == KV_OK)
        status = backup_target_commit(target, error);
    return status;
}

/* Into a stream -------------------------------------------------------------------------------- */

static enum kv_status stream_failed(struct kv_error *error)
{
    if (interrupt_pending())
        return kv_error_set(error, KV_TIMEOUT, "interrupted");
    return kv_error_set_errno(error, "cannot write the backup");
}

static enum kv_status stream_bytes(struct backup *backup, struct held_file *file,
                                   struct kv_error *error)
{
    size_t room = backup->store.piece_bytes;
    void *buffer = malloc(room);
    if (!buffer)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a backup");
    enum kv_status status = KV_OK;
    for (uint64_t offset = BACKUP_HEADER_BYTES; offset < file->bytes && status == KV_OK;) {
        uint64_t left = file->bytes - offset;
        size_t size = left < room ? (size_t)left : room;
        status = held_file_read(file, offset, buffer, size, error);
        if (status == KV_OK && tar_write(STDOUT_FILENO, buffer, size) != 0)
            status = stream_failed(error);
        offset += size;
        if (status == KV_OK && !show_copied_bytes(backup, offset))
            status = kv_error_set(error, KV_TIMEOUT, "interrupted");
    }
    free(buffer);
    return status;
}

static enum kv_status stream_file(struct backup *backup, uint32_t number, struct kv_error *error)
{
    struct held_file file;
    char name[24];
    enum kv_status status = held_file_open(&file, &backup->store, number, error);
    if (status != KV_OK)
        return status;
    backup->store.manifest.files[number].header_check = backup_header_check(file.header);
    snprintf(name, sizeof name, "data.%04" PRIu32, number);
    if (tar_begin_member(STDOUT_FILENO, name, file.bytes, backup->store.manifest.time_ms) != 0 ||
        tar_write(STDOUT_FILENO, file.header, sizeof file.header) != 0)
        status = stream_failed(error);
    if (status == KV_OK)
        status = stream_bytes(backup, &file, error);
    if (status == KV_OK && tar_end_member(STDOUT_FILENO, file.bytes) != 0)
        status = stream_failed(error);
    count_file(backup, &file, 0);
    held_file_close(&file);
    return status;
}

/* Writes the manifest, as the last member: a stream without it is not whole. */
static enum kv_status stream_manifest(struct backup *backup, struct kv_error *error)
{
    size_t size;
    char *text = backup_manifest_print(&backup->store.manifest, &size);
    if (!text)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a backup");
    enum kv_status status = KV_OK;
    if (tar_begin_member(STDOUT_FILENO, BACKUP_MANIFEST_NAME, size,
                         backup->store.manifest.time_ms) != 0 ||
        tar_write(STDOUT_FILENO, text, size) != 0 || tar_end_member(STDOUT_FILENO, size) != 0 ||
        tar_end(STDOUT_FILENO) != 0)
        status = stream_failed(error);
    free(text);
    return status;
}

static enum kv_status back_up_to_stream(struct backup *backup, struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (uint32_t number = 0; number < backup->store.manifest.count && status == KV_OK; number++)
        status = stream_file(backup, number, error);
    if (status == KV_OK)
        status = held_store_finish(&backup->store, error);
    if (status == KV_OK)
        status = stream_manifest(backup, error);
    return status;
}

/* Both ----------------------------------------------------------------------------------------- */

static const char *print_size(char text[24], uint64_t bytes)
{
    if (bytes < 10 * KIB)
        snprintf(text, 24, "%" PRIu64 " bytes", bytes);
    else if (bytes < 10 * MIB)
        snprintf(text, 24, "%.1f KiB", (double)bytes / KIB);
    else
        snprintf(text, 24, "%.1f MiB", (double)bytes / MIB);
    return text;
}

static uint64_t number_of(const struct json_value *object, const char *name)
{
    const struct json_value *member = json_member(object, name);
    return member && member->kind == JSON_NUMBER && member->number > 0 ? (uint64_t)member->number
                                                                       : 0;
}

/* Asks whether the server knows of damage: a backup copies bytes and verifies none, so what is
 * damaged in the store is damaged in the copy. KV_CORRUPT: the server knows of damage, *error says
 * where. */
static enum kv_status find_damage(struct clientk *client, const char *into, struct kv_error *error)
{
    struct clientk_value text = {0};
    enum kv_status status = clientk_stats(client, "files", &text);
    struct json_value *document = status == KV_OK ? json_parse(text.data, text.size) : NULL;
    clientk_value_free(&text);
    const struct json_value *files = json_member(document, "files");
    uint64_t records = number_of(json_member(files, "sum"), "damaged_records");
    const struct json_value *each = json_member(files, "each");
    char place[64] = "a data file", count[32];
    for (const struct json_value *file = each ? each->first : NULL; file; file = file->next) {
        if (number_of(file, "damaged_records") == 0)
            continue;
        snprintf(place, sizeof place, "data.%04" PRIu64 " at offset %" PRIu64,
                 number_of(file, "file"), number_of(file, "damaged_at"));
        break;
    }
    json_free(document);
    if (records == 0)
        return KV_OK;
    return kv_error_set(error, KV_CORRUPT,
                        "the backup is complete, but the store has %s that the server has met "
                        "(%s%s), and so has the backup; to save what is intact there: kvcheck "
                        "--salvage OUT %s",
                        format_count(records, "damaged record", count),
                        records == 1 ? "" : "the first: ", place, into);
}

/* Makes a backup in the target, or, if that is NULL, on standard output. */
static enum kv_status back_up(struct cli_context *context, bool by_message,
                              struct backup_target *target, struct kv_error *error)
{
    struct backup backup = {.total_bytes = 0};
    enum kv_status status = held_store_begin(&backup.store, context->client, by_message, error);
    if (status != KV_OK)
        return status;
    for (uint32_t number = 0; number < backup.store.manifest.count; number++)
        backup.total_bytes += backup.store.manifest.files[number].bytes;
    progress_start(&backup.progress, "MiB backed up", false);
    status =
        target ? back_up_to_directory(&backup, target, error) : back_up_to_stream(&backup, error);
    progress_end(&backup.progress);
    if (status == KV_OK) {
        char total[24], copied[24], shared[24];
        fprintf(stderr, "clientk: %" PRIu32 " data file%s backed up, %s, of which %s are new",
                backup.store.manifest.count, backup.store.manifest.count == 1 ? "" : "s",
                print_size(total, backup.total_bytes), print_size(copied, backup.copied_bytes));
        if (backup.shared_bytes > 0)
            fprintf(stderr, ", %s as shared blocks", print_size(shared, backup.shared_bytes));
        if (backup.by_message > 0)
            fprintf(stderr, "; %" PRIu32 " read through the server", backup.by_message);
        fputc('\n', stderr);
    }
    held_store_end(&backup.store);
    return status;
}

int backup_run(struct cli_context *context, const void *options_given, const struct word *operands,
               size_t count)
{
    (void)count;
    const struct backup_options *options = options_given;
    bool to_stream = !operands[0].literal && word_is(&operands[0], "-");
    bool by_message = options->by_message || context->global.direct == CLIENTK_DIRECT_OFF;
    struct kv_error error = {0};
    if (to_stream && isatty(STDOUT_FILENO))
        return output_failure(&context->output, "backup", KV_USAGE,
                              "a backup is not for a terminal: send it to a file or a pipe");
    int code = cli_connect_for(context, "backup");
    if (code != EXIT_DONE)
        return code;
    signal(SIGXFSZ,
           SIG_IGN); /* a file larger than ulimit -f makes its write fail, and ends nothing */
    struct backup_target target;
    enum kv_status status = KV_OK;
    if (!to_stream)
        status = backup_target_open(&target, operands[0].data, &error);
    if (status == KV_OK) {
        status = back_up(context, by_message, to_stream ? NULL : &target, &error);
        if (!to_stream)
            backup_target_close(&target);
    }
    if (status == KV_UNSUPPORTED && cli_is_clustered(context))
        kv_error_set(&error, status,
                     "the store is in a NATS cluster (--engine nats), and has no files here: "
                     "clientk dump FILE writes its entries, nats stream backup its streams");
    if (status == KV_OK)
        status = find_damage(context->client, to_stream ? "DIRECTORY" : operands[0].data, &error);
    return status == KV_OK ? EXIT_DONE
                           : output_failure(&context->output, "backup", status, error.text);
}
