#include "kvstore/kvcheck/log_ends.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/report/error.h"
#include "kvstore/format/sizes.h"
#include "kvstore/kvcheck/source_open.h"
#include "kvstore/kvcheck/walk.h"

#define PARTS_MORE 64u

/* The part of a transaction of several files in one of them. */
struct noted_part {
    uint64_t transaction;
    uint64_t begin;
    uint32_t next_file;
};

/* What was read of a data file. */
struct read_log {
    struct noted_part *parts; /* as they stand in the file */
    size_t count, capacity;
    bool is_damaged; /* parts of it may be gone */
    uint64_t end;
};

struct log_search {
    const struct layout *layout;
    struct read_log *logs;
    uint32_t count;
    uint64_t settled; /* the highest number of all headers so far */
};

static bool keep_part(struct log_search *search, struct read_log *log, const struct record *record,
                      uint64_t begin)
{
    if (record->transaction <= search->settled)
        return true;
    if (log->count == log->capacity) {
        size_t capacity = at_least(2 * log->capacity, PARTS_MORE);
        struct noted_part *parts = realloc(log->parts, capacity * sizeof *parts);
        if (!parts)
            return false;
        log->parts = parts;
        log->capacity = capacity;
    }
    log->parts[log->count++] = (struct noted_part){record->transaction, begin, record->next_file};
    return true;
}

static bool is_content(const struct record *record)
{
    return record->kind == RECORD_BERTH || (record->in_berth && record->content_at == 0);
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

/* Returns true if the file has a part of the transaction before its end, or had one that is lost.
 */
static bool has_part(const struct log_search *search, uint32_t number, uint64_t transaction)
{
    if (number >= search->count)
        return false;
    const struct read_log *log = &search->logs[number];
    size_t low = 0, high = log->count; /* numbers ascend in a file */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->parts[middle].transaction < transaction)
            low = middle + 1;
        else
            high = middle;
    }
    return log->is_damaged || (low < log->count && log->parts[low].transaction == transaction &&
                               log->parts[low].begin < log->end);
}

/* Ends the log before its first part without a next one. True: that is another end. */
static bool end_before_missing(const struct log_search *search, struct read_log *log)
{
    for (size_t i = 0; i < log->count && log->parts[i].begin < log->end; i++)
        if (log->parts[i].transaction > search->settled &&
            !has_part(search, log->parts[i].next_file, log->parts[i].transaction)) {
            log->end = log->parts[i].begin;
            return true;
        }
    return false;
}

/* Each end may leave other logs without a next part. */
static void find_missing(const struct log_search *search)
{
    bool moved;
    do {
        moved = false;
        for (uint32_t number = 0; number < search->count; number++)
            moved |= !search->logs[number].is_damaged &&
                     end_before_missing(search, &search->logs[number]);
    } while (moved);
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
    if (status == KV_OK)
        find_missing(search);
    return status;
}

enum kv_status log_ends_find(int dir_fd, const struct layout *layout, uint64_t **ends,
                             struct kv_error *error)
{
    struct log_search search = {.layout = layout, .count = layout->datafiles};
    enum kv_status status = KV_OK;
    search.logs = calloc(search.count, sizeof *search.logs);
    *ends = malloc(search.count * sizeof **ends);
    if (!search.logs || !*ends) {
        status =
            kv_error_set(error, KV_NO_MEMORY, "no memory for %" PRIu32 " data files", search.count);
    } else {
        for (uint32_t number = 0; number < search.count; number++)
            search.logs[number].end = UINT64_MAX;
        if (!was_closed(dir_fd, layout))
            status = read_files(&search, dir_fd, error);
        for (uint32_t number = 0; number < search.count; number++) {
            (*ends)[number] = search.logs[number].end;
            free(search.logs[number].parts);
        }
    }
    free(search.logs);
    if (status != KV_OK) {
        free(*ends);
        *ends = NULL;
    }
    return status;
}
