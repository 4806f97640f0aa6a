#include "tests/explore/explore_machine_backup.h"

#include <inttypes.h>
#include <string.h>

#include "tools/backup/backup_source.h"
#include "tools/backup/backup_target.h"
#include "tools/backup/file_copy.h"
#include "tools/backup/held_store.h"
#include "tools/backup/restore_target.h"
#include "clientk/program/cli/interrupt.h"
#include "tests/explore/explore.h"
#include "tests/explore/explore_machine.h"
#include "tests/explore/explore_machine_reads.h"

#define BACKUP_PATH   MACHINE_PATH "/b"
#define RESTORED_PATH MACHINE_PATH "/c"
#define BACKUPS_MOST  32u
#define PIECE_BYTES   8192u

/* What the directory has to be: a backup is known by its number, which stands where its time would
 * in the manifest. */
static struct {
    unsigned count;    /* of the backups that were tried, from 1 on */
    unsigned complete; /* the last one that was told to be */
    unsigned
        restoring; /* the first and the last of those that a restore may have brought; 0: none */
    unsigned restoring_last;
    struct model_moment moments[BACKUPS_MOST + 1];
} book;

/* What stands for the daemon's hold (held_store.h), and for Ctrl-C ----------------------------- */

static struct kvstore_hold *held;

static enum kv_status read_held(uint32_t number, uint64_t offset, void *buffer, size_t size)
{
    enum kv_status status = KV_OK;
    for (size_t done = 0, got = 0; done < size && status == KV_OK; done += got) {
        status = kvstore_hold_read(held, number, offset + done, (char *)buffer + done, size - done,
                                   &got);
        if (status == KV_OK && got == 0)
            explore_fail("a hold ends too early");
    }
    return status;
}

enum kv_status held_file_open(struct held_file *file, struct held_store *store, uint32_t number,
                              struct kv_error *error)
{
    (void)error;
    file->store = store;
    file->number = number;
    file->bytes = store->manifest.files[number].bytes;
    file->fd = -1;
    return read_held(number, 0, file->header, sizeof file->header);
}

void held_file_close(struct held_file *file)
{
    (void)file;
}

enum kv_status held_file_read(struct held_file *file, uint64_t offset, void *buffer, size_t size,
                              struct kv_error *error)
{
    (void)error;
    return read_held(file->number, offset, buffer, size);
}

enum kv_status held_store_keep(struct held_store *store, struct kv_error *error)
{
    (void)store;
    (void)error;
    return kvstore_hold_touch(held) ? KV_OK : KV_BUSY;
}

bool interrupt_pending(void)
{
    return false;
}

/* Backing up ----------------------------------------------------------------------------------- */

static bool never_stop(void *unused, uint64_t bytes)
{
    (void)unused;
    (void)bytes;
    return true;
}

static enum kv_status back_up_file(struct backup_target *target, struct held_store *store,
                                   uint32_t number, struct kv_error *error)
{
    struct held_file file;
    int fd = -1;
    enum kv_status status = held_file_open(&file, store, number, error);
    if (status == KV_OK)
        status = backup_target_start_file(target, &file, &fd, error);
    if (status != KV_OK || fd < 0)
        return status;
    struct file_copy copy = {.from = &file,
                             .to = fd,
                             .is_new = target->files[number].plan == BACKUP_REPLACE,
                             .dir = target->dir,
                             .progress = never_stop};
    status = file_copy_run(&copy, target->files[number].offset, error);
    enum kv_status ended = backup_target_end_file(target, &file, fd, error);
    return status == KV_OK ? ended : status;
}

/* As clientk does it (backup_command.c). */
static enum kv_status back_up_to(struct held_store *store, struct kv_error *error)
{
    struct backup_target target;
    enum kv_status status = backup_target_open(&target, BACKUP_PATH, error);
    if (status != KV_OK)
        return status;
    status = backup_target_begin(&target, &store->manifest, error);
    for (uint32_t number = 0; number < store->manifest.count && status == KV_OK; number++) {
        status = back_up_file(&target, store, number, error);
        if (status == KV_OK)
            explore_note("   file %" PRIu32 ": %s", number,
                         target.files[number].plan == BACKUP_REPLACE  ? "anew"
                         : target.files[number].plan == BACKUP_APPEND ? "appended"
                                                                      : "kept");
    }
    if (status == KV_OK && !kvstore_hold_touch(held))
        status = KV_BUSY;
    if (status == KV_OK)
        status = backup_target_commit(&target, error);
    backup_target_close(&target);
    return status;
}

static enum kv_status back_up_held(unsigned number, struct kv_error *error)
{
    struct held_store store = {.piece_bytes = PIECE_BYTES};
    struct kvstore_hold_facts facts;
    kvstore_hold_facts(held, &facts);
    if (!backup_manifest_init(&store.manifest, facts.datafiles))
        explore_fail("no memory for a manifest");
    store.manifest.time_ms = number;
    store.manifest.store_seed = facts.store_seed;
    for (uint32_t file = 0; file < facts.datafiles; file++) {
        struct kvstore_held_file is;
        kvstore_hold_file(held, file, &is);
        store.manifest.files[file].generation = is.generation;
        store.manifest.files[file].bytes = is.bytes;
    }
    enum kv_status status = back_up_to(&store, error);
    backup_manifest_free(&store.manifest);
    return status;
}

bool machine_back_up(void)
{
    struct kv_error error = {.text = ""};
    if (book.count == BACKUPS_MOST)
        return true;
    unsigned number = book.count + 1;
    struct model_moment *moment = &book.moments[number];
    model_begin_moment(moment);
    enum kv_status status = kvstore_hold_begin(run.store, &held, &error);
    model_end_moment(moment);
    explore_note("  backup %u: %s", number, kv_status_name(status));
    machine_check_status(status, "kvstore_hold_begin");
    if (status != KV_OK)
        return false;
    book.count = number;
    status = back_up_held(number, &error);
    kvstore_hold_end(held);
    explore_note("  backup %u: %s %s", number, kv_status_name(status), error.text);
    if (status == KV_OK)
        book.complete = number;
    else if (!machine_excuses(status))
        explore_fail("a backup gives status %d: %s", status, error.text);
    return status == KV_OK;
}

/* Restoring ------------------------------------------------------------------------------------ */

/* The restored store has to be as it was at one of these moments; where `is_mixed`, each of its
 * files. */
static void judge_restored(unsigned first, unsigned last, bool is_mixed)
{
    machine_judge_copy(RESTORED_PATH, &book.moments[first], last - first + 1, is_mixed,
                       "what was restored");
}

/* What the directory of an earlier restore, which may have died, has become. False: it cannot be
 * emptied. */
static bool judge_earlier_restore(void)
{
    if (book.restoring != 0 && machine_is_there(RESTORED_PATH "/data.0000"))
        judge_restored(book.restoring, book.restoring_last, true);
    if (!machine_empty_directory(RESTORED_PATH))
        return false;
    book.restoring = 0;
    return true;
}

static void restore_from(struct backup_source *source)
{
    struct kv_error error = {.text = ""};
    unsigned number = (unsigned)source->manifest.time_ms;
    if (number < book.complete || number > book.count)
        explore_fail("the backup is number %u, but %u was complete, and %u tried last", number,
                     book.complete, book.count);
    book.restoring_last = source->manifest.under_way ? book.count : number;
    book.restoring = number;
    enum kv_status status = restore_to_directory(source, RESTORED_PATH, &error);
    explore_note("  restored %u%s: %s %s", number, source->is_mixed ? ", mixed" : "",
                 kv_status_name(status), error.text);
    if (status != KV_OK && book.complete != 0 && !machine_excuses(status))
        explore_fail("a restore gives status %d: %s", status, error.text);
    if (status == KV_OK && source->is_mixed)
        judge_restored(number, book.count, true);
    else if (status == KV_OK)
        judge_restored(number, number, false);
}

void machine_judge_backup(void)
{
    struct backup_source source;
    struct kv_error error = {.text = ""};
    if (!judge_earlier_restore())
        return;
    enum kv_status status = backup_source_open(&source, BACKUP_PATH, &error);
    if (status == KV_OK) {
        restore_from(&source);
        backup_source_close(&source);
    } else if (status == KV_NOT_FOUND ? book.complete != 0 : !machine_excuses(status)) {
        explore_fail("the backup gives status %d: %s", status, error.text);
    }
}

void machine_forget_backups(void)
{
    memset(&book, 0, sizeof book);
}
