#include "kvstore/api/store_create.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/numbers/random.h"
#include "kvstore/log/fileio.h"
#include "mqkv/kvstore.h"
#include "kvstore/log/logfile.h"
#include "kvstore/table/recovery.h"
#include "kvstore/core/thread.h"

enum kv_status store_identify(int dir_fd, const char *dir, struct file_identity *identity,
                              struct kv_error *error)
{
    struct file_name name = file_name(0, FILE_LOG);
    struct logfile log;
    enum kv_status status = logfile_open(&log, KVSTORE_IO_PREAD, dir_fd, name.text, false, error);
    if (status != KV_OK)
        return recovery_explain(dir, status, error);
    *identity = log.identity;
    logfile_close(&log);
    if (identity->datafiles < 1 || identity->datafiles > KVSTORE_MAX_DATAFILES)
        return kv_error_set(error, KV_CORRUPT, "%s/%s: impossible number of data files %u", dir,
                            name.text, identity->datafiles);
    return KV_OK;
}

/* Looks whether a file has records. A file with its header page and nothing after it, or not even
 * that, has none; what is no file of a store, but has its name, counts as one. KV_IO: the disk does
 * not tell. */
static enum kv_status look_for_records(int dir_fd, const char *dir, const char *name, bool *found,
                                       struct kv_error *error)
{
    int fd = fileio->open_at(dir_fd, name, O_RDONLY | O_NOFOLLOW, 0);
    *found = fd >= 0 || errno != ENOENT;
    if (fd < 0)
        return KV_OK;
    uint8_t start[RECORD_HEADER_BYTES];
    ssize_t size = fileio->read_at(fd, start, sizeof start, FILE_HEADER_BYTES);
    int reason = errno;
    close(fd);
    if (size < 0 && reason == EIO) {
        errno = reason;
        return kv_error_set_errno(error, "%s/%s: cannot read the file", dir, name);
    }
    struct record record;
    uint64_t size_bytes;
    *found = size < 0 || record_parse(start, (uint64_t)size, &record, &size_bytes) != RECORD_END;
    return KV_OK;
}

/* Looks whether there is a file with records under the name of one that is not complete, which a
 * copy has left (the creation of a store leaves none with records). */
static enum kv_status look_for_copy(int dir_fd, const char *dir, uint32_t number,
                                    struct kv_error *error)
{
    struct file_name unfinished = file_name(number, FILE_LOG_NEW);
    bool found;
    enum kv_status status = look_for_records(dir_fd, dir, unfinished.text, &found, error);
    if (status != KV_OK || !found)
        return status;
    return kv_error_set(
        error, KV_CORRUPT,
        "%s: no store, but one that was not finished (%s): clientk restore, clientk "
        "backup or kvcheck was stopped before its end. Run that again (clientk "
        "backup goes on here, the others want an empty directory); for a new store, "
        "remove data.*.new",
        dir, unfinished.text);
}

static enum kv_status look_for_store(int dir_fd, const char *dir, uint32_t number,
                                     struct kv_error *error)
{
    struct file_name log = file_name(number, FILE_LOG);
    struct file_name checkpoint = file_name(number, FILE_CHECKPOINT);
    bool has_log;
    enum kv_status status = look_for_records(dir_fd, dir, log.text, &has_log, error);
    if (status != KV_OK)
        return status;
    /* A checkpoint is written when a store is closed, never while it is made. */
    if (!has_log && faccessat(dir_fd, checkpoint.text, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return KV_OK;
    return kv_error_set(error, KV_CORRUPT,
                        "%s: data.0000 is missing, but %s is there; bring data.0000 back, or save "
                        "what other data files hold: kvcheck --salvage OUT %s; for a new store, "
                        "move the files away",
                        dir, has_log ? log.text : checkpoint.text, dir);
}

enum kv_status store_check_vacant(int dir_fd, const char *dir, struct kv_error *error)
{
    /* A copy gives its files their names when all are there, data.0000 last. */
    enum kv_status status = look_for_copy(dir_fd, dir, 0, error);
    for (uint32_t number = 0; number < KVSTORE_MAX_DATAFILES && status == KV_OK; number++)
        status = look_for_store(dir_fd, dir, number, error);
    for (uint32_t number = 1; number < KVSTORE_MAX_DATAFILES && status == KV_OK; number++)
        status = look_for_copy(dir_fd, dir, number, error);
    return status;
}

struct creation {
    int dir_fd;
    const char *dir;
    const struct file_identity *identity; /* except number and salt */
};

/* Creates a data file, under another name until it is complete. */
static enum kv_status create_file(const struct creation *creation, uint32_t number,
                                  struct kv_error *error)
{
    struct file_name unfinished = file_name(number, FILE_LOG_NEW);
    struct file_name name = file_name(number, FILE_LOG);
    struct file_identity identity = *creation->identity;
    identity.number = number;
    identity.salt = random_secret();
    struct logfile log;
    enum kv_status status = logfile_create(&log, KVSTORE_IO_PREAD, creation->dir_fd,
                                           unfinished.text, &identity, 0, 0, error);
    if (status != KV_OK)
        return recovery_explain(creation->dir, status, error);
    if (logfile_sync(&log) != 0 ||
        fileio->rename_at(creation->dir_fd, unfinished.text, name.text) != 0) {
        status = kv_error_set_errno(error, "%s/%s: cannot write the new data file", creation->dir,
                                    name.text);
        fileio->unlink_at(creation->dir_fd, unfinished.text);
    }
    logfile_close(&log);
    return status;
}

static enum kv_status create_later_file(void *context, uint32_t i, struct kv_error *error)
{
    return create_file(context, i + 1, error);
}

static enum kv_status sync_names(const struct creation *creation, struct kv_error *error)
{
    if (fileio->sync_dir(creation->dir_fd) != 0)
        return kv_error_set_errno(error, "%s: cannot sync the directory", creation->dir);
    return KV_OK;
}

/* Creates data.0000 last, when the others are there for certain. */
static enum kv_status create_files(struct creation *creation, struct kv_error *error)
{
    uint32_t later_files = creation->identity->datafiles - 1;
    enum kv_status status = thread_run_parallel(later_files, create_later_file, creation, error);
    if (status == KV_OK)
        status = sync_names(creation, error);
    if (status == KV_OK)
        status = create_file(creation, 0, error);
    if (status == KV_OK)
        status = sync_names(creation, error);
    return status;
}

enum kv_status store_create(int dir_fd, const char *dir, uint32_t datafiles,
                            struct file_identity *identity, struct kv_error *error)
{
    for (uint32_t number = 1; number < KVSTORE_MAX_DATAFILES; number++)
        fileio->unlink_at(dir_fd, file_name(number, FILE_LOG).text);
    *identity = (struct file_identity){.format_version = FILE_FORMAT_VERSION,
                                       .datafiles = datafiles,
                                       .store_seed = random_secret(),
                                       .hash_key = {{random_secret(), random_secret()}}};
    struct creation creation = {dir_fd, dir, identity};
    enum kv_status status = create_files(&creation, error);
    if (status != KV_OK)
        for (uint32_t number = 0; number < datafiles; number++)
            fileio->unlink_at(dir_fd, file_name(number, FILE_LOG).text);
    return status;
}
