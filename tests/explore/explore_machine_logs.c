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

#define LOG_BYTES (2u << 20) /* of the largest file of the machine */

struct raw_file {
    uint64_t bytes;
    uint8_t at[LOG_BYTES];
};

static struct {
    bool is_read;   /* and the disk has not failed, so that the engine reads the same */
    bool has_parts; /* of transactions of several files, of which those of one do not tell */
    struct logged {
        bool is_there; /* and does not expire */
        uint64_t version;
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

static void note_record(struct logged keys[MODEL_KEYS], const struct record *record)
{
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        if (kv_slice_equal(record->key, model_key(key)))
            keys[key] = (struct logged){record->kind == RECORD_PUT && record->expiry_ms == 0,
                                        record->version};
}

/* Records of a transaction count when its last one is there. */
static void read_records(const struct raw_file *file, uint64_t salt)
{
    struct record record;
    struct logged keys[MODEL_KEYS];
    uint64_t size;
    memcpy(keys, logs.keys, sizeof keys);
    for (uint64_t at = FILE_HEADER_BYTES;
         record_read(file->at + at, file->bytes - at, salt, at, &record, &size) == RECORD_VALID;
         at += size) {
        note_record(keys, &record);
        logs.has_parts |= record.transaction != 0;
        if (!record.goes_on)
            memcpy(logs.keys, keys, sizeof keys);
    }
}

static void read_all(void)
{
    static struct raw_file commit_log, file;
    read_file(COMMIT_LOG_NAME, &commit_log);
    for (uint32_t number = 0; number < run.options.datafiles; number++) {
        char name[24];
        struct file_identity identity;
        snprintf(name, sizeof name, "data.%04" PRIu32, number);
        read_file(name, &file);
        if (file.bytes < FILE_HEADER_BYTES ||
            fileheader_read_identity(file.at, &identity) != FILEHEADER_VALID)
            continue;
        apply_commit_log(&commit_log, &file, &identity);
        read_records(&file, identity.salt);
    }
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
    if (!logs.is_read || logs.has_parts || machine_has_failed() ||
        run.options.evict != KVSTORE_EVICT_NONE)
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
