#include "bridges/cluster/mirror/mirror_restore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/report/error.h"
#include "bridges/cluster/mirror/bucket_scan.h"
#include "bridges/cluster/mirror/mirror_mark.h"
#include "bridges/cluster/natskv/natskv.h"

struct restoring {
    struct kvstore *store;
    enum kv_status status; /* the status of a put that failed */
};

/* Puts an entry into the store: a kvstore_visit, on a thread of the engine. If an entry is shown
 * twice, the later one counts. */
static bool put_restored_entry(void *context, const struct kvstore_scanned *entry)
{
    struct restoring *restoring = context;
    const struct kvstore_put_options put = {.expiry_ms = entry->expiry_ms};
    restoring->status = kvstore_put(restoring->store, entry->key, entry->value, &put, NULL);
    return restoring->status == KV_OK;
}

static enum kv_status copy_bucket(struct store_engine *engine, struct restoring *restoring,
                                  struct kv_error *error)
{
    struct bucket_scan scan = {.visit = put_restored_entry, .context = restoring};
    do {
        enum kv_status status = bucket_scan_page(engine, &scan);
        if (restoring->status != KV_OK)
            return kv_error_set(error, restoring->status, "an entry cannot be put: %s",
                                kv_status_text(restoring->status));
        if (status != KV_OK)
            return kv_error_set(error, status, "the bucket cannot be read: %s",
                                scan.sentence ? scan.sentence : kv_status_text(status));
    } while (scan.cursor != 0);
    return KV_OK;
}

static uint64_t count_keys(struct kvstore *store)
{
    uint64_t keys = 0;
    for (uint32_t i = 0; i < kvstore_datafiles(store); i++) {
        struct kvstore_file_statistics statistics = {0};
        kvstore_file_statistics(store, i, &statistics);
        keys += statistics.keys;
    }
    return keys;
}

/* Makes a new store and fills it. */
static enum kv_status fill_new_store(struct store_engine *engine,
                                     const struct kvstore_options *options, const char *dir,
                                     struct mirror_restored *restored, struct kv_error *error)
{
    struct restoring restoring = {.store = NULL};
    struct kv_error other;
    enum kv_status status = kvstore_open(dir, options, &restoring.store, error);
    if (status != KV_OK)
        return status;
    status = copy_bucket(engine, &restoring, error);
    if (status == KV_OK)
        restored->keys = count_keys(restoring.store);
    enum kv_status closed = kvstore_close(restoring.store, status == KV_OK ? error : &other);
    return status == KV_OK ? closed : status;
}

static bool is_empty(const char *dir)
{
    DIR *listing = opendir(dir);
    if (!listing)
        return errno == ENOENT;
    unsigned names = 0;
    while (names <= 2 && readdir(listing))
        names++;
    closedir(listing);
    return names <= 2;
}

/* Removes what a failed try has left: only files of which a store is made. */
static void remove_store_files(const char *dir)
{
    DIR *listing = opendir(dir);
    if (!listing)
        return;
    for (const struct dirent *entry; (entry = readdir(listing));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(listing), entry->d_name, 0);
    closedir(listing);
    rmdir(dir);
}

static enum kv_status make_directory(const char *building, struct kv_error *error)
{
    if (mkdir(building, 0700) == 0)
        return KV_OK;
    if (errno == EEXIST)
        return kv_error_set(error, KV_EXISTS,
                            "%s: an earlier try was left there, or is under way: remove it",
                            building);
    return kv_error_set_errno(error, "%s cannot be made", building);
}

static enum kv_status name_it(const char *building, const char *dir, struct kv_error *error)
{
    if (rename(building, dir) != 0)
        return kv_error_set_errno(error, "%s: cannot be renamed to %s", building, dir);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/..", dir);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    enum kv_status status =
        synced ? KV_OK : kv_error_set_errno(error, "%s: cannot sync the directory above it", dir);
    if (fd >= 0)
        close(fd);
    return status;
}

enum kv_status mirror_restore(const struct natskv_options *nats,
                              const struct kvstore_options *options, const char *dir,
                              bool unfinished, struct mirror_restored *restored,
                              struct kv_error *error)
{
    char building[PATH_MAX];
    struct store_engine *engine = NULL;
    struct kv_error other;
    size_t size = strlen(dir);
    *restored = (struct mirror_restored){0};
    while (size > 1 && dir[size - 1] == '/')
        size--;
    if ((size_t)snprintf(building, sizeof building, "%.*s.restoring", (int)size, dir) >=
        sizeof building - sizeof "/..")
        return kv_error_set(error, KV_USAGE, "%.100s...: the name is too long", dir);
    if (!is_empty(dir))
        return kv_error_set(error, KV_EXISTS,
                            "%s: there is something in it: a store is restored into a directory "
                            "that is not there yet, or empty",
                            dir);
    enum kv_status status = natskv_open(nats, &engine, error);
    if (status != KV_OK)
        return status;
    if (!unfinished)
        status = mirror_mark_check_complete(engine, error);
    if (status == KV_OK)
        status = make_directory(building, error);
    if (status == KV_OK) {
        status = fill_new_store(engine, options, building, restored, error);
        if (status == KV_OK)
            status = name_it(building, dir, error);
        if (status != KV_OK)
            remove_store_files(building);
    }
    engine_close(engine, &other);
    return status;
}
