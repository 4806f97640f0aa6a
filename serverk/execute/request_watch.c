#include "serverk/execute/request_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "wire/operation.h"

struct request_watch *request_watch_create(void)
{
    struct request_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->slow_log = slow_log_create();
    watch->hot_keys = hot_keys_create();
    atomic_store(&watch->slow_ns, UINT64_MAX);
    atomic_store(&watch->attention_ns, UINT64_MAX);
    if (watch->slow_log && watch->hot_keys)
        return watch;
    request_watch_free(watch);
    return NULL;
}

void request_watch_free(struct request_watch *watch)
{
    if (!watch)
        return;
    slow_log_free(watch->slow_log);
    hot_keys_free(watch->hot_keys);
    free(watch);
}

/* Whoever changes what is wanted calls it afterwards. Another may have looked before the change and
 * store after it: so it looks once more. */
static void settle_wanted_notes(struct request_watch *watch)
{
    uint64_t settled_ns, wanted_ns;
    do {
        settled_ns = hot_keys_wanted(watch->hot_keys) ? 0 : atomic_load(&watch->slow_ns);
        atomic_store(&watch->attention_ns, settled_ns);
        wanted_ns = hot_keys_wanted(watch->hot_keys) ? 0 : atomic_load(&watch->slow_ns);
    } while (wanted_ns != settled_ns);
}

void request_watch_set_slow(struct request_watch *watch, uint64_t slow_ms)
{
    atomic_store(&watch->slow_ns, slow_ms == 0 ? UINT64_MAX : slow_ms * 1000000);
    settle_wanted_notes(watch);
}

void request_watch_begin_hot(struct request_watch *watch, uint64_t duration_ms)
{
    hot_keys_begin(watch->hot_keys, duration_ms);
    settle_wanted_notes(watch);
}

static void note_slow(struct request_watch *watch, const struct watched_request *request)
{
    const struct session *session = request->session;
    struct read_cursor cursor = request->operations;
    struct wire_operation operation;
    if (wire_get_operation(&cursor, &operation) != KV_OK)
        return;
    struct slow_request slow = {.time_ms = clock_realtime_ms(),
                                .work_ns = request->work_ns,
                                .lock_wait_ns = request->lock_wait_ns,
                                .session = session->id,
                                .pid = session->pid,
                                .uid = session->uid,
                                .opcode = operation.opcode,
                                .operations = request->count,
                                .key_bytes = (uint32_t)operation.key.size};
    if (operation.key.size > 0)
        memcpy(slow.key, operation.key.data, slow_request_key(&slow).size);
    slow_log_note(watch->slow_log, &slow);
}

void request_watch_take(struct request_watch *watch, const struct watched_request *request)
{
    if (request->work_ns >= atomic_load(&watch->slow_ns))
        note_slow(watch, request);
    if (hot_keys_wanted(watch->hot_keys))
        hot_keys_show(watch->hot_keys, request->operations, request->count);
    else
        settle_wanted_notes(watch);
}
