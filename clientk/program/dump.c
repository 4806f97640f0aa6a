#include "clientk/program/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clientk/program/dump_format.h"
#include "clientk/program/interrupt.h"
#include "clientk/program/progress.h"
#include "clientk/program/whole_scan.h"

const struct option_row dump_option_rows[] = {
    {.name = "prefix",
     .kind = OPTION_TEXT,
     .argument = "PREFIX",
     .help = "only keys that begin with it",
     .offset = offsetof(struct dump_options, prefix)},
    {.name = "force",
     .kind = OPTION_FLAG,
     .help = "replace FILE if it is there",
     .offset = offsetof(struct dump_options, force)},
    {.name = NULL},
};
const struct dump_options dump_option_defaults = {0};

struct dump {
    FILE *stream;
    uint64_t entries;
    uint64_t left_out; /* records that are damaged */
    uint64_t checksum;
    char *entry; /* the one being printed */
    size_t entry_size;
    FILE *entry_stream;
    struct progress progress;
};

static bool visit(void *context, const struct clientk_entry *entry)
{
    struct dump *dump = context;
    rewind(dump->entry_stream);
    dump_print_entry(dump->entry_stream, entry->key, entry->value, entry->expiry_ms);
    long size = ftell(dump->entry_stream);
    fflush(dump->entry_stream);
    if (size < 1 || ferror(dump->entry_stream))
        return false;
    dump->checksum = dump_checksum(dump->checksum, dump->entry, (size_t)size - 1);
    dump->entries++;
    fwrite(dump->entry, 1, (size_t)size, dump->stream);
    progress_show(&dump->progress, dump->entries, 0);
    return !interrupt_pending() && !ferror(dump->stream);
}

/* Dumps all entries into dump->stream. KV_OK, or a status with its sentence. */
static enum kv_status write_dump(struct context *context, struct kv_slice prefix, struct dump *dump,
                                 struct kv_error *error)
{
    dump->entry_stream = open_memstream(&dump->entry, &dump->entry_size);
    if (!dump->entry_stream)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for an entry");
    dump->checksum = 0;
    dump_print_header(dump->stream, context->settings.queue);
    progress_start(&dump->progress, "entries dumped",
                   dump->stream == stdout && context->output.terminal);
    struct whole_scan scan = {.command = "dump", .prefix = prefix, .visit = visit, .context = dump};
    enum kv_status status = whole_scan_run(context, &scan, &dump->left_out);
    progress_end(&dump->progress);
    bool short_of_memory = ferror(dump->entry_stream);
    fclose(dump->entry_stream);
    free(dump->entry);
    if (status != KV_OK)
        return kv_error_set(error, status, "%s", context_sentence(status));
    if (short_of_memory)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for an entry");
    if (ferror(dump->stream))
        return kv_error_set(error, KV_IO, "writing failed after %" PRIu64 " entries",
                            dump->entries);
    if (interrupt_pending())
        return kv_error_set(error, KV_IO, "interrupted after %" PRIu64 " entries", dump->entries);
    dump_print_trailer(dump->stream, dump->entries, dump->checksum);
    return KV_OK;
}

/* NULL and *error if the file can not be made. */
static FILE *create_file(const char *path, bool force, struct kv_error *error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0600);
    FILE *stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!stream && errno == EEXIST)
        kv_error_set(error, KV_USAGE, "%.200s is there already (--force replaces it)", path);
    else if (!stream)
        kv_error_set_errno(error, "cannot write %.200s", path);
    return stream;
}

/* Flushes to the disk and closes; the first failure counts. */
static enum kv_status close_file(FILE *stream, const char *path, struct kv_error *error)
{
    bool good = fflush(stream) == 0 && fsync(fileno(stream)) == 0;
    int saved_errno = errno;
    if (fclose(stream) == 0 && good)
        return KV_OK;
    errno = good ? errno : saved_errno;
    return kv_error_set_errno(error, "writing %.200s", path);
}

int dump_run(struct context *context, const void *options_given, const struct word *operands,
             size_t count)
{
    (void)count;
    const struct dump_options *options = options_given;
    const char *path = operands[0].data;
    bool standard_output = !operands[0].literal && word_is(&operands[0], "-");
    context->patient = true;
    int code = context_connect_for(context, "dump");
    if (code != EXIT_DONE)
        return code;

    struct kv_error error = {0};
    struct dump dump = {.stream = stdout};
    if (!standard_output && !(dump.stream = create_file(path, options->force, &error)))
        return output_failure(&context->output, "dump", error.status, error.text);
    struct kv_slice prefix =
        options->prefix ? kv_slice_from_string(options->prefix) : kv_slice(NULL, 0);
    enum kv_status status = write_dump(context, prefix, &dump, &error);
    struct kv_error close_error = {0};
    if (!standard_output && close_file(dump.stream, path, &close_error) != KV_OK &&
        status == KV_OK) {
        status = close_error.status;
        error = close_error;
    }
    if (status != KV_OK)
        return output_failure(&context->output, "dump", status, error.text);
    fprintf(stderr, "clientk: %" PRIu64 " entries dumped\n", dump.entries);
    return dump.left_out > 0 ? EXIT_REFUSED : EXIT_DONE;
}
