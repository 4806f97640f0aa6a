#include "tests/explore/explore_machine_upgrade.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "kvstore/api/lockfile.h"
#include "kvstore/kvcheck/findings.h"
#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/salvage.h"
#include "tests/explore/explore.h"
#include "tests/explore/explore_machine.h"
#include "tests/explore/explore_machine_reads.h"

#define UPGRADED_PATH MACHINE_PATH "/d"
#define KEPT_CLOSED   5u /* of MACHINE_KEPT */
#define KEPT_KILLED   6u
#define OLD_ENTRIES   50u

/* tests/data/store-0.1.0.tar.gz, unpacked by explore.mk; any file where it is only compiled. */
#ifndef OLD_STORE_TAR
#define OLD_STORE_TAR "tests/data/store-0.1.0.tar.gz"
#endif
__asm__(".section .rodata\n"
        "old_store_tar: .incbin \"" OLD_STORE_TAR "\"\n"
        ".balign 8\n"
        "old_store_tar_bytes: .quad . - old_store_tar\n"
        ".previous\n");
extern const uint8_t old_store_tar[];
extern const uint64_t old_store_tar_bytes;

static struct old_entry {
    char key[40];
    uint64_t value_sum, version, expiry_ms;
} old_entries[OLD_ENTRIES];
static unsigned old_count;

static struct {
    bool is_old;   /* the store was an old one */
    bool is_tried; /* an upgrade: what it has left was not judged yet */
    struct model_moment moment;
} upgrade;

/* Old stores ----------------------------------------------------------------------------------- */

#define TAR_BLOCK 512u

/* Puts the files below `folder` of the archive into the machine, in the place of the store. */
static void unpack(const char *folder)
{
    uint64_t at = 0;
    while (at + TAR_BLOCK <= old_store_tar_bytes && old_store_tar[at] != '\0') {
        const char *name = (const char *)&old_store_tar[at];
        uint64_t bytes = strtoull(name + 124, NULL, 8);
        at += TAR_BLOCK;
        if (strncmp(name, folder, strlen(folder)) == 0 && bytes > 0) {
            char path[64];
            snprintf(path, sizeof path, STORE_PATH "/%.32s", name + strlen(folder));
            machine_put_file(path, &old_store_tar[at], bytes);
        }
        at += (bytes + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    }
}

static bool note_old_entry(void *unused, const struct kvstore_scanned *entry)
{
    (void)unused;
    if (old_count == OLD_ENTRIES || entry->key.size >= sizeof old_entries[0].key)
        explore_fail("an old store has more entries than %u, or longer keys", OLD_ENTRIES);
    struct old_entry *old = &old_entries[old_count++];
    *old = (struct old_entry){.value_sum = XXH3_64bits(entry->value.data, entry->value.size),
                              .version = entry->version,
                              .expiry_ms = entry->expiry_ms};
    memcpy(old->key, entry->key.data, entry->key.size);
    return true;
}

static void keep(const char *folder, unsigned number)
{
    struct kvstore_options options = {.read_only = true};
    struct kvstore *store;
    uint64_t cursor = 0;
    machine_begin();
    unpack(folder);
    machine_keep(number);
    old_count = 0;
    if (kvstore_open(STORE_PATH, &options, &store, NULL) != KV_OK)
        explore_fail("an old store cannot be opened");
    do
        if (kvstore_scan(store, &cursor, kv_slice_from_string(""), OLD_ENTRIES, note_old_entry,
                         NULL, NULL) != KV_OK)
            explore_fail("an old store cannot be read");
    while (cursor != 0);
    kvstore_close(store, NULL);
    if (old_count != OLD_ENTRIES)
        explore_fail("an old store has %u entries instead of %u", old_count, OLD_ENTRIES);
    explore_forget_statics();
}

void machine_keep_old_stores(void)
{
    keep("closed/", KEPT_CLOSED);
    keep("killed/", KEPT_KILLED); /* which has the same entries */
}

void machine_put_old_store(bool killed)
{
    upgrade.is_old = machine_put_back(killed ? KEPT_KILLED : KEPT_CLOSED);
}

void machine_judge_old_entries(struct kvstore *store)
{
    static uint8_t value[MODEL_VALUE_BYTES];
    for (unsigned i = 0; upgrade.is_old && i < old_count; i++) {
        const struct old_entry *old = &old_entries[i];
        struct kvstore_entry entry = {0};
        enum kv_status status = KV_IO;
        for (unsigned tries = 0; tries < 30 && status == KV_IO; tries++)
            status =
                kvstore_get(store, kv_slice_from_string(old->key), value, sizeof value, &entry);
        if (status == KV_IO && machine_excuses(status))
            continue;
        if (status != KV_OK || entry.version != old->version || entry.expiry_ms != old->expiry_ms ||
            XXH3_64bits(value, entry.value_bytes) != old->value_sum)
            explore_fail("the old entry %s is another one: %s, version %" PRIu64, old->key,
                         kv_status_name(status), entry.version);
    }
}

/* Upgrades ------------------------------------------------------------------------------------- */

static enum kv_status rewrite(int directory, struct kv_error *error)
{
    static FILE *nowhere;
    struct lockfile *lockfile;
    struct layout layout;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    struct findings findings = {.stream = nowhere, .dir = run.path};
    enum kv_status status = lockfile_acquire(run.path, directory, true, &lockfile, error);
    if (status != KV_OK)
        return status;
    status = layout_find(&layout, directory, run.path, error);
    if (status == KV_OK)
        status = rewrite_store(directory, &layout, UPGRADED_PATH, 0, &findings, error);
    lockfile_release(lockfile);
    return status;
}

void machine_upgrade(bool moves)
{
    struct kv_error error = {.text = ""};
    if (strcmp(run.path, UPGRADED_PATH) == 0)
        return;
    if (!machine_empty_directory(UPGRADED_PATH))
        return;
    model_begin_moment(&upgrade.moment);
    model_end_moment(&upgrade.moment);
    upgrade.is_tried = true;
    int directory = open(run.path, O_RDONLY | O_DIRECTORY);
    if (directory < 0)
        return;
    enum kv_status status = rewrite(directory, &error);
    close(directory);
    explore_note(" upgrade: %s %s", kv_status_name(status), error.text);
    if (status != KV_OK && !machine_excuses(status))
        explore_fail("an upgrade gives status %d: %s", status, error.text);
    if (status != KV_OK || !moves)
        return;
    explore_note(" and the next lives are there");
    model_note_all_durable();
    run.path = UPGRADED_PATH;
    run.goes_on_smoothly = false; /* its logs are others */
    upgrade.is_tried = false;
}

void machine_judge_upgraded(void)
{
    if (!upgrade.is_tried)
        return;
    upgrade.is_tried = false;
    if (machine_is_there(UPGRADED_PATH "/data.0000"))
        machine_judge_copy(UPGRADED_PATH, &upgrade.moment, 1, false, "what an upgrade made");
    machine_empty_directory(UPGRADED_PATH);
}

void machine_forget_upgrades(void)
{
    memset(&upgrade, 0, sizeof upgrade);
}
