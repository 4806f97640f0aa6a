#include "tools/backup/held_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory/whole_io.h"
#include "common/report/error.h"
#include "common/time/clock.h"

/* How often the server hears of the hold; it forgets one of which it hears nothing for a minute. */
#define TOUCH_NS UINT64_C(5000000000)

#define LEAST_PIECE_BYTES 1024u
#define MOST_PIECE_BYTES  (1u << 20)

/* Sends the request; the server's answer is in store->answer. */
static enum kv_status ask_backup(struct held_store *store, const char *request)
{
    struct clientk_operation operation = {.opcode = CLIENTK_BACKUP,
                                          .key = kv_slice_from_string(request)};
    struct clientk_result result = {.value = store->answer};
    enum kv_status status = clientk_execute(store->client, &operation, 1, &result);
    store->answer = result.value;
    if (status == KV_OK)
        status = result.status;
    if (status == KV_OK)
        store->touched_ns = clock_monotonic_ns();
    return status;
}

static enum kv_status explain_hold_status(enum kv_status status, struct kv_error *error)
{
    switch (status) {
    case KV_OK:
        return KV_OK;
    case KV_DENIED:
        return kv_error_set(error, status,
                            "only the user that the server runs as, and root, may back up its "
                            "store (data files have what was deleted, too); dump writes all that "
                            "you may read");
    case KV_UNSUPPORTED:
        return kv_error_set(error, status,
                            "the server makes no backups: it is of an older version, or its data "
                            "are elsewhere");
    case KV_OVERLOADED:
        return kv_error_set(error, status, "other backups are under way; try again when they end");
    case KV_LIMIT:
        return kv_error_set(error, status,
                            "the server has too few descriptors to hold its data files "
                            "(ulimit -n of the server)");
    case KV_BUSY:
    case KV_NO_SESSION:
        return kv_error_set(error, KV_OUTCOME_UNKNOWN,
                            "the server no longer holds the data files: it was started again, or "
                            "this command was stopped for a minute; start the backup again");
    default:
        return kv_error_set(error, status, "%s",
                            clientk_last_error()[0] ? clientk_last_error()
                                                    : kv_status_text(status));
    }
}

/* Reads what the server said of its files, and where they are. */
static bool parse_answer(struct held_store *store)
{
    const char *at = store->answer.data, *end = at + store->answer.size;
    uint64_t seed;
    uint32_t count;
    int used = 0;
    if (sscanf(at, "store %" SCNx64 " files %" SCNu32 "\n%n", &seed, &count, &used) != 2 ||
        used == 0 || count == 0 || count > 4096 || !backup_manifest_init(&store->manifest, count))
        return false;
    store->manifest.store_seed = seed;
    at += used;
    for (uint32_t number = 0; number < count; number++) {
        struct backup_file *file = &store->manifest.files[number];
        used = 0;
        if (sscanf(at, "%" SCNx64 " %" SCNu64 "%n", &file->generation, &file->bytes, &used) != 2 ||
            at[used] != '\n' || file->bytes < BACKUP_HEADER_BYTES)
            return false;
        at += used + 1;
    }
    if (end - at < 4 || memcmp(at, "dir ", 4) != 0)
        return false;
    store->dir = strndup(at + 4, (size_t)(end - at - 4));
    return store->dir;
}

static size_t piece_bytes(struct clientk *client)
{
    struct clientk_info info = {0};
    clientk_info(client, &info);
    if (info.max_value_bytes < LEAST_PIECE_BYTES)
        return LEAST_PIECE_BYTES;
    return info.max_value_bytes < MOST_PIECE_BYTES ? info.max_value_bytes : MOST_PIECE_BYTES;
}

enum kv_status held_store_begin(struct held_store *store, struct clientk *client, bool by_message,
                                struct kv_error *error)
{
    *store = (struct held_store){.client = client, .by_message = by_message};
    store->piece_bytes = piece_bytes(client);
    uint64_t time_ms = clock_realtime_ms();
    enum kv_status status = explain_hold_status(ask_backup(store, "begin"), error);
    if (status == KV_OK && !parse_answer(store))
        status = kv_error_set(error, KV_IO, "the server's answer makes no sense");
    store->manifest.time_ms = time_ms;
    if (status != KV_OK)
        held_store_end(store);
    return status;
}

void held_store_end(struct held_store *store)
{
    backup_manifest_free(&store->manifest);
    clientk_value_free(&store->answer);
    free(store->dir);
    store->dir = NULL;
}

enum kv_status held_store_keep(struct held_store *store, struct kv_error *error)
{
    if (clock_monotonic_ns() - store->touched_ns < TOUCH_NS)
        return KV_OK;
    return explain_hold_status(ask_backup(store, "touch"), error);
}

enum kv_status held_store_finish(struct held_store *store, struct kv_error *error)
{
    return explain_hold_status(ask_backup(store, "end"), error);
}

/* Reads a piece through the server; *got: its bytes. */
static enum kv_status read_piece(const struct held_file *file, uint64_t offset, void *buffer,
                                 size_t size, size_t *got, struct kv_error *error)
{
    struct held_store *store = file->store;
    char request[64];
    if (size > store->piece_bytes)
        size = store->piece_bytes;
    snprintf(request, sizeof request, "read %" PRIu32 " %" PRIu64 " %zu", file->number, offset,
             size);
    enum kv_status status = explain_hold_status(ask_backup(store, request), error);
    if (status != KV_OK)
        return status;
    if (store->answer.size == 0 || store->answer.size > size)
        return kv_error_set(error, KV_IO, "the server's answer makes no sense");
    memcpy(buffer, store->answer.data, store->answer.size);
    *got = store->answer.size;
    return KV_OK;
}

static enum kv_status read_by_message(const struct held_file *file, uint64_t offset, void *buffer,
                                      size_t size, struct kv_error *error)
{
    enum kv_status status = KV_OK;
    for (size_t done = 0, got = 0; done < size && status == KV_OK; done += got)
        status = read_piece(file, offset + done, (char *)buffer + done, size - done, &got, error);
    return status;
}

static enum kv_status read_in_place(const struct held_file *file, uint64_t offset, void *buffer,
                                    size_t size, struct kv_error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(file->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got < 0 ? errno : EIO;
            return kv_error_set_errno(error,
                                      "%s/data.%04" PRIu32 ": cannot read at offset %" PRIu64,
                                      file->store->dir, file->number, offset + done);
        }
        done += (size_t)got;
    }
    return held_store_keep(file->store, error);
}

enum kv_status held_file_read(struct held_file *file, uint64_t offset, void *buffer, size_t size,
                              struct kv_error *error)
{
    return file->fd >= 0 ? read_in_place(file, offset, buffer, size, error)
                         : read_by_message(file, offset, buffer, size, error);
}

/* Returns a descriptor of the file that the server holds; -1: it cannot be opened here, or another
 * file has its name: one of another mount namespace, or the one that a compaction has made
 * since. */
static int open_in_place(const struct held_file *file)
{
    char path[4200];
    uint8_t identity[BACKUP_IDENTITY_BYTES];
    struct stat facts;
    int length = snprintf(path, sizeof path, "%s/data.%04" PRIu32, file->store->dir, file->number);
    if (length < 0 || (size_t)length >= sizeof path)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
        (uint64_t)facts.st_size >= file->bytes &&
        whole_read(fd, identity, sizeof identity, 0, 1) == (ssize_t)sizeof identity &&
        memcmp(identity, file->header, sizeof identity) == 0)
        return fd;
    close(fd);
    return -1;
}

enum kv_status held_file_open(struct held_file *file, struct held_store *store, uint32_t number,
                              struct kv_error *error)
{
    file->store = store;
    file->number = number;
    file->bytes = store->manifest.files[number].bytes;
    file->fd = -1;
    enum kv_status status = read_by_message(file, 0, file->header, sizeof file->header, error);
    if (status == KV_OK && !store->by_message)
        file->fd = open_in_place(file);
    return status;
}

void held_file_close(struct held_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}
