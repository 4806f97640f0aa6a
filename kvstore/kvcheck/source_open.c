#include "kvstore/kvcheck/source_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory/cursor.h"
#include "common/report/error.h"
#include "common/memory/machine_sizes.h"
#include "kvstore/format/commit_entry.h"
#include "kvstore/log/commit_replay.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/holes.h"
#include "kvstore/kvcheck/walk.h"
#include "kvstore/log/logfile.h"

/* Offsets of fields of fileheader.h and checkpoint.h that are tried as a salt. */
#define IDENTITY_BYTES          48u
#define IDENTITY_SALT_AT        32u
#define CHECKPOINT_SALT_AT      16u
#define CHECKPOINT_HEADER_BYTES 72u

static void end_on_disk_error(int signal_number)
{
    (void)signal_number;
    static const char text[] =
        "kvcheck: the disk failed to deliver a page of a data file, or the file was cut while it "
        "was read; copy the store to a sound disk first (ddrescue goes on after errors)\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(4);
}

/* Returns where [from, to) begins to be only zeros; `from` if all of it is. */
static uint64_t end_of_use(const struct source *source, uint64_t from, uint64_t to)
{
    static const uint8_t zeros[PAGE_BYTES];
    uint64_t end = to;
    while (end - from >= sizeof zeros &&
           memcmp(source->map + end - sizeof zeros, zeros, sizeof zeros) == 0)
        end -= sizeof zeros;
    while (end > from && source->map[end - 1] == 0)
        end--;
    return end;
}

static uint64_t find_used_bytes(const struct source *source)
{
    uint64_t used_bytes = 0;
    struct stretch_of_data data;
    for (uint64_t at = 0; holes_next_data(source->fd, at, source->size_bytes, &data);
         at = data.to) {
        uint64_t end = end_of_use(source, data.from, data.to);
        if (end > data.from)
            used_bytes = end;
    }
    return used_bytes;
}

/* Returns true if some record is valid with the salt: of 2^32 wrong salts one passes a record. */
static bool salt_fits(struct source *source, uint64_t salt)
{
    source->identity.salt = salt;
    struct walk walk;
    struct walk_step step;
    walk_start(&walk, source, NULL);
    while (walk_next(&walk, &step))
        if (step.kind == WALK_RECORD || step.kind == WALK_SUPERSEDED)
            return true;
    return false;
}

/* Repairs one damaged byte: there is one value of it that makes the checksum hold. */
static bool repair_one_byte(struct source *source)
{
    uint8_t page[FILE_HEADER_BYTES];
    memcpy(page, source->map, sizeof page);
    for (uint32_t at = 0; at < IDENTITY_BYTES; at++) {
        uint8_t found = page[at];
        for (unsigned value = 0; value <= UINT8_MAX; value++) {
            page[at] = (uint8_t)value;
            if (fileheader_read_identity(page, &source->identity) == FILEHEADER_VALID)
                return true;
        }
        page[at] = found;
    }
    return false;
}

/* Takes the salt from the checkpoint of the index, if there is one: it names the salt of its
 * log. */
static bool take_salt_from_checkpoint(struct source *source, int dir_fd, uint32_t number)
{
    uint8_t header[CHECKPOINT_HEADER_BYTES];
    int fd =
        fileio->open_at(dir_fd, file_name(number, FILE_CHECKPOINT).text, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0)
        return false;
    ssize_t got = fileio->read_at(fd, header, sizeof header, 0);
    close(fd);
    return got == (ssize_t)sizeof header &&
           salt_fits(source, load_u64(header + CHECKPOINT_SALT_AT));
}

static enum kv_status read_identity(struct source *source, int dir_fd, uint32_t number,
                                    struct kv_error *error)
{
    if (source->size_bytes < FILE_HEADER_BYTES)
        return KV_OK;
    enum fileheader_verdict verdict = fileheader_read_identity(source->map, &source->identity);
    uint32_t format_version = source->identity.format_version;
    if (verdict == FILEHEADER_VALID) {
        source->header = SOURCE_HEADER_SOUND;
        return KV_OK;
    }
    source->header = SOURCE_HEADER_REPAIRED;
    if (repair_one_byte(source))
        return KV_OK;
    source->identity = (struct file_identity){.format_version = FILE_FORMAT_VERSION};
    if (salt_fits(source, load_u64(source->map + IDENTITY_SALT_AT)) ||
        take_salt_from_checkpoint(source, dir_fd, number))
        return KV_OK;
    source->header = SOURCE_HEADER_LOST;
    if (verdict == FILEHEADER_OTHER_FORMAT)
        return kv_error_set(error, KV_MISMATCH,
                            "%s: the file is of format version %" PRIu32
                            ", this program reads versions 1 to %u",
                            source->name.text, format_version, FILE_FORMAT_NEWEST);
    return KV_OK;
}

static void read_notes(struct source *source)
{
    uint64_t salt = source->identity.salt;
    source->boot = boot_noted(source->map, salt);
}

static void read_progress(struct source *source)
{
    struct file_progress progress;
    source->progress_sound =
        source->header != SOURCE_HEADER_LOST &&
        fileheader_read_progress(source->map, source->identity.salt, &progress) &&
        progress.synced_offset <= LOGFILE_MAX_BYTES &&
        progress.synced_offset % RECORD_ALIGNMENT == 0;
    source->progress = source->progress_sound
                           ? progress
                           : (struct file_progress){.synced_offset = FILE_HEADER_BYTES};
}

static enum kv_status map_source(struct source *source, struct kv_error *error)
{
    struct stat facts;
    if (fstat(source->fd, &facts) != 0)
        return kv_error_set_errno(error, "%s: cannot read the file's size", source->name.text);
    if (!S_ISREG(facts.st_mode))
        return kv_error_set(error, KV_IO, "%s: not a regular file", source->name.text);
    source->size_bytes = (uint64_t)facts.st_size;
    if (source->size_bytes > LOGFILE_MAX_BYTES)
        return kv_error_set(
            error, KV_IO, "%s: %" PRIu64 " bytes are more than a data file can have (%" PRIu64 ")",
            source->name.text, source->size_bytes, LOGFILE_MAX_BYTES);
    if (source->size_bytes == 0)
        return KV_OK;
    void *map = fileio->map(source->size_bytes, PROT_READ, source->fd);
    if (map == MAP_FAILED)
        return kv_error_set_errno(error, "%s: cannot map the file", source->name.text);
    source->map = map;
    source->map_bytes = source->size_bytes;
    signal(SIGBUS, end_on_disk_error);
    return KV_OK;
}

/* Applies what a start would bring in from the commit log, so that it is seen. */
static enum kv_status apply_commit_log(struct source *source, int dir_fd, struct kv_error *error)
{
    struct commit_replay replay;
    enum kv_status status = commit_replay_load(&replay, dir_fd, source->identity.store_seed, error);
    if (status != KV_OK || !replay.bytes)
        return status;
    if (commit_replay_patch(&replay, source->identity.number, source->identity.salt,
                            (uint8_t *)(uintptr_t)source->map, source->size_bytes) != 0)
        status = kv_error_set_errno(error, "%s: cannot bring in what " COMMIT_LOG_NAME " has of it",
                                    source->name.text);
    commit_replay_free(&replay);
    return status;
}

static enum kv_status open_source(struct source *source, int dir_fd, uint32_t number, bool live,
                                  struct kv_error *error)
{
    *source = (struct source){.name = file_name(number, FILE_LOG),
                              .header = SOURCE_HEADER_LOST,
                              .is_live = live,
                              .whole_end = UINT64_MAX};
    source->fd = fileio->open_at(dir_fd, source->name.text, O_RDONLY | O_NOFOLLOW, 0);
    if (source->fd < 0 && errno == ENOENT)
        return kv_error_set(error, KV_NOT_FOUND, "%s: no such file", source->name.text);
    if (source->fd < 0 && logfile_other_kind(errno))
        return kv_error_set(error, KV_IO, "%s: not a regular file, but %s", source->name.text,
                            logfile_other_kind(errno));
    if (source->fd < 0)
        return kv_error_set_errno(error, "%s: cannot open the file", source->name.text);
    enum kv_status status = map_source(source, error);
    if (status != KV_OK) {
        source_close(source);
        return status;
    }

    source->progress.synced_offset = FILE_HEADER_BYTES;
    status = read_identity(source, dir_fd, number, error);
    if (status == KV_OK && source->header != SOURCE_HEADER_LOST && !live)
        status = apply_commit_log(source, dir_fd, error);
    source->used_bytes = find_used_bytes(source);
    if (source->header != SOURCE_HEADER_LOST)
        read_notes(source);
    read_progress(source);
    if (status != KV_OK)
        source_close(source);
    return status;
}

bool source_grow(struct source *source)
{
    struct stat facts;
    if (fstat(source->fd, &facts) != 0 || (uint64_t)facts.st_size <= source->map_bytes ||
        (uint64_t)facts.st_size > LOGFILE_MAX_BYTES)
        return false;
    void *map = fileio->map((size_t)facts.st_size, PROT_READ, source->fd);
    if (map == MAP_FAILED)
        return false;
    if (source->map)
        fileio->unmap((void *)(uintptr_t)source->map, source->map_bytes);
    source->map = map;
    source->size_bytes = source->map_bytes = (uint64_t)facts.st_size;
    source->used_bytes = find_used_bytes(source);
    return true;
}

enum kv_status source_open(struct source *source, int dir_fd, uint32_t number,
                           struct kv_error *error)
{
    return open_source(source, dir_fd, number, false, error);
}

enum kv_status source_open_live(struct source *source, int dir_fd, uint32_t number,
                                struct kv_error *error)
{
    return open_source(source, dir_fd, number, true, error);
}

void source_close(struct source *source)
{
    if (source->map)
        fileio->unmap((void *)(uintptr_t)source->map, source->map_bytes);
    source->map = NULL;
    if (source->fd >= 0)
        close(source->fd);
    source->fd = -1;
}
