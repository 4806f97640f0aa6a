#include <stdatomic.h>
#include <string.h>

#include "kvstore/maintenance/compaction_queue.h"
#include "tests/explore/explore.h"

#define FILES         2u
#define CALLERS       2u
#define CALLS_EACH    2u
#define WANTS         3u
#define COMPACTION_NS UINT64_C(2000)

static struct {
    struct compaction_queue *queue;
    struct store_context context;
    struct datafile files[FILES];
    struct generation generations[FILES]; /* with logs that are empty */
    struct shared_generation words[FILES];
    unsigned begun[FILES]; /* compactions of the file */
} shared;

/* As the compactor's thread does. */
static void compact(void *unused)
{
    struct compaction next;
    struct kv_error error = {.text = ""};
    (void)unused;
    while (compaction_queue_next(shared.queue, UINT64_MAX, &next)) {
        if (next.is_none)
            continue;
        EXPLORE_CHECK(next.number < FILES, "data file %u", next.number);
        shared.begun[next.number]++;
        compaction_queue_finish(shared.queue, next.number, KV_OK, COMPACTION_NS);
        if (next.request)
            compaction_queue_answer(shared.queue, next.request, KV_OK, &error);
    }
}

/* A call waits without a limit: one that is lost never returns. */
static void call(void *argument)
{
    uint32_t file = (uint32_t)(uintptr_t)argument % FILES;
    for (unsigned i = 0; i < CALLS_EACH; i++) {
        struct kv_error error;
        unsigned before = shared.begun[file];
        enum kv_status status = compaction_queue_call(shared.queue, file, &error);
        EXPLORE_CHECK(status == KV_OK, "a call gives status %d", status);
        EXPLORE_CHECK(shared.begun[file] > before, "a call returned, and nothing was compacted");
    }
}

/* Whoever wants a compaction gets one that begins later, if only after the file's rest. */
static void want(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < WANTS; i++) {
        unsigned before = shared.begun[0];
        if (i % 2 == 0)
            compaction_queue_want(shared.queue, 0);
        else
            compaction_queue_want_now(shared.queue, 0);
        for (unsigned rests = 0; shared.begun[0] == before; rests++) {
            EXPLORE_CHECK(rests < 1000, "a compaction was wanted and did not come");
            explore_sleep_ms(1000);
        }
    }
}

static void run(void)
{
    memset(&shared, 0, sizeof shared);
    shared.context.datafiles = FILES;
    shared.context.files = shared.files;
    shared.context.locks = lockset_create(KVSTORE_FILE_RWLOCK, KVSTORE_PREFER_WRITER, FILES);
    for (unsigned i = 0; i < FILES; i++) {
        shared.files[i].current = &shared.generations[i];
        shared.generations[i].words = &shared.words[i];
        shared.generations[i].log.tail = FILE_HEADER_BYTES;
    }
    shared.queue = compaction_queue_create(&shared.context);
    for (unsigned i = 0; i < CALLERS; i++)
        explore_thread(0, call, (void *)(uintptr_t)i);
    explore_thread(0, want, NULL);
    explore_other_thread(0, compact, NULL);
    explore_wait_for_threads();
    compaction_queue_stop(shared.queue);
    explore_wait_for_all();
    compaction_queue_free(shared.queue);
    lockset_free(shared.context.locks);
}

EXPLORE_HARNESS(explore_compaction_queue) = {
    .name = "compaction-queue",
    .invariant = "a compaction that is called for or wanted comes, and every call returns",
    .run = run,
};
