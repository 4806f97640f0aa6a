#include "tools/backup/backup_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/backup/backup_dir.h"
#include "tools/backup/file_copy.h"
#include "tools/backup/tar_stream.h"
#include "common/memory/cursor.h"
#include "common/memory/whole_io.h"
#include "common/report/error.h"
#include "kvstore/format/file_name.h"

#define PIECE_BYTES (1u << 20)

/* where the header of a data file says how many there are */
#define DATAFILES_OFFSET 12u
#define SEED_OFFSET      24u
#define SALT_OFFSET      32u

static const char default_tmp[] = "/var/tmp";

enum kv_status backup_source_open(struct backup_source *source, const char *path,
                                  struct kv_error *error)
{
    struct stat facts;
    *source = (struct backup_source){.path = path, .dir_fd = -1, .lock_fd = -1, .stream_fd = -1};
    if (strcmp(path, "-") == 0) {
        source->stream_fd = STDIN_FILENO;
        return KV_OK;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return kv_error_set(error, KV_USAGE, "%s: there is no such backup", path);
    if (fd < 0 || fstat(fd, &facts) != 0)
        return kv_error_set_errno(error, "%s: cannot open the backup", path);
    if (!S_ISDIR(facts.st_mode)) {
        source->stream_fd = fd;
        return KV_OK;
    }
    source->dir_fd = fd;
    enum kv_status status = backup_dir_lock(fd, path, false, &source->lock_fd, error);
    if (status == KV_OK)
        status = backup_dir_read_manifest(fd, path, &source->manifest, error);
    if (status != KV_OK)
        backup_source_close(source);
    return status;
}

void backup_source_close(struct backup_source *source)
{
    if (source->dir_fd >= 0)
        close(source->dir_fd);
    if (source->lock_fd >= 0)
        close(source->lock_fd);
    if (source->stream_fd > STDIN_FILENO)
        close(source->stream_fd);
    backup_manifest_free(&source->manifest);
}

void source_file_close(struct source_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* From a directory ----------------------------------------------------------------------------- */

/* Checks that the open file is what the backup says. In a backup that was killed while files got
 * their names, the file's own header counts instead. */
static enum kv_status check_source_file(struct backup_source *source, struct source_file *file,
                                        const char *name, struct kv_error *error)
{
    const struct backup_file *said = &source->manifest.files[file->number];
    uint8_t page[BACKUP_HEADER_BYTES];
    struct stat facts;
    if (fstat(file->fd, &facts) != 0 || whole_read(file->fd, page, sizeof page, 0, 1) < 0)
        return kv_error_set_errno(error, "%s/%s: cannot read the file", source->path, name);
    bool is_said = backup_header_check(page) == said->header_check;
    file->bytes = said->bytes;
    if (is_said && (uint64_t)facts.st_size >= said->bytes)
        return KV_OK;
    if (!is_said && source->manifest.under_way) {
        source->is_mixed = true;
        file->bytes = (uint64_t)facts.st_size;
        return KV_OK;
    }
    return kv_error_set(error, KV_CORRUPT,
                        "%s/%s is not what the backup wrote: it was cut off, or a server was "
                        "started on it (then it is a store: start a server from it)",
                        source->path, name);
}

static enum kv_status next_in_directory(struct backup_source *source, struct source_file *file,
                                        bool *end, struct kv_error *error)
{
    *end = source->next >= source->manifest.count;
    if (*end)
        return KV_OK;
    file->number = source->next++;
    struct file_name name = file_name(file->number, FILE_LOG);
    file->fd = openat(source->dir_fd, name.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file->fd < 0)
        return kv_error_set_errno(error, "%s/%s: cannot open the file", source->path, name.text);
    enum kv_status status = check_source_file(source, file, name.text, error);
    if (status != KV_OK)
        source_file_close(file);
    return status;
}

/* From a stream -------------------------------------------------------------------------------- */

static enum kv_status spool(int from, int to, uint64_t size, struct kv_error *error)
{
    char *piece = malloc(PIECE_BYTES);
    if (!piece)
        return kv_error_set(error, KV_NO_MEMORY, "no memory to restore");
    enum kv_status status = KV_OK;
    for (uint64_t done = 0; done < size && status == KV_OK;) {
        size_t part = size - done < PIECE_BYTES ? (size_t)(size - done) : PIECE_BYTES;
        status = tar_read(from, piece, part, error);
        if (status == KV_OK && file_copy_write(to, piece, part, done) != 0)
            status = kv_error_set_errno(error, "cannot write a file without a name in %.100s",
                                        getenv("TMPDIR") ? getenv("TMPDIR") : default_tmp);
        done += part;
    }
    free(piece);
    return status;
}

/* Notes a file of a stream; the first one says how many there are. */
static bool note_file(struct backup_source *source, const struct source_file *file)
{
    uint8_t page[BACKUP_HEADER_BYTES];
    if (file->bytes < sizeof page || whole_read(file->fd, page, sizeof page, 0, 1) != sizeof page)
        return false;
    uint32_t count = load_u32(page + DATAFILES_OFFSET);
    if (file->number == 0 && count >= 1 && count <= 4096) {
        if (!backup_manifest_init(&source->manifest, count))
            return false;
        source->manifest.store_seed = load_u64(page + SEED_OFFSET);
    }
    if (file->number >= source->manifest.count)
        return false;
    source->manifest.files[file->number] =
        (struct backup_file){.generation = load_u64(page + SALT_OFFSET),
                             .bytes = file->bytes,
                             .header_check = backup_header_check(page)};
    return true;
}

/* Checks the manifest at the end of a stream: it must say what was read. */
static enum kv_status check_end(struct backup_source *source, const struct tar_member *member,
                                struct kv_error *error)
{
    const struct backup_manifest *read = &source->manifest;
    struct backup_manifest said = {0};
    char *text = member->size <= BACKUP_MANIFEST_MAX_BYTES ? malloc(member->size + 1) : NULL;
    if (!text)
        return kv_error_set(error, KV_CORRUPT, "this is no backup, or it is damaged");
    enum kv_status status = tar_read(source->stream_fd, text, member->size, error);
    if (status == KV_OK)
        status = backup_manifest_parse(&said, text, member->size, error);
    free(text);
    if (status == KV_OK &&
        (said.count != read->count || source->next != said.count ||
         said.store_seed != read->store_seed ||
         memcmp(said.files, read->files, said.count * sizeof said.files[0]) != 0))
        status = kv_error_set(error, KV_CORRUPT, "the backup is not whole, or it was changed");
    source->manifest.time_ms = said.time_ms;
    backup_manifest_free(&said);
    return status;
}

static enum kv_status take_member(struct backup_source *source, const struct tar_member *member,
                                  struct source_file *file, struct kv_error *error)
{
    struct file_name name = file_name(source->next, FILE_LOG);
    if (strcmp(member->name, name.text) != 0)
        return kv_error_set(error, KV_CORRUPT, "this is no backup: %.40s where %s should be",
                            member->name, name.text);
    file->number = source->next++;
    file->bytes = member->size;
    const char *dir = getenv("TMPDIR");
    file->fd = open(dir && *dir ? dir : default_tmp, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file->fd < 0)
        return kv_error_set_errno(error, "cannot make a file without a name in %.100s (TMPDIR)",
                                  getenv("TMPDIR") ? getenv("TMPDIR") : default_tmp);
    enum kv_status status = spool(source->stream_fd, file->fd, member->size, error);
    if (status == KV_OK)
        status = tar_skip_padding(source->stream_fd, member->size, error);
    if (status == KV_OK && !note_file(source, file))
        status = kv_error_set(error, KV_CORRUPT, "%s in the backup is damaged", name.text);
    if (status != KV_OK)
        source_file_close(file);
    return status;
}

static enum kv_status next_in_stream(struct backup_source *source, struct source_file *file,
                                     bool *end, struct kv_error *error)
{
    struct tar_member member;
    enum kv_status status = tar_next(source->stream_fd, &member, end, error);
    if (status != KV_OK)
        return status;
    if (*end)
        return kv_error_set(error, KV_CORRUPT, "the backup is not whole");
    if (source->next > 0 && strcmp(member.name, BACKUP_MANIFEST_NAME) == 0) {
        *end = true;
        status = check_end(source, &member, error);
        if (status == KV_OK) /* a writer that is late with its end needs a reader */
            tar_take_end(source->stream_fd, member.size);
        return status;
    }
    return take_member(source, &member, file, error);
}

enum kv_status backup_source_next(struct backup_source *source, struct source_file *file, bool *end,
                                  struct kv_error *error)
{
    file->fd = -1;
    *end = false;
    return source->dir_fd >= 0 ? next_in_directory(source, file, end, error)
                               : next_in_stream(source, file, end, error);
}
