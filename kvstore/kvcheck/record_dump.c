#include "kvstore/kvcheck/record_dump.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/report/error.h"
#include "common/text/escape.h"
#include "kvstore/kvcheck/survey.h"
#include "kvstore/kvcheck/source_open.h"

static const char *kind_name(const struct record *record)
{
    return record->kind == RECORD_PUT ? "put" : "delete";
}

static void print_record_text(const char *file, const struct walk_step *step, bool live)
{
    const struct record *record = &step->record;
    printf("%s %" PRIu64 " %s %s version=%" PRIu64 " expiry_ms=%" PRIu64 " ", file, step->offset,
           live ? "live" : "dead", kind_name(record), record->version, record->expiry_ms);
    escape_print_word(stdout, record->key);
    if (record->kind == RECORD_PUT) {
        putchar(' ');
        escape_print_word(stdout, record->value);
    }
    putchar('\n');
}

static void print_record_json(const char *file, const struct walk_step *step, bool live)
{
    const struct record *record = &step->record;
    printf("{\"file\":\"%s\",\"offset\":%" PRIu64
           ",\"live\":%s,\"kind\":\"%s\",\"version\":%" PRIu64 ",\"expiry_ms\":%" PRIu64
           ",\"key\":",
           file, step->offset, live ? "true" : "false", kind_name(record), record->version,
           record->expiry_ms);
    escape_print_json(stdout, record->key);
    if (record->kind == RECORD_PUT) {
        fputs(",\"value\":", stdout);
        escape_print_json(stdout, record->value);
    }
    fputs("}\n", stdout);
}

static void dump_records(const struct survey *survey, enum dump_format format,
                         struct findings *findings)
{
    const char *file = survey->source->name.text;
    struct survey_walk walk;
    struct walk_step step;
    survey_walk_start(&walk, survey);
    while (!ferror(stdout) && survey_walk_next(&walk, &step)) {
        if (step.kind == WALK_SUPERSEDED)
            continue; /* its value is nowhere any more */
        if (step.kind != WALK_RECORD)
            findings_add(findings, step.kind == WALK_TORN ? REMEDY_NONE : REMEDY_SALVAGE, file,
                         step.offset, "%" PRIu64 " bytes hold no valid record", step.size_bytes);
        else if (format == DUMP_JSON)
            print_record_json(file, &step, survey_is_live(survey, &step));
        else
            print_record_text(file, &step, survey_is_live(survey, &step));
    }
}

static enum kv_status dump_file(int dir_fd, const struct layout *layout, uint32_t number,
                                enum dump_format format, struct findings *findings,
                                struct kv_error *error)
{
    struct source source;
    struct survey survey;
    enum kv_status status = source_open(&source, dir_fd, number, error);
    if (status == KV_NOT_FOUND) {
        findings_add(findings, REMEDY_RESTORE_FILE, source.name.text, 0, "the file is missing");
        return KV_OK;
    }
    if (status != KV_OK)
        return status;
    const char *complaint = layout_complaint(layout, &source, number);
    if (complaint)
        findings_add(findings, REMEDY_SALVAGE, source.name.text, 0, "%s", complaint);
    layout_bound(layout, &source, number);
    status = survey_run(&survey, &source, layout);
    if (source.whole_end != UINT64_MAX)
        findings_add(findings, REMEDY_NONE, source.name.text, source.whole_end,
                     "the transaction is not whole: from here on nothing counts");
    source.whole_end = UINT64_MAX; /* what does not count is printed, as dead */
    if (status != KV_OK)
        kv_error_set(error, status, "%s: no memory for an index of its keys", source.name.text);
    else if (source.header != SOURCE_HEADER_LOST)
        dump_records(&survey, format, findings);
    survey_free(&survey);
    source_close(&source);
    return status;
}

enum kv_status dump_store(int dir_fd, const struct layout *layout, enum dump_format format,
                          struct findings *findings, struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (uint32_t number = 0; number < layout->datafiles && status == KV_OK; number++)
        status = dump_file(dir_fd, layout, number, format, findings, error);
    return status;
}
