#include "tools/transfer/dump_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/transfer/dump_format.h"
#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/progress.h"
#include "tools/transfer/target_file.h"
#include "tools/transfer/zstd_writer.h"
#include "clientk/program/commands/whole_scan.h"
#include "common/report/error.h"

static const char *compression_name(int compression)
{
    static const char *const names[] = {[DUMP_PLAIN] = "none", [DUMP_ZSTD] = "zstd"};
    return (size_t)compression < sizeof names / sizeof names[0] ? names[compression] : NULL;
}

const struct option_row dump_option_rows[] = {
    {"compress", 0, OPTION_CHOICE, "HOW",
     "none or zstd; default: zstd if the name of FILE ends with .zst",
     OPTION_FIELD(struct dump_options, compress), .choice_name = compression_name},
    {"prefix", 0, OPTION_TEXT, "PREFIX", "only keys with this prefix",
     OPTION_FIELD(struct dump_options, prefix)},
    {"force", 0, OPTION_FLAG, NULL, "replace FILE if it exists",
     OPTION_FIELD(struct dump_options, force)},
    {.name = NULL},
};
const struct dump_options dump_option_defaults = {.compress = -1};

/* Bytes that are written at once. */
#define STREAM_BYTES (256u << 10)

struct dump {
    FILE *stream;
    uint64_t entries;
    uint64_t left_out; /* number of damaged records */
    uint64_t checksum;
    char *entry; /* memory for the entry that is being printed */
    size_t entry_bytes;
    bool short_of_memory;
    int write_errno; /* 0: all writes succeeded so far */
    struct progress progress;
};

static bool make_entry_room(struct dump *dump, size_t bytes)
{
    if (bytes <= dump->entry_bytes)
        return true;
    char *grown = realloc(dump->entry, 2 * bytes);
    if (!grown)
        return false;
    dump->entry = grown;
    dump->entry_bytes = 2 * bytes;
    return true;
}

static bool dump_entry(void *context, const struct clientk_entry *entry)
{
    struct dump *dump = context;
    dump->short_of_memory =
        !make_entry_room(dump, DUMP_ENTRY_MAX_BYTES(entry->key.size, entry->value.size));
    if (dump->short_of_memory)
        return false;
    size_t size = dump_put_entry(dump->entry, entry->key, entry->value, entry->expiry_ms);
    dump->checksum = dump_checksum(dump->checksum, dump->entry, size - 1);
    dump->entries++;
    if (fwrite(dump->entry, 1, size, dump->stream) < size)
        dump->write_errno = errno;
    progress_show(&dump->progress, dump->entries, 0);
    return !interrupt_pending() && dump->write_errno == 0;
}

/* Dumps all entries to dump->stream. KV_OK, or a status with a sentence. */
static enum kv_status write_dump(struct cli_context *context, struct kv_slice prefix,
                                 struct dump *dump, struct kv_error *error)
{
    setvbuf(dump->stream, NULL, _IOFBF, STREAM_BYTES);
    __fsetlocking(dump->stream, FSETLOCKING_BYCALLER);
    dump->checksum = 0;
    dump_print_header(dump->stream, context->global.queue);
    progress_start(&dump->progress, "entries dumped",
                   dump->stream == stdout && context->output.terminal);
    struct whole_scan scan = {
        .command = "dump", .prefix = prefix, .visit = dump_entry, .context = dump};
    enum kv_status status = whole_scan_run(context, &scan, &dump->left_out);
    progress_end(&dump->progress);
    free(dump->entry);
    bool interrupted = interrupt_pending(); /* between two pages, or while one was waited for */
    if (status != KV_OK && !(interrupted && dump->entries > 0))
        return kv_error_set(error, status, "%s", cli_sentence(status));
    if (dump->short_of_memory)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for an entry");
    if (interrupted)
        return kv_error_set(error, KV_IO, "interrupted after %" PRIu64 " entries", dump->entries);
    if (dump->write_errno != 0) {
        errno = dump->write_errno;
        return kv_error_set_errno(error, "writing entry %" PRIu64, dump->entries);
    }
    dump_print_trailer(dump->stream, dump->entries, dump->checksum);
    return KV_OK;
}

/* Like write_dump, but compresses by zstd. */
static enum kv_status write_compressed(struct cli_context *context, struct kv_slice prefix,
                                       struct dump *dump, struct kv_error *error)
{
    FILE *target = dump->stream;
    dump->stream = zstd_writer_open(target);
    if (!dump->stream)
        return kv_error_set(error, KV_NO_MEMORY, "no memory to compress");
    enum kv_status status = write_dump(context, prefix, dump, error);
    if (fclose(dump->stream) != 0 && status == KV_OK) {
        dump->write_errno = errno;
        status = kv_error_set_errno(error, "writing entry %" PRIu64, dump->entries);
    }
    dump->stream = target;
    return status;
}

static bool is_compressed(const struct dump_options *options, const char *path)
{
    size_t size = strlen(path);
    if (options->compress >= 0)
        return options->compress == DUMP_ZSTD;
    return size > 4 && strcmp(path + size - 4, ".zst") == 0;
}

int dump_run(struct cli_context *context, const void *options_given, const struct word *operands,
             size_t count)
{
    (void)count;
    const struct dump_options *options = options_given;
    bool standard_output = !operands[0].literal && word_is(&operands[0], "-");
    bool compressed = is_compressed(options, operands[0].data);
    if (compressed && standard_output && isatty(STDOUT_FILENO))
        return output_failure(
            &context->output, "dump", KV_USAGE,
            "compressed data are not for a terminal: send them to a file or pipe");
    context->patient = true;
    int code = cli_connect_for(context, "dump");
    if (code != EXIT_DONE)
        return code;

    struct kv_error error = {0};
    struct dump dump = {.stream = stdout};
    struct target_file file;
    if (!standard_output) {
        if (target_file_open(&file, operands[0].data, options->force, &error) != KV_OK)
            return output_failure(&context->output, "dump", error.status, error.text);
        dump.stream = file.stream;
    }
    struct kv_slice prefix =
        options->prefix ? kv_slice_from_string(options->prefix) : kv_slice(NULL, 0);
    enum kv_status status = compressed ? write_compressed(context, prefix, &dump, &error)
                                       : write_dump(context, prefix, &dump, &error);
    if (!standard_output && status == KV_OK)
        status = target_file_keep(&file, &error);
    else if (!standard_output)
        target_file_discard(&file);
    else if (dump.write_errno != 0 && !interrupt_pending()) /* main reports it */
        return EXIT_REFUSED;
    if (status != KV_OK)
        return output_failure(&context->output, "dump", status, error.text);
    fprintf(stderr, "clientk: %" PRIu64 " entries dumped\n", dump.entries);
    return dump.left_out > 0 ? EXIT_REFUSED : EXIT_DONE;
}
