#include "tests/explore/explore_machine_logs.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvstore/format/commit_entry.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/record.h"
#include "tests/explore/explore.h"
#include "tests/explore/explore_machine.h"
#include "tests/explore/explore_machine_reads.h"

#define LOG_BYTES  (2u << 20) /* of the largest file of the machine */
#define PARTS_MOST 512u       /* of transactions in a file: each has 80 bytes and more */

struct raw_file {
    uint64_t bytes;
    uint8_t at[LOG_BYTES];
};

static struct {
    bool is_read; /* and the disk has not failed, so that the engine reads the same */
    struct logged {
        bool is_there; /* by the last record that is not superseded, and does not expire */
        uint64_t version;
        bool is_superseded; /* the last record */
        uint32_t file;
    } keys[MODEL_KEYS];
} logs;

static void read_file(const char *name, struct raw_file *content)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", run.path, name);
    content->bytes = 0;
    int descriptor = open(path, O_RDONLY);
    if (descriptor < 0)
        return;
    ssize_t got = pread(descriptor, content->at, LOG_BYTES, 0);
    content->bytes = got < 0 ? 0 : (uint64_t)got;
    close(descriptor);
}

/* Puts what the commit log has of the file into it. */
static void apply_commit_log(const struct raw_file *log, struct raw_file *file,
                             const struct file_identity *identity)
{
    uint64_t epoch;
    struct commit_entry entry;
    if (log->bytes < COMMIT_HEADER_BYTES ||
        !commit_header_read(log->at, identity->store_seed, &epoch))
        return;
    for (uint64_t at = COMMIT_HEADER_BYTES;
         commit_entry_read(log->at + at, log->bytes - at, epoch, at, &entry);
         at += commit_entry_size(entry.size)) {
        if (entry.number != identity->number || entry.salt != identity->salt)
            continue;
        if (entry.offset + entry.size > file->bytes)
            explore_fail("the commit log has something behind the end of file %" PRIu32,
                         entry.number);
        memcpy(file->at + entry.offset, log->at + at + COMMIT_ENTRY_BYTES, entry.size);
    }
}

static void note_record(const struct record *record, uint32_t file)
{
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        struct logged *logged = &logs.keys[key];
        if (!kv_slice_equal(record->key, model_key(key)))
            continue;
        logged->is_superseded = record->kind == RECORD_POINTER;
        logged->file = file;
        if (logged->is_superseded)
            continue;
        logged->is_there = record->kind == RECORD_PUT && record->expiry_ms == 0;
        logged->version = record->version;
    }
}

/* A data file: its records, and which of them end the parts of transactions of several files. */
static struct raw_log {
    struct raw_file file;
    uint64_t salt, settled;
    uint64_t end; /* of the records that count; 0: there are none */
    unsigned part_count;
    struct raw_part {
        uint64_t transaction, begin;
        uint32_t next_file;
    } parts[PARTS_MOST];
} raw_logs[DATAFILES_MOST];

static bool read_record_at(const struct raw_log *log, uint64_t at, struct record *record,
                           uint64_t *size)
{
    enum record_verdict verdict =
        record_walk(log->file.at, log->file.bytes, log->salt, at, record, size);
    return verdict == RECORD_VALID || verdict == RECORD_SUPERSEDED;
}

/* Finds the end of the log, which no transaction crosses, and the parts. */
static void read_parts(struct raw_log *log)
{
    struct record record;
    uint64_t size;
    log->end = FILE_HEADER_BYTES;
    for (uint64_t at = log->end; read_record_at(log, at, &record, &size);) {
        at += size;
        if (record.goes_on)
            continue;
        if (record.transaction != 0) {
            if (log->part_count == PARTS_MOST)
                explore_fail("more transactions than the judge has room for");
            log->parts[log->part_count++] =
                (struct raw_part){record.transaction, log->end, record.next_file};
        }
        log->end = at;
    }
}

static bool has_whole_part(const struct raw_log *log, uint64_t transaction)
{
    for (unsigned i = 0; i < log->part_count; i++)
        if (log->parts[i].transaction == transaction)
            return log->parts[i].begin < log->end;
    return false;
}

/* Cuts the logs before parts of which the next one is missing, until there is none. */
static void keep_whole_transactions(void)
{
    uint64_t settled = 0;
    bool cut = true;
    for (uint32_t number = 0; number < run.options.datafiles; number++)
        if (raw_logs[number].settled > settled)
            settled = raw_logs[number].settled;
    while (cut) {
        cut = false;
        for (uint32_t number = 0; number < run.options.datafiles; number++) {
            struct raw_log *log = &raw_logs[number];
            for (unsigned i = 0; i < log->part_count; i++)
                if (log->parts[i].transaction > settled && log->parts[i].begin < log->end &&
                    !has_whole_part(&raw_logs[log->parts[i].next_file],
                                    log->parts[i].transaction)) {
                    log->end = log->parts[i].begin;
                    cut = true;
                }
        }
    }
}

/* Whether a key of the file has a superseded pointer that no later one follows. */
static bool has_superseded(uint32_t file)
{
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        if (logs.keys[key].is_superseded && logs.keys[key].file == file)
            return true;
    return false;
}

/* False: the log ends earlier: where no superseded pointer waited for a later one of its key. */
static bool note_records(uint32_t number)
{
    struct raw_log *log = &raw_logs[number];
    struct record record;
    uint64_t size, piece = FILE_HEADER_BYTES, since = 0;
    for (uint64_t at = piece; at < log->end && read_record_at(log, at, &record, &size);) {
        if (record.kind != RECORD_EXTENT)
            note_record(&record, number);
        at += size;
        if (record.goes_on)
            continue;
        if (!has_superseded(number))
            since = 0;
        else if (since == 0)
            since = piece;
        piece = at;
    }
    if (since == 0)
        return true;
    log->end = since;
    return false;
}

static void read_log(uint32_t number, const struct raw_file *commit_log)
{
    char name[24];
    struct file_identity identity;
    struct file_progress progress;
    struct raw_log *log = &raw_logs[number];
    log->end = log->settled = log->part_count = 0;
    snprintf(name, sizeof name, "data.%04" PRIu32, number);
    read_file(name, &log->file);
    if (log->file.bytes < FILE_HEADER_BYTES ||
        fileheader_read_identity(log->file.at, &identity) != FILEHEADER_VALID)
        return;
    apply_commit_log(commit_log, &log->file, &identity);
    log->salt = identity.salt;
    if (fileheader_read_progress(log->file.at, log->salt, &progress))
        log->settled = progress.settled;
    read_parts(log);
}

static void read_all(void)
{
    static struct raw_file commit_log;
    read_file(COMMIT_LOG_NAME, &commit_log);
    for (uint32_t number = 0; number < run.options.datafiles; number++)
        read_log(number, &commit_log);
    bool whole;
    do {
        keep_whole_transactions();
        memset(&logs, 0, sizeof logs);
        whole = true;
        for (uint32_t number = 0; number < run.options.datafiles; number++)
            whole &= note_records(number);
    } while (!whole);
}

void machine_read_logs(void)
{
    char first[64];
    snprintf(first, sizeof first, "%s/data.0000", run.path);
    if (run.store_is_there && !machine_is_there(first))
        explore_fail("the store is gone");
    memset(&logs, 0, sizeof logs);
    const struct machine_faults none = {0};
    bool quiet = explore_quietly(true);
    machine_set_faults(&none);
    if (!machine_has_failed())
        read_all();
    machine_set_faults(&run.faults);
    explore_quietly(quiet);
    logs.is_read = !machine_has_failed();
}

void machine_compare_logs(const struct model_finding found[MODEL_KEYS])
{
    if (!logs.is_read || machine_has_failed() || run.options.evict != KVSTORE_EVICT_NONE)
        return;
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        if (!found[key].is_there && logs.keys[key].is_there)
            explore_fail("key %u is on disk, and is not found", key);
        if (found[key].is_there && found[key].version != logs.keys[key].version)
            explore_fail("key %u is found with version %" PRIu64
                         ", but the newest on disk is %" PRIu64,
                         key, found[key].version, logs.keys[key].version);
    }
}
