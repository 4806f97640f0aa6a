#include "kvstore/kvcheck/salvage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"
#include "kvstore/format/sizes.h"
#include "common/text/parse.h"
#include "common/numbers/random.h"
#include "kvstore/log/fileio.h"
#include "kvstore/format/keyhash.h"
#include "kvstore/kvcheck/survey.h"
#include "kvstore/log/logfile.h"
#include "kvstore/log/logtail.h"
#include "kvstore/table/recovery.h"
#include "kvstore/kvcheck/source_open.h"

struct salvage {
    struct findings *findings;
    const char *out;
    int out_fd;
    uint32_t datafiles;
    uint64_t seed;
    struct hash_key hash_key;
    struct logfile *logs; /* logs of the new store; map NULL: not there */
    uint64_t max_version;
    uint64_t keys;
    uint64_t lost_bytes;
    uint64_t after_damage;
    uint64_t last_transaction, settled_transaction;
    bool goes_on;    /* the record that was read last is not the last of its transaction */
    bool breaks_off; /* one in whose place behind that the next one was not */
};

/* The new store -------------------------------------------------------------------------------- */

static enum kv_status open_empty_directory(struct salvage *salvage, struct kv_error *error)
{
    if (mkdir(salvage->out, 0700) != 0 && errno != EEXIST)
        return kv_error_set_errno(error, "%s: cannot create the directory", salvage->out);
    DIR *listing = opendir(salvage->out);
    if (!listing)
        return kv_error_set_errno(error, "%s: cannot open the directory", salvage->out);
    bool empty = true;
    for (const struct dirent *entry; empty && (entry = readdir(listing));)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(listing);
    if (!empty)
        return kv_error_set(error, KV_USAGE,
                            "%s: the directory is not empty; give the name of a new one",
                            salvage->out);
    salvage->out_fd = open(salvage->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (salvage->out_fd < 0)
        return kv_error_set_errno(error, "%s: cannot open the directory", salvage->out);
    return KV_OK;
}

/* Makes the data files under the names of unfinished ones, which they have until all is there. */
static enum kv_status create_logs(struct salvage *salvage, struct kv_error *error)
{
    salvage->logs = calloc(salvage->datafiles, sizeof *salvage->logs);
    if (!salvage->logs)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for %" PRIu32 " data files",
                            salvage->datafiles);
    for (uint32_t number = 0; number < salvage->datafiles; number++) {
        struct file_identity identity = {.format_version = FILE_FORMAT_VERSION,
                                         .datafiles = salvage->datafiles,
                                         .number = number,
                                         .store_seed = salvage->seed,
                                         .salt = random_secret(),
                                         .hash_key = salvage->hash_key};
        enum kv_status status =
            logfile_create(&salvage->logs[number], KVSTORE_IO_MMAP, salvage->out_fd,
                           file_name(number, FILE_LOG_NEW).text, &identity, 0, 0, error);
        if (status != KV_OK)
            return status;
    }
    return KV_OK;
}

static enum kv_status finish_log(struct salvage *salvage, uint32_t number, struct kv_error *error)
{
    struct logfile *log = &salvage->logs[number];
    struct file_name unfinished = file_name(number, FILE_LOG_NEW);
    if (logfile_sync(log) != 0)
        return kv_error_set_errno(error, "%s/%s: cannot sync the file", salvage->out,
                                  unfinished.text);
    if (logfile_note_progress(log, log->tail, salvage->max_version) != 0 ||
        logfile_sync(log) != 0 ||
        fileio->rename_at(salvage->out_fd, unfinished.text, file_name(number, FILE_LOG).text) != 0)
        return kv_error_set_errno(error, "%s/%s: cannot finish the file", salvage->out,
                                  unfinished.text);
    return KV_OK;
}

/* Gives the files their names. data.0000 comes last: a directory without it is no store. */
static enum kv_status finish_store(struct salvage *salvage, struct kv_error *error)
{
    for (uint32_t number = salvage->datafiles; number-- > 0;) {
        enum kv_status status = finish_log(salvage, number, error);
        if (status != KV_OK)
            return status;
    }
    if (fileio->sync_dir(salvage->out_fd) != 0)
        return kv_error_set_errno(error, "%s: cannot sync the directory", salvage->out);
    return KV_OK;
}

static void salvage_close_store(struct salvage *salvage, bool keep)
{
    for (uint32_t number = 0; salvage->logs && number < salvage->datafiles; number++) {
        if (!salvage->logs[number].map)
            continue;
        logfile_close(&salvage->logs[number]);
        if (!keep) {
            fileio->unlink_at(salvage->out_fd, file_name(number, FILE_LOG_NEW).text);
            fileio->unlink_at(salvage->out_fd, file_name(number, FILE_LOG).text);
        }
    }
    free(salvage->logs);
    if (salvage->out_fd >= 0)
        close(salvage->out_fd);
}

/* Copying -------------------------------------------------------------------------------------- */

static bool version_is_possible(uint64_t version)
{
    return version < RECOVERY_VERSION_LIMIT;
}

static void report_version(struct salvage *salvage, const char *file, const char *what,
                           uint64_t version)
{
    fprintf(salvage->findings->stream, "saved: %s/%s: the impossible %s %" PRIu64 " was replaced\n",
            salvage->findings->dir, file, what, version);
    salvage->findings->damages++;
}

/* Makes the versions of the new store continue from here. */
static void take_version(struct salvage *salvage, uint64_t version)
{
    if (version_is_possible(version) && version > salvage->max_version)
        salvage->max_version = version;
}

static enum kv_status copy_record(struct salvage *salvage, const struct record *found,
                                  struct kv_error *error)
{
    struct record alone = *found;
    const struct record *record = &alone;
    record_detach(&alone);
    take_version(salvage, record->version);
    uint32_t number = keyhash_file(salvage->seed, record->key, salvage->datafiles);
    struct logfile *log = &salvage->logs[number];
    enum kv_status status = logtail_ensure_room(
        log, record_size(record->key.size, record->value.size, record->expiry_ms != 0));
    if (status == KV_OK)
        status = logtail_append(log, record, kv_slice(NULL, 0));
    if (status != KV_OK)
        return kv_error_set(error, status, "%s/%s: no room for another record: %s", salvage->out,
                            file_name(number, FILE_LOG).text, kv_status_text(status));
    salvage->keys++;
    return KV_OK;
}

static void replace_impossible_version(struct salvage *salvage, const char *file,
                                       struct record *record)
{
    if (version_is_possible(record->version))
        return;
    report_version(salvage, file, "version", record->version);
    record->version = 1;
}

/* Which transactions there are, of which a crash may have left a part. */
static void note_transaction(struct salvage *salvage, const struct record *record)
{
    salvage->goes_on = record->goes_on;
    salvage->last_transaction = at_least(salvage->last_transaction, record->transaction);
}

static void note_break(struct salvage *salvage)
{
    salvage->breaks_off |= salvage->goes_on;
    salvage->goes_on = false;
}

static enum kv_status copy_live_records(struct salvage *salvage, const struct survey *survey,
                                        struct kv_error *error)
{
    struct survey_walk walk;
    struct walk_step step;
    enum kv_status status = KV_OK;
    survey_walk_start(&walk, survey);
    while (status == KV_OK && survey_walk_next(&walk, &step)) {
        if (step.kind == WALK_RECORD || step.kind == WALK_SUPERSEDED)
            note_transaction(salvage, &step.record);
        else
            note_break(salvage);
        if (survey_is_live(survey, &step)) {
            replace_impossible_version(salvage, survey->source->name.text, &step.record);
            status = copy_record(salvage, &step.record, error);
        }
    }
    note_break(salvage);
    return status;
}

static void report_gap(struct salvage *salvage, const char *file, uint64_t whole_end,
                       const struct survey_fault *gap)
{
    if (gap->kind == WALK_RECORD)
        return; /* the record belongs to another file, and goes there */
    bool is_cut = gap->kind == WALK_TORN && gap->offset == whole_end;
    fprintf(salvage->findings->stream,
            "lost: %s/%s: offset %" PRIu64 " to %" PRIu64 ": %" PRIu64 " bytes%s\n",
            salvage->findings->dir, file, gap->offset, gap->offset + gap->size_bytes,
            gap->size_bytes,
            is_cut ? ": a transaction that is not whole, and what stands behind it, never "
                     "acknowledged as on disk"
            : gap->kind == WALK_TORN ? " of a torn tail, never acknowledged as on disk"
                                     : "");
    if (gap->kind != WALK_TORN || is_cut)
        salvage->findings->damages++;
    salvage->lost_bytes += gap->size_bytes;
}

static void report_losses(struct salvage *salvage, const char *file, const struct survey *survey)
{
    for (size_t i = 0; i < survey->fault_count; i++)
        report_gap(salvage, file, survey->source->whole_end, &survey->faults[i]);
}

static void report_lost_file(struct salvage *salvage, const char *file, const char *why)
{
    fprintf(salvage->findings->stream, "lost: %s/%s: all of it: %s\n", salvage->findings->dir, file,
            why);
    salvage->findings->damages++;
}

/* Returns true if the file says that it is another one, which is there under its own name, too. */
static bool is_another_copy(const struct source *source, int dir_fd, uint32_t number)
{
    uint32_t claimed = source->identity.number;
    if (source->header != SOURCE_HEADER_SOUND || claimed == number)
        return false;
    struct source original;
    if (source_open(&original, dir_fd, claimed, NULL) != KV_OK)
        return false;
    bool there = original.header == SOURCE_HEADER_SOUND && original.identity.number == claimed &&
                 original.identity.store_seed == source->identity.store_seed;
    source_close(&original);
    return there;
}

static enum kv_status salvage_source(struct salvage *salvage, const struct layout *layout,
                                     const struct source *source, int dir_fd, uint32_t number,
                                     struct kv_error *error)
{
    const char *file = source->name.text;
    const char *complaint = layout_complaint(layout, source, number);
    if (source->header == SOURCE_HEADER_LOST || layout_is_foreign(layout, source)) {
        report_lost_file(salvage, file, complaint);
        return KV_OK;
    }
    if (is_another_copy(source, dir_fd, number)) {
        report_lost_file(salvage, file, "it is another copy of a data file that is there");
        return KV_OK;
    }
    if (complaint) {
        fprintf(salvage->findings->stream, "saved: %s/%s: %s, but its records are readable\n",
                salvage->findings->dir, file, complaint);
        salvage->findings->damages++;
    }
    struct survey survey;
    enum kv_status status = survey_run(&survey, source, layout);
    report_losses(salvage, file, &survey);
    if (status != KV_OK)
        status = kv_error_set(error, status, "%s: no memory for an index of its keys", file);
    else
        status = copy_live_records(salvage, &survey, error);
    if (survey.skipped > 0)
        fprintf(salvage->findings->stream,
                "lost: %s/%s: perhaps more: %" PRIu64 " places in gaps look like the start of a "
                "record too large to be checked\n",
                salvage->findings->dir, file, survey.skipped);
    take_version(salvage, survey.max_version);
    take_version(salvage, source->progress.version_floor);
    salvage->settled_transaction = at_least(salvage->settled_transaction, source->progress.settled);
    if (!version_is_possible(source->progress.version_floor))
        report_version(salvage, file, "version floor", source->progress.version_floor);
    salvage->after_damage += survey.after_damage;
    survey_free(&survey);
    return status;
}

static enum kv_status salvage_file(struct salvage *salvage, int dir_fd, const struct layout *layout,
                                   uint32_t number, struct kv_error *error)
{
    struct source source;
    enum kv_status status = source_open(&source, dir_fd, number, error);
    if (status == KV_NOT_FOUND) {
        report_lost_file(salvage, source.name.text, "the file is missing");
        return KV_OK;
    }
    if (status != KV_OK)
        return status;
    layout_bound(layout, &source, number);
    status = salvage_source(salvage, layout, &source, dir_fd, number, error);
    source_close(&source);
    return status;
}

/* Copies the newest intact record of every key to a store of salvage->datafiles files. */
static enum kv_status copy_store(struct salvage *salvage, int dir_fd, const struct layout *layout,
                                 struct kv_error *error)
{
    enum kv_status status = open_empty_directory(salvage, error);
    if (status == KV_OK)
        status = create_logs(salvage, error);
    for (uint32_t number = 0; number < layout->datafiles && status == KV_OK; number++)
        status = salvage_file(salvage, dir_fd, layout, number, error);
    return status;
}

enum kv_status salvage_store(int dir_fd, const struct layout *layout, const char *out,
                             struct findings *findings, struct kv_error *error)
{
    struct salvage salvage = {.findings = findings,
                              .out = out,
                              .out_fd = -1,
                              .datafiles = layout->datafiles,
                              .seed = layout->sound ? layout->seed : random_secret(),
                              .hash_key = {{random_secret(), random_secret()}}};
    enum kv_status status = copy_store(&salvage, dir_fd, layout, error);
    if (status == KV_OK)
        status = finish_store(&salvage, error);
    salvage_close_store(&salvage, status == KV_OK);
    if (status == KV_OK && salvage.breaks_off) {
        fprintf(findings->stream, "lost: records of transactions, others of which were saved\n");
        findings->damages++;
    }
    if (status == KV_OK) {
        char size[32];
        fprintf(findings->stream,
                "%s: %" PRIu64 " keys saved; %s lost; %" PRIu64
                " records found behind damaged places\n",
                out, salvage.keys, format_size(salvage.lost_bytes, size), salvage.after_damage);
    }
    return status;
}

enum kv_status rewrite_store(int dir_fd, const struct layout *layout, const char *out,
                             uint32_t datafiles, struct findings *findings, struct kv_error *error)
{
    struct salvage salvage = {.findings = findings,
                              .out = out,
                              .out_fd = -1,
                              .datafiles = datafiles ? datafiles : layout->datafiles,
                              .seed = layout->seed,
                              .hash_key = {{random_secret(), random_secret()}}};
    enum kv_status status = copy_store(&salvage, dir_fd, layout, error);
    if (status == KV_OK && (findings->damages > 0 || !layout->sound))
        status = kv_error_set(error, KV_CORRUPT,
                              "the store is damaged, and nothing was made of it; save what is "
                              "intact first: kvcheck --salvage OUT %s",
                              findings->dir);
    if (status == KV_OK &&
        (salvage.breaks_off || salvage.last_transaction > salvage.settled_transaction))
        status = kv_error_set(error, KV_CORRUPT,
                              "the store was not closed, and may have parts of transactions that "
                              "are not whole; start the daemon with it and stop it, then again");
    if (status == KV_OK)
        status = finish_store(&salvage, error);
    salvage_close_store(&salvage, status == KV_OK);
    if (status == KV_OK)
        fprintf(findings->stream, "%s: %" PRIu64 " keys in %" PRIu32 " data file%s of format %u\n",
                out, salvage.keys, salvage.datafiles, salvage.datafiles == 1 ? "" : "s",
                FILE_FORMAT_VERSION);
    return status;
}
