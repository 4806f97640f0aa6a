/*
 * history: what the checks know of a log: the records that must be there, and that which may be.
 */
#ifndef LAB_HISTORY_H
#define LAB_HISTORY_H

#include <string.h>

#include "log.h"
#include "tests/explore/explore.h"
#include "tests/explore/machine.h"

#define HISTORY_PATH  MACHINE_PATH "/a"
#define RECORDS_MOST  64u
#define NOTHING_TRIED UINT32_MAX

/* Records are numbers, of which the bytes follow; some are larger than a sector of the disk. */
static struct {
    uint32_t next;                  /* number */
    uint32_t records[RECORDS_MOST]; /* that must be there, in order */
    uint32_t count;
    uint32_t tried; /* an append, or a replacement, of which the outcome is not known */
    bool replaces;
} history;

struct history_look {
    uint32_t records[RECORDS_MOST], count;
};

static void history_make(uint32_t number, uint8_t record[LOG_MAX_RECORD_BYTES], size_t *bytes)
{
    *bytes = number % 4 == 3 ? 600 : 4 + number * 7 % 60;
    for (size_t i = 0; i < *bytes; i++)
        record[i] = (uint8_t)(number * 31 + i * 7);
    memcpy(record, &number, sizeof number);
}

static void history_begin(void)
{
    machine_begin();
    memset(&history, 0, sizeof history);
    history.next = 1;
    history.tried = NOTHING_TRIED;
}

static void history_visit(void *context, const void *record, size_t bytes)
{
    struct history_look *look = context;
    static uint8_t expected[LOG_MAX_RECORD_BYTES];
    uint32_t number = 0;
    size_t expected_bytes;
    if (bytes >= sizeof number)
        memcpy(&number, record, sizeof number);
    history_make(number, expected, &expected_bytes);
    EXPLORE_CHECK(number > 0 && number < history.next && bytes == expected_bytes &&
                      memcmp(record, expected, bytes) == 0,
                  "the log has a record of %zu bytes that was never appended", bytes);
    EXPLORE_CHECK(look->count < RECORDS_MOST, "the log has records that do not end");
    look->records[look->count++] = number;
}

static bool history_is(const struct history_look *look, const uint32_t *records, uint32_t count)
{
    return look->count == count && memcmp(look->records, records, count * sizeof *records) == 0;
}

/* Opens the log, which has what it must have; what is found out of what was tried is so from now
 * on. */
static void history_open(struct log *log)
{
    struct history_look look = {.count = 0};
    int error = log_open(log, HISTORY_PATH, history_visit, &look);
    EXPLORE_CHECK(error == 0, "log_open gives errno %d", error);
    bool before = explore_quietly(true);
    uint32_t after[RECORDS_MOST], after_count = history.replaces ? 0 : history.count;
    memcpy(after, history.records, sizeof after);
    if (history.tried != NOTHING_TRIED)
        after[after_count++] = history.tried;
    bool as_before = history_is(&look, history.records, history.count);
    bool as_after = history.tried != NOTHING_TRIED && history_is(&look, after, after_count);
    for (uint32_t i = 0; !as_before && !as_after && i < look.count; i++)
        explore_note("  it has record %u", look.records[i]);
    for (uint32_t i = 0; !as_before && !as_after && i < history.count; i++)
        explore_note("  acknowledged: record %u", history.records[i]);
    EXPLORE_CHECK(as_before || as_after, "the log has %u records, but %u were acknowledged%s",
                  look.count, history.count,
                  history.tried != NOTHING_TRIED ? ", and one was under way" : "");
    if (as_after) {
        memcpy(history.records, after, sizeof after);
        history.count = after_count;
    }
    history.tried = NOTHING_TRIED;
    explore_quietly(before);
}

/* Appends the next record, or replaces all by it. */
static void history_add(struct log *log, bool replaces)
{
    static uint8_t record[LOG_MAX_RECORD_BYTES];
    size_t bytes;
    uint32_t number = history.next++;
    history_make(number, record, &bytes);
    history.tried = number;
    history.replaces = replaces;
    explore_note(" %s record %u of %zu bytes", replaces ? "replaces all by" : "appends", number,
                 bytes);
    int error = replaces ? log_replace(log, record, bytes) : log_append(log, record, bytes);
    EXPLORE_CHECK(error == 0, "log_%s gives errno %d", replaces ? "replace" : "append", error);
    bool before = explore_quietly(true);
    if (replaces)
        history.count = 0;
    history.records[history.count++] = number;
    history.tried = NOTHING_TRIED;
    explore_quietly(before);
}

#endif
