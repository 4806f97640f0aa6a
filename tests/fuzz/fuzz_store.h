/*
 * fuzz_store: what fuzzers of data files share: a directory for a store of one file, and an engine
 * that does not sync.
 */
#ifndef MQKV_TESTS_FUZZ_FUZZ_STORE_H
#define MQKV_TESTS_FUZZ_FUZZ_STORE_H

#include "tests/fuzz/fuzzing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/report/log.h"
#include "kvstore/log/fileio.h"
#include "mqkv/kvstore.h"

#define FUZZ_PATH_BYTES 64

static char fuzz_dir[] = "/tmp/mqkv-fuzz-store-XXXXXX";

static inline int fuzz_open_file(const char *name, int flags)
{
    char path[FUZZ_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", fuzz_dir, name);
    int fd = open(path, flags | O_CLOEXEC, 0600);
    require(fd >= 0);
    return fd;
}

static inline void fuzz_remove_dir(void)
{
    static const char *const names[] = {"data.0000", "data.0000.index", "data.0000.new",
                                        "data.0000.index.tmp", "lock"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[FUZZ_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", fuzz_dir, names[i]);
        unlink(path);
    }
    rmdir(fuzz_dir);
}

static inline int fuzz_no_sync(int fd)
{
    (void)fd;
    return 0;
}

/* Makes the directory, for the life of the process. Syncs are left out: they would take nine tenths
 * of the time. False: it was done before. */
static inline bool fuzz_make_dir(void)
{
    static struct fileio without_syncs;
    if (fileio == &without_syncs)
        return false;
    without_syncs = fileio_system;
    without_syncs.sync_data = fuzz_no_sync;
    without_syncs.sync_dir = fuzz_no_sync;
    fileio = &without_syncs;
    log_set_level(LOG_LEVEL_ERROR);
    require(mkdtemp(fuzz_dir) != NULL);
    atexit(fuzz_remove_dir);
    return true;
}

/* What is put into the store can be read. */
static inline void fuzz_try_put(struct kvstore *store)
{
    struct kv_slice key = kv_slice("fuzz", 4);
    char value[8];
    if (kvstore_put(store, key, kv_slice("value", 5), NULL, NULL) == KV_OK)
        require(kvstore_get(store, key, value, sizeof value, NULL) == KV_OK &&
                memcmp(value, "value", 5) == 0);
}

#endif
