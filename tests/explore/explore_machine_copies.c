#include "tests/explore/explore_machine_copies.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/memory/whole_io.h"
#include "kvstore/format/file_chapters.h"
#include "kvstore/format/fileheader.h"
#include "tests/explore/explore.h"
#include "tests/explore/explore_machine.h"
#include "tests/explore/explore_machine_reads.h"

#define COPY_BYTES (1u << 20) /* of a data file, at most */

/* A copy of the data files as they were at one moment, and what tells later whether they are still
 * so up to there (file_chapters.h), as a backup of the changes needs it. */
static struct copy {
    uint64_t bytes; /* 0: there is none */
    uint8_t content[COPY_BYTES];
} copies[DATAFILES_MOST];

static bool read_copy(struct kvstore_hold *hold, uint32_t file)
{
    struct kvstore_held_file held;
    struct copy *copy = &copies[file];
    kvstore_hold_file(hold, file, &held);
    size_t got = 0;
    copy->bytes = 0;
    if (held.bytes > COPY_BYTES)
        return false;
    for (uint64_t at = 0; at < held.bytes; at += got) {
        enum kv_status status = kvstore_hold_read(hold, file, at, copy->content + at, 8192, &got);
        if (status != KV_OK) {
            if (status != KV_BUSY)
                machine_check_status(status, "kvstore_hold_read");
            return false;
        }
        if (got == 0)
            explore_fail("a hold ends too early");
    }
    copy->bytes = held.bytes;
    return true;
}

static bool write_copy(uint32_t file)
{
    char path[64];
    snprintf(path, sizeof path, BACKUP_PATH "/data.%04" PRIu32, file);
    int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (descriptor < 0)
        return false;
    bool done = whole_write(descriptor, copies[file].content, copies[file].bytes, 0);
    close(descriptor);
    return done;
}

static void judge_copy(const struct model_moment *moment)
{
    struct kvstore_options options = {.read_only = true};
    struct kvstore *copy;
    struct kv_error error = {.text = ""};
    enum kv_status status = kvstore_open(BACKUP_PATH, &options, &copy, &error);
    if (status != KV_OK) {
        if (!machine_excuses(status))
            explore_fail("the copy cannot be opened: status %d: %s", status, error.text);
        return;
    }
    const char *wrong = NULL;
    struct model_finding found[MODEL_KEYS];
    struct model_circumstances now = machine_circumstances();
    if (run.clock_jumps)
        now.now_ms = 0;
    if (machine_find_all(copy, found)) {
        now.latest_ms = machine_circumstances().latest_ms;
        wrong = model_judge_copy(found, moment, &now);
    }
    if (wrong)
        explore_fail("in a copy: %s", wrong);
    kvstore_close(copy, NULL);
}

void machine_copy_store(void)
{
    struct model_moment moment;
    struct kvstore_hold *hold;
    struct kv_error error = {.text = ""};
    model_begin_moment(&moment);
    enum kv_status status = kvstore_hold_begin(run.store, &hold, &error);
    model_end_moment(&moment);
    explore_note("  copy: %s", kv_status_name(status));
    machine_check_status(status, "kvstore_hold_begin");
    if (status != KV_OK)
        return;
    bool done = true;
    for (uint32_t file = 0; file < kvstore_datafiles(run.store); file++)
        done = read_copy(hold, file) && done;
    kvstore_hold_end(hold);
    for (uint32_t file = 0; done && file < kvstore_datafiles(run.store); file++)
        done = write_copy(file);
    if (done)
        judge_copy(&moment);
}

/* If the chapters say that a data file is what it was when it was copied, it is. */
void machine_compare_copies(void)
{
    static uint8_t content[COPY_BYTES];
    for (uint32_t file = 0; file < DATAFILES_MOST; file++) {
        char path[64];
        const struct copy *copy = &copies[file];
        struct file_identity then, now;
        struct file_chapters chapters_then, chapters_now;
        snprintf(path, sizeof path, STORE_PATH "/data.%04" PRIu32, file);
        int descriptor = copy->bytes > 0 ? open(path, O_RDONLY) : -1;
        if (descriptor < 0)
            continue;
        ssize_t got = pread(descriptor, content, sizeof content, 0);
        close(descriptor);
        if (got < (ssize_t)copy->bytes ||
            fileheader_read_identity(copy->content, &then) != FILEHEADER_VALID ||
            fileheader_read_identity(content, &now) != FILEHEADER_VALID || then.salt != now.salt)
            continue;
        file_chapters_read(copy->content, then.salt, &chapters_then);
        file_chapters_read(content, now.salt, &chapters_now);
        uint64_t chapter = file_chapters_at(&chapters_then, copy->bytes);
        if (chapter != 0 && chapter == file_chapters_at(&chapters_now, copy->bytes) &&
            memcmp(copy->content + FILE_HEADER_BYTES, content + FILE_HEADER_BYTES,
                   copy->bytes - FILE_HEADER_BYTES) != 0)
            explore_fail("file %" PRIu32 " has the chapter of its copy, and is another", file);
    }
}

void machine_forget_copies(void)
{
    for (uint32_t file = 0; file < DATAFILES_MOST; file++)
        copies[file].bytes = 0;
}
