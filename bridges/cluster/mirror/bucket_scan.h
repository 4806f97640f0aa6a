/*
 * bucket_scan: reads a page of the entries of an engine that is elsewhere, and waits for it.
 *
 * Threads: one, beside those of the engine, on which `visit` is called.
 */
#ifndef MQKV_MIRROR_BUCKET_SCAN_H
#define MQKV_MIRROR_BUCKET_SCAN_H

#include "engine/store_engine.h"

struct bucket_scan {
    uint64_t cursor; /* where to begin, and then where to continue; 0: start, or end */
    bool keys_only;
    kvstore_visit visit;
    void *context;
    const char *sentence; /* explains a failure; NULL: nothing does */
};

/* Reads a page. Returns the status of the operation (engine/store_engine.h). */
enum kv_status bucket_scan_page(struct store_engine *engine, struct bucket_scan *scan);

#endif
