#include "kvstore/kvcheck/log_ends.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/report/error.h"
#include "kvstore/format/sizes.h"
#include "kvstore/table/transaction_parts.h"
#include "kvstore/kvcheck/source_open.h"
#include "kvstore/kvcheck/walk.h"

/* What was read of a data file. */
struct read_log {
    struct transaction_parts parts;
    bool is_damaged; /* parts of it may be gone */
    uint64_t end;    /* before a transaction whose last records are missing */
};

struct log_search {
    const struct layout *layout;
    struct read_log *logs;
    uint32_t count;
    uint64_t settled; /* the highest number of all headers so far */
};

static bool keep_part(const struct log_search *search, struct read_log *log,
                      const struct record *record, uint64_t begin)
{
    const struct transaction_part part = {record->transaction, begin, record->next_file};
    return record->transaction <= search->settled || transaction_parts_add(&log->parts, &part);
}

static bool is_content(const struct record *record)
{
    return record->kind == RECORD_EXTENT || (record->in_extent && record->content_at == 0);
}

/* False: no memory. */
static bool read_log(struct log_search *search, uint32_t number, const struct source *source)
{
    struct read_log *log = &search->logs[number];
    struct walk walk;
    struct walk_step step;
    uint64_t begin = 0;
    bool goes_on = false;
    bool is_read = true;
    log->is_damaged = layout_complaint(search->layout, source, number) || !source->progress_sound;
    if (source->header == SOURCE_HEADER_LOST)
        return true;
    walk_start(&walk, source, NULL);
    while (is_read && walk_next(&walk, &step)) {
        if (step.kind == WALK_TORN)
            break;
        if (step.kind == WALK_DAMAGE || step.kind == WALK_HOLE) {
            log->is_damaged = true;
            goes_on = false;
        } else if (!is_content(&step.record)) {
            begin = goes_on ? begin : step.offset;
            goes_on = step.record.goes_on;
            is_read = step.record.transaction == 0 || keep_part(search, log, &step.record, begin);
        }
    }
    if (goes_on && !log->is_damaged)
        log->end = begin;
    return is_read;
}

static enum kv_status read_file(struct log_search *search, int dir_fd, uint32_t number,
                                struct kv_error *error)
{
    struct source source;
    enum kv_status status = source_open(&source, dir_fd, number, error);
    search->logs[number].is_damaged = true;
    if (status != KV_OK)
        return status == KV_NOT_FOUND ? KV_OK : status;
    search->settled = at_least(search->settled, source.progress.settled);
    if (!read_log(search, number, &source))
        status = kv_error_set(error, KV_NO_MEMORY, "%s: no memory for its transactions",
                              source.name.text);
    source_close(&source);
    return status;
}

/* A store that was closed has a checkpoint of each file, and nothing that was not synced. */
static bool was_closed(int dir_fd, const struct layout *layout)
{
    bool closed = true;
    for (uint32_t number = 0; number < layout->datafiles && closed; number++) {
        struct source source;
        closed = faccessat(dir_fd, file_name(number, FILE_CHECKPOINT).text, F_OK,
                           AT_SYMLINK_NOFOLLOW) == 0 &&
                 source_open(&source, dir_fd, number, NULL) == KV_OK;
        if (!closed)
            break;
        closed = source.progress_sound && source.used_bytes <= source.progress.synced_offset;
        source_close(&source);
    }
    return closed;
}

static enum kv_status read_files(struct log_search *search, int dir_fd, struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (uint32_t number = 0; number < search->count && status == KV_OK; number++)
        status = read_file(search, dir_fd, number, error);
    return status;
}

/* Sets each of the ends. False: no memory. */
static bool set_ends(const struct log_search *search, uint64_t *ends)
{
    struct parted_log *logs = malloc(search->count * sizeof *logs);
    if (!logs)
        return false;
    for (uint32_t number = 0; number < search->count; number++) {
        const struct read_log *log = &search->logs[number];
        logs[number] = (struct parted_log){&log->parts, log->is_damaged, log->end};
    }
    transaction_parts_end_logs(logs, search->count, search->settled);
    for (uint32_t number = 0; number < search->count; number++)
        ends[number] = logs[number].end;
    free(logs);
    return true;
}

enum kv_status log_ends_find(int dir_fd, const struct layout *layout, uint64_t **ends,
                             struct kv_error *error)
{
    struct log_search search = {.layout = layout, .count = layout->datafiles};
    enum kv_status status = KV_OK;
    search.logs = calloc(search.count, sizeof *search.logs);
    *ends = malloc(search.count * sizeof **ends);
    for (uint32_t number = 0; search.logs && number < search.count; number++)
        search.logs[number].end = UINT64_MAX;
    if (search.logs && !was_closed(dir_fd, layout))
        status = read_files(&search, dir_fd, error);
    if (status == KV_OK && (!search.logs || !*ends || !set_ends(&search, *ends)))
        status =
            kv_error_set(error, KV_NO_MEMORY, "no memory for %" PRIu32 " data files", search.count);
    for (uint32_t number = 0; search.logs && number < search.count; number++)
        transaction_parts_free(&search.logs[number].parts);
    free(search.logs);
    if (status != KV_OK) {
        free(*ends);
        *ends = NULL;
    }
    return status;
}
