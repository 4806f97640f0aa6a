#include "serverk/execute/request_notes.h"

#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "wire/operation.h"
#include "wire/transact_value.h"

struct request_notes *request_notes_create(void)
{
    struct request_notes *notes = calloc(1, sizeof *notes);
    if (!notes)
        return NULL;
    notes->slow_log = slow_log_create();
    notes->hot_keys = hot_keys_create();
    atomic_store(&notes->slow_ns, UINT64_MAX);
    atomic_store(&notes->attention_ns, UINT64_MAX);
    if (notes->slow_log && notes->hot_keys)
        return notes;
    request_notes_free(notes);
    return NULL;
}

void request_notes_free(struct request_notes *notes)
{
    if (!notes)
        return;
    slow_log_free(notes->slow_log);
    hot_keys_free(notes->hot_keys);
    free(notes);
}

/* Whoever changes what is wanted calls it afterwards. Another may have looked before the change and
 * store after it: so it looks once more. */
static void settle_wanted_notes(struct request_notes *notes)
{
    uint64_t settled_ns, wanted_ns;
    do {
        settled_ns = hot_keys_wanted(notes->hot_keys) ? 0 : atomic_load(&notes->slow_ns);
        atomic_store(&notes->attention_ns, settled_ns);
        wanted_ns = hot_keys_wanted(notes->hot_keys) ? 0 : atomic_load(&notes->slow_ns);
    } while (wanted_ns != settled_ns);
}

void request_notes_set_slow(struct request_notes *notes, uint64_t slow_ms)
{
    atomic_store(&notes->slow_ns, slow_ms == 0 ? UINT64_MAX : slow_ms * 1000000);
    settle_wanted_notes(notes);
}

void request_notes_begin_hot(struct request_notes *notes, uint64_t duration_ms)
{
    hot_keys_begin(notes->hot_keys, duration_ms);
    settle_wanted_notes(notes);
}

static void note_slow(struct request_notes *notes, const struct noted_request *request)
{
    const struct session *session = request->session;
    struct read_cursor cursor = request->operations;
    struct wire_operation operation;
    if (wire_get_operation(&cursor, &operation) != KV_OK)
        return;
    if (operation.opcode == WIRE_OP_TRANSACT) { /* its key stays empty if it was in a segment */
        struct wire_transaction_keys keys = wire_keys_of_transaction(operation.value);
        wire_next_transaction_key(&keys, &operation.key);
    }
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
    slow_log_note(notes->slow_log, &slow);
}

void request_notes_take(struct request_notes *notes, const struct noted_request *request)
{
    if (request->work_ns >= atomic_load(&notes->slow_ns))
        note_slow(notes, request);
    if (hot_keys_wanted(notes->hot_keys))
        hot_keys_show(notes->hot_keys, request->operations, request->count);
    else
        settle_wanted_notes(notes);
}
