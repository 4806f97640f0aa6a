#include "tests/explore/explore_machine_reads.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "tests/explore/explore_machine.h"
#include "tests/explore/explore_machine_follower.h"
#include "tests/explore/explore_machine_logs.h"
#include "tests/explore/explore_machine_upgrade.h"
#include "kvstore/table/placing.h"

struct model_circumstances machine_circumstances(void)
{
    uint64_t now_ms = machine_realtime_ms();
    return (struct model_circumstances){.now_ms = now_ms,
                                        .latest_ms = machine_latest_ms(),
                                        .may_evict = run.options.evict != KVSTORE_EVICT_NONE};
}

/* A read that fails is tried again. False: it fails each time. */
static bool machine_find(struct kvstore *store, unsigned key, uint8_t value[MODEL_VALUE_BYTES],
                         struct model_finding *found)
{
    struct kvstore_entry entry = {0};
    enum kv_status status = KV_IO;
    for (unsigned i = 0; i < 30 && status == KV_IO; i++) {
        status = kvstore_get(store, model_key(key), value, MODEL_VALUE_BYTES, &entry);
        if (status != KV_OK && status != KV_NOT_FOUND)
            machine_check_status(status, "a get");
    }
    if (status == KV_IO)
        return false;
    *found = (struct model_finding){status == KV_OK, entry.version,
                                    kv_slice(value, status == KV_OK ? entry.value_bytes : 0)};
    return true;
}

/* False: a key cannot be read. */
bool machine_find_all(struct kvstore *store, struct model_finding found[MODEL_KEYS])
{
    static uint8_t values[MODEL_KEYS][MODEL_VALUE_BYTES];
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        if (!machine_find(store, key, values[key], &found[key]))
            return false;
    return true;
}

/* All keys of what the last process has left. */
void machine_judge_store(struct kvstore *store)
{
    struct model_finding found[MODEL_KEYS];
    /* What expires meanwhile is there or not: the earliest and the latest time count. */
    struct model_circumstances now = machine_circumstances();
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        model_set_file(key, kvstore_file_of(store, model_key(key)));
    if (!machine_find_all(store, found))
        explore_fail("a key cannot be read");
    now.latest_ms = machine_circumstances().latest_ms;
    const char *wrong = model_judge(found, run.all_done, &now);
    if (wrong)
        explore_fail("%s", wrong);
    machine_judge_old_entries(store);
    machine_compare_logs(found);
    machine_judge_follower(found);
    bool all_read = true;
    for (uint32_t file = 0; file < kvstore_datafiles(store); file++) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(store, file, &statistics);
        all_read &= !statistics.taken_over;
    }
    if (all_read && !run.options.read_only)
        model_note_all_durable(); /* an open for writing syncs what it has read */
    run.all_done = run.is_judged = true;
}

void machine_judge_copy(const char *path, const struct model_moment moments[], unsigned count,
                        bool is_mixed, const char *what)
{
    struct kvstore_options options = {.read_only = true};
    struct kvstore *store;
    struct kv_error error = {.text = ""};
    enum kv_status status = kvstore_open(path, &options, &store, &error);
    if (status != KV_OK) {
        if (!machine_excuses(status))
            explore_fail("%s cannot be opened: status %d: %s", what, status, error.text);
        return;
    }
    const char *wrong = NULL;
    struct model_finding found[MODEL_KEYS];
    struct model_circumstances now = machine_circumstances();
    if (run.clock_jumps)
        now.now_ms = 0;
    /* After jumps of the clock what was gone for the judge of the store may be back in a copy. */
    if (machine_find_all(store, found) && !(run.clock_jumps && run.ended)) {
        now.latest_ms = machine_circumstances().latest_ms;
        wrong = model_judge_copy(found, moments, count, is_mixed, &now);
    }
    if (wrong)
        explore_fail("in %s: %s", what, wrong);
    machine_judge_old_entries(store);
    kvstore_close(store, NULL);
}

bool machine_is_there(const char *path)
{
    return faccessat(AT_FDCWD, path, F_OK, 0) == 0;
}

#define LISTED 16u

bool machine_empty_directory(const char *path)
{
    char names[LISTED][24];
    unsigned count = 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        explore_fail("%s cannot be opened", path);
    unlinkat(fd, "data.0000", 0);
    DIR *listing = fdopendir(fd);
    for (const struct dirent *entry; count < LISTED && (entry = readdir(listing));)
        snprintf(names[count++], sizeof names[0], "%.23s", entry->d_name);
    for (unsigned i = 0; i < count; i++)
        unlinkat(fd, names[i], 0);
    bool done = fsync(fd) == 0;
    closedir(listing);
    return done;
}

void machine_read_key(unsigned key)
{
    uint8_t value[MODEL_VALUE_BYTES];
    struct model_finding found;
    struct model_circumstances now = machine_circumstances();
    if (!machine_find(run.store, key, value, &found))
        return;
    if (run.clock_jumps) /* back, perhaps, before the read */
        now.now_ms = 0;
    now.latest_ms = machine_circumstances().latest_ms;
    const char *wrong = model_judge_read(key, &found, &now);
    if (wrong)
        explore_fail("%s", wrong);
}
