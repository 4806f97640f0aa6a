#include "bridges/cluster/mirror/bucket_scan.h"

#include <semaphore.h>

#include "common/time/clock.h"

#define PAGE_ENTRIES 256u
#define PATIENCE_MS  20000u

struct scan_wait {
    struct engine_operation operation;
    struct bucket_scan *scan;
    sem_t done;
};

static bool show_scanned_entry(void *context, const struct kvstore_scanned *entry)
{
    const struct scan_wait *waiting = context;
    return waiting->scan->visit(waiting->scan->context, entry);
}

static void post_scan_done(struct engine_operation *operation)
{
    struct scan_wait *waiting = operation->context;
    sem_post(&waiting->done);
}

enum kv_status bucket_scan_page(struct store_engine *engine, struct bucket_scan *scan)
{
    struct scan_wait waiting = {.scan = scan};
    waiting.operation =
        (struct engine_operation){.opcode = ENGINE_SCAN,
                                  .cursor = scan->cursor,
                                  .limit = PAGE_ENTRIES,
                                  .keys_only = scan->keys_only,
                                  .deadline_ms = clock_monotonic_coarse_ms() + PATIENCE_MS,
                                  .visit = show_scanned_entry,
                                  .context = &waiting,
                                  .done = post_scan_done};
    sem_init(&waiting.done, 0, 0);
    engine->calls->submit(engine, &waiting.operation);
    while (sem_wait(&waiting.done) != 0)
        ;
    sem_destroy(&waiting.done);
    scan->sentence = waiting.operation.sentence;
    if (waiting.operation.status == KV_OK)
        scan->cursor = (uint64_t)waiting.operation.number;
    return waiting.operation.status;
}
