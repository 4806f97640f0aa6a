/*
 * bucket_scan: a page of the entries of an engine that is elsewhere, waited for.
 *
 * Threads: one, beside those of the engine, on which `visit` is called.
 */
#ifndef MQKV_MIRROR_BUCKET_SCAN_H
#define MQKV_MIRROR_BUCKET_SCAN_H

#include "engine/store_engine.h"

struct bucket_scan {
    uint64_t
        cursor; /* where it begins, and where to go on; 0: from the beginning, or all was seen */
    bool keys_only;
    kvstore_visit visit;
    void *context;
    const char *sentence; /* about a failure; NULL: none */
};

/* The status of the operation (engine/store_engine.h). */
enum kv_status bucket_scan_page(struct store_engine *engine, struct bucket_scan *scan);

#endif
