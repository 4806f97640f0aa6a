#include "kvstore/kvcheck/verify.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/report/error.h"
#include "kvstore/format/damaged_key.h"
#include "kvstore/table/checkpoint.h"
#include "kvstore/table/generation.h"
#include "kvstore/kvcheck/order_check.h"
#include "kvstore/kvcheck/running_store.h"
#include "kvstore/kvcheck/survey.h"
#include "kvstore/table/recovery.h"
#include "kvstore/kvcheck/source_open.h"

/* What the table says about a file. */
struct row {
    struct file_name name;
    bool missing;
    bool damaged;
    const char *checkpoint;
    uint64_t file_bytes;
    uint64_t synced_bytes;
    struct survey survey; /* its counts only; what its pointers point at is gone */
    enum order_state order;
    uint64_t ordered_keys;
};

/* How many times a data file that compactions replace is looked at again. */
#define LIVE_TRIES 10u

/* After so many looks that found damage there is some, though each has found another. */
#define LIVE_DAMAGED_LOOKS 3u

/* Of a gap that begins with a record whose key can be read. */
static void describe_key(const struct layout *layout, const struct source *source, uint64_t offset,
                         char text[DAMAGED_KEY_TEXT_BYTES])
{
    const struct damaged_file file = {source->identity.number, layout->datafiles, layout->seed};
    uint64_t size_bytes = source->size_bytes - offset;
    bool is_known = layout->sound && source->header == SOURCE_HEADER_SOUND;
    damaged_key_describe(is_known
                             ? damaged_key_find(&file, source->map + offset, size_bytes, size_bytes)
                             : kv_slice(NULL, 0),
                         text);
}

static void report_fault(const struct layout *layout, const struct source *source,
                         const struct survey_fault *fault, struct findings *findings)
{
    const char *name = source->name.text;
    char of_key[DAMAGED_KEY_TEXT_BYTES];
    describe_key(layout, source, fault->offset, of_key);
    if (fault->kind == WALK_RECORD)
        findings_add(findings, REMEDY_SALVAGE, name, fault->offset,
                     "the record's key belongs in another data file");
    else if (fault->kind == WALK_TORN && fault->offset == source->whole_end)
        findings_add(findings, REMEDY_NONE, name, fault->offset,
                     "the transaction is not whole: %" PRIu64 " bytes from here on, which were "
                     "never acknowledged as on disk, do not count; the next open cuts them off",
                     fault->size_bytes);
    else if (fault->kind == WALK_TORN &&
             !source->is_live) /* in a live store it is what is being written */
        findings_add(findings, REMEDY_NONE, name, fault->offset,
                     "torn tail: %" PRIu64 " bytes written after the last sync are no valid "
                     "record, and none follows; the next open cuts them off",
                     fault->size_bytes);
    else if (fault->kind == WALK_DAMAGE)
        findings_add(findings, REMEDY_SALVAGE, name, fault->offset, "%" PRIu64 " bytes hold %s%s",
                     fault->size_bytes,
                     fault->all_zero ? "only zeros where records should be" : "no valid record",
                     of_key);
    /* WALK_HOLE: see verify_report_gap, when it is known what follows */
}

/* Returns what may have left the hole; *why: the rest of the sentence. */
static const char *hole_reason(enum boot boot, const char **why)
{
    *why = "";
    if (boot == BOOT_THIS)
        return "the machine has not been started again since they were written, so that this is "
               "damage, or the store was copied while a daemon wrote to it; serverk refuses the "
               "file";
    if (boot == BOOT_EARLIER)
        return "they were written after the last noted sync: a power failure leaves that, or a "
               "copy made while a daemon wrote; the next open for writing cuts them off and keeps "
               "them in a file of their own";
    *why = boot_why_unknown(boot);
    return "serverk refuses the file, since it is not known whether the machine has been started "
           "again since they were written, which could leave that: ";
}

/* Reports a gap, unless a write under way has left it: that is no damage. */
static void verify_report_gap(const struct source *source, const struct survey *survey,
                              struct findings *findings)
{
    if (survey->hole_at == 0 ||
        (source->is_live && !running_store_gap_stays(source, survey->hole_at)))
        return;
    const char *why, *reason = hole_reason(source->boot, &why);
    findings_add(findings, REMEDY_SALVAGE, source->name.text, survey->hole_at,
                 "no valid record, but %" PRIu64 " intact records follow: %s%s", survey->after_hole,
                 reason, why);
}

/* Returns "none", "ok" or "stale", or reports damage: the checkpoint matches its log and yet says
 * something else. */
static const char *check_checkpoint(int dir_fd, uint32_t number, const struct survey *survey,
                                    struct findings *findings)
{
    struct file_name name = file_name(number, FILE_CHECKPOINT);
    struct logfile log;
    struct generation *generation = NULL;
    struct shared_generation words = {0};
    if (faccessat(dir_fd, name.text, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return "none";
    if (logfile_open(&log, KVSTORE_IO_MMAP, dir_fd, survey->source->name.text, false, NULL) !=
            KV_OK ||
        generation_create(log, &words, &generation) != KV_OK)
        return "?";
    struct arena *arena = arena_create(-1, SHARED_STORE_HEADER_BYTES);
    if (!arena || generation_begin_index(generation, arena) != KV_OK) {
        generation_free(generation);
        arena_free(arena);
        return "?";
    }
    const char *verdict = "stale";
    if (checkpoint_load(generation, dir_fd)) {
        /* The numbers may differ: expired entries are taken out of an index without a trace in the
         * log, and a damaged log has lost keys that the checkpoint still has. */
        uint64_t keys = index_count(generation->index);
        bool agrees = survey->damaged_bytes > 0 ||
                      (keys <= survey->keys && keys >= survey->keys - survey->expired_keys);
        verdict = agrees ? "ok" : "wrong";
        if (!agrees)
            findings_add(findings, REMEDY_REMOVE_CHECKPOINT, name.text, 0,
                         "the checkpoint has %" PRIu64 " keys, its data file %" PRIu64, keys,
                         survey->keys);
    }
    generation_free(generation);
    arena_free(arena);
    return verdict;
}

/* Verifies an open file. */
static enum kv_status check_source(const struct layout *layout, const struct source *source,
                                   uint32_t number, struct findings *findings, struct row *row,
                                   struct kv_error *error)
{
    const char *complaint = layout_complaint(layout, source, number);
    if (complaint)
        findings_add(findings,
                     layout_is_foreign(layout, source) ? REMEDY_RESTORE_FILE : REMEDY_SALVAGE,
                     source->name.text, 0, "%s", complaint);
    else if (!source->progress_sound)
        findings_add(findings, REMEDY_SALVAGE, source->name.text, 512,
                     "both copies of the synced offset are damaged");
    else if (source->progress.version_floor >= RECOVERY_VERSION_LIMIT)
        findings_add(findings, REMEDY_SALVAGE, source->name.text, 512,
                     "impossible version floor %" PRIu64, source->progress.version_floor);
    enum kv_status status = survey_run(&row->survey, source, layout);
    for (size_t i = 0; i < row->survey.fault_count; i++)
        report_fault(layout, source, &row->survey.faults[i], findings);
    if (status != KV_OK)
        status =
            kv_error_set(error, status, "%s: no memory for an index of its keys", row->name.text);
    if (row->survey.max_version >= RECOVERY_VERSION_LIMIT)
        findings_add(findings, REMEDY_SALVAGE, row->name.text, FILE_HEADER_BYTES,
                     "a record has the impossible version %" PRIu64, row->survey.max_version);
    verify_report_gap(source, &row->survey, findings);
    row->file_bytes = source->map_bytes;
    row->synced_bytes = source->progress.synced_offset;
    return status;
}

static enum kv_status report_missing(const struct layout *layout, struct findings *findings,
                                     struct row *row)
{
    row->missing = true;
    findings_add(findings, REMEDY_RESTORE_FILE, row->name.text, 0,
                 "the file is missing; the store has %" PRIu32 " data files", layout->datafiles);
    return KV_OK;
}

static enum kv_status verify_file(int dir_fd, const struct layout *layout, uint32_t number,
                                  struct findings *findings, struct row *row,
                                  struct kv_error *error)
{
    uint64_t damages_before = findings->damages;
    struct source source;
    *row = (struct row){.name = file_name(number, FILE_LOG), .checkpoint = "-"};
    enum kv_status status = source_open(&source, dir_fd, number, error);
    if (status == KV_NOT_FOUND)
        return report_missing(layout, findings, row);
    if (status != KV_OK)
        return status;
    layout_bound(layout, &source, number);
    status = check_source(layout, &source, number, findings, row, error);
    if (status == KV_OK && source.header == SOURCE_HEADER_SOUND && source.progress_sound)
        row->checkpoint = check_checkpoint(dir_fd, number, &row->survey, findings);
    row->damaged = findings->damages > damages_before;
    survey_free(&row->survey);
    source_close(&source);
    return status;
}

/* Checks the order of the file's keys, if the daemon keeps one. */
static enum kv_status check_order(struct running_store *live, const struct source *source,
                                  struct findings *findings, struct row *row, bool *replaced,
                                  struct kv_error *error)
{
    row->order = order_check(live, source, findings, &row->ordered_keys);
    *replaced = row->order == ORDER_REPLACED;
    if (row->order == ORDER_UNFINISHED)
        findings_add(findings, REMEDY_NONE, row->name.text, 0,
                     "the order of the keys is being built, and was not looked at");
    return row->order == ORDER_LACKS_MEMORY
               ? kv_error_set(error, KV_NO_MEMORY, "%s: no memory to check the order of its keys",
                              row->name.text)
               : KV_OK;
}

/* Looks once at a file that is in use; *again: it was replaced meanwhile, and nothing counts. */
static enum kv_status look_at_live(struct running_store *live, const struct layout *layout,
                                   uint32_t number, struct findings *findings, struct row *row,
                                   bool *again, struct kv_error *error)
{
    struct source source;
    *again = false;
    *row = (struct row){.name = file_name(number, FILE_LOG), .checkpoint = "-"};
    enum kv_status status = source_open_live(&source, live->dir_fd, number, error);
    if (status == KV_NOT_FOUND)
        return report_missing(layout, findings, row);
    if (status != KV_OK)
        return status;
    row->synced_bytes = source.progress.synced_offset;
    uint64_t synced_bytes = source.progress.synced_offset;
    bool is_bounded = running_store_bound(live, &source);
    status = check_source(layout, &source, number, findings, row, error);
    row->synced_bytes = synced_bytes;
    row->survey.torn_bytes = is_bounded ? row->survey.torn_bytes : 0;
    if (status == KV_OK && source.header == SOURCE_HEADER_SOUND)
        status = check_order(live, &source, findings, row, again, error);
    row->damaged = findings->damages > 0;
    *again |= running_store_was_replaced(live, &source);
    survey_free(&row->survey);
    source_close(&source);
    return status;
}

/* What one look at a file that is in use has found. */
struct live_look {
    char *text; /* the findings; NULL: there was no look yet */
    uint64_t damages;
    bool was_replaced; /* the file was, meanwhile: nothing counts */
};

static enum kv_status look_for_text(struct running_store *live, const struct layout *layout,
                                    uint32_t number, const char *dir, struct row *row,
                                    struct live_look *look, struct kv_error *error)
{
    size_t size = 0;
    *look = (struct live_look){.text = NULL};
    struct findings found = {.dir = dir, .stream = open_memstream(&look->text, &size)};
    if (!found.stream)
        return kv_error_set(error, KV_NO_MEMORY, "no memory to check %s",
                            file_name(number, FILE_LOG).text);
    enum kv_status status =
        look_at_live(live, layout, number, &found, row, &look->was_replaced, error);
    fclose(found.stream);
    look->damages = found.damages;
    return status;
}

/* Looks until nothing is damaged, or two looks have found the same, or LIVE_DAMAGED_LOOKS some: the
 * file changes under the first one. */
static enum kv_status check_live_file(struct running_store *live, const struct layout *layout,
                                      uint32_t number, struct findings *findings, struct row *row,
                                      struct kv_error *error)
{
    struct live_look last = {.text = NULL};
    unsigned replaced = 0, damaged = 0;
    for (;;) {
        struct live_look look;
        enum kv_status status =
            look_for_text(live, layout, number, findings->dir, row, &look, error);
        if (status == KV_OK && look.was_replaced && ++replaced > LIVE_TRIES)
            status = kv_error_set(error, KV_BUSY,
                                  "%s: compactions replace the file faster than it can be read; "
                                  "try again when there is less to do",
                                  row->name.text);
        bool counts = status == KV_OK && !look.was_replaced;
        bool is_certain = counts && (look.damages == 0 || ++damaged == LIVE_DAMAGED_LOOKS ||
                                     (last.text && strcmp(look.text, last.text) == 0));
        if (is_certain) {
            fputs(look.text, findings->stream);
            findings->damages += look.damages;
        }
        free(counts ? last.text : look.text);
        last = counts ? look : last;
        if (status != KV_OK || is_certain) {
            free(last.text);
            return status;
        }
        if (counts)
            running_store_settle();
    }
}

static void print_survey_row(FILE *stream, const struct row *row)
{
    const struct survey *survey = &row->survey;
    uint64_t dead_bytes = survey->record_bytes - survey->live_bytes;
    fprintf(stream,
            "%-10s %12" PRIu64 " %12" PRIu64 " %10" PRIu64 " %10" PRIu64 " %9" PRIu64 " %12" PRIu64
            " %12" PRIu64 " %9" PRIu64 " %9" PRIu64 " %-10s %s\n",
            row->name.text, row->file_bytes, row->synced_bytes, survey->records, survey->keys,
            survey->expiring_keys, survey->live_bytes, dead_bytes, survey->torn_bytes,
            survey->damaged_bytes, row->checkpoint,
            row->missing   ? "MISSING"
            : row->damaged ? "DAMAGED"
                           : "sound");
}

static void add_up(struct row *total, const struct row *row)
{
    total->damaged |= row->damaged || row->missing;
    total->file_bytes += row->file_bytes;
    total->synced_bytes += row->synced_bytes;
    total->survey.records += row->survey.records;
    total->survey.keys += row->survey.keys;
    total->survey.expiring_keys += row->survey.expiring_keys;
    total->survey.live_bytes += row->survey.live_bytes;
    total->survey.record_bytes += row->survey.record_bytes;
    total->survey.torn_bytes += row->survey.torn_bytes;
    total->survey.damaged_bytes += row->survey.damaged_bytes;
}

/* Says how many keys are in their order, if all files have one that is sound. */
static void print_order(FILE *stream, const struct row *rows, uint32_t count)
{
    uint64_t keys = 0;
    for (uint32_t number = 0; number < count; number++) {
        if (rows[number].order != ORDER_CHECKED || rows[number].damaged)
            return;
        keys += rows[number].ordered_keys;
    }
    fprintf(stream, "order: %" PRIu64 " keys\n", keys);
}

static enum kv_status verify_files(int dir_fd, const struct layout *layout,
                                   struct running_store *live, struct findings *findings,
                                   struct kv_error *error)
{
    struct row *rows = calloc(layout->datafiles, sizeof *rows);
    if (!rows)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for %" PRIu32 " data files",
                            layout->datafiles);
    enum kv_status status = KV_OK;
    for (uint32_t number = 0; number < layout->datafiles && status == KV_OK; number++)
        status = live ? check_live_file(live, layout, number, findings, &rows[number], error)
                      : verify_file(dir_fd, layout, number, findings, &rows[number], error);
    if (status == KV_OK) {
        struct row total = {.name = {"total"}, .checkpoint = "-"};
        fprintf(findings->stream, "%-10s %12s %12s %10s %10s %9s %12s %12s %9s %9s %-10s %s\n",
                "file", "file_bytes", "synced_bytes", "records", "keys", "expiring", "live_bytes",
                "dead_bytes", "torn", "damaged", "checkpoint", "state");
        for (uint32_t number = 0; number < layout->datafiles; number++) {
            print_survey_row(findings->stream, &rows[number]);
            add_up(&total, &rows[number]);
        }
        if (layout->datafiles > 1)
            print_survey_row(findings->stream, &total);
        if (live)
            print_order(findings->stream, rows, layout->datafiles);
    }
    free(rows);
    return status;
}

enum kv_status verify_store(int dir_fd, const struct layout *layout, struct findings *findings,
                            struct kv_error *error)
{
    return verify_files(dir_fd, layout, NULL, findings, error);
}

enum kv_status verify_live_store(int dir_fd, const struct layout *layout, struct findings *findings,
                                 struct kv_error *error)
{
    struct running_store live;
    running_store_open(&live, dir_fd, layout);
    enum kv_status status = verify_files(dir_fd, layout, &live, findings, error);
    running_store_close(&live);
    return status;
}
