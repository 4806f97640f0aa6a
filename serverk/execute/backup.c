#include "serverk/execute/execution_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/report/log.h"
#include "serverk/session/session_hold.h"

/* The longest request: "read", three numbers, blanks. */
#define REQUEST_MAX_BYTES 64u

/* The most bytes of one answer. */
#define PIECE_MAX_BYTES (1u << 20)

static void run_begin(struct execution *execution)
{
    char *text = NULL;
    size_t size = 0;
    execution->result.status =
        session_hold_begin(execution->session, execution->store, &text, &size);
    if (execution->result.status == KV_OK) {
        log_info("backup begun by process %ld, uid %lu", (long)execution->session->pid,
                 (unsigned long)execution->session->uid);
        add_answer(execution, kv_slice(text, size));
    } else {
        add_plain(execution);
    }
    free(text);
}

/* Reads as much as there is room for. */
static void run_read(struct execution *execution, uint32_t file, uint64_t offset, size_t size)
{
    struct wire_result *result = &execution->result;
    size = size < PIECE_MAX_BYTES ? size : PIECE_MAX_BYTES;
    struct reply_place place = reply_place(execution->reply, size);
    size_t got = 0;
    if (place.kind == PLACE_NONE)
        result->status = KV_BUFFER_TOO_SMALL;
    else
        result->status = session_hold_read(execution->session, file, offset, place.at, size, &got);
    result->value = kv_slice(NULL, got);
    if (result->status == KV_OK && reply_add_placed(execution->reply, result, &place))
        return;
    if (result->status == KV_OK)
        result->status = KV_BUFFER_TOO_SMALL;
    if (result->status == KV_BUFFER_TOO_SMALL)
        result_tell_size(result, size);
    add_plain(execution);
}

static void run_simple(struct execution *execution, enum kv_status status)
{
    execution->result.status = status;
    add_plain(execution);
}

void execute_backup(struct execution *execution)
{
    struct kv_slice key = execution->operation->key;
    char text[REQUEST_MAX_BYTES + 1] = "", after;
    uint32_t file;
    uint64_t offset, size;
    if (key.size <= REQUEST_MAX_BYTES)
        memcpy(text, key.data, key.size);
    if (execution->session->uid != geteuid() && execution->session->uid != 0)
        run_simple(execution, KV_DENIED);
    else if (strcmp(text, "begin") == 0)
        run_begin(execution);
    else if (strcmp(text, "touch") == 0)
        run_simple(execution, session_hold_touch(execution->session));
    else if (strcmp(text, "end") == 0)
        run_simple(execution, session_hold_end(execution->session));
    else if (sscanf(text, "read %" SCNu32 " %" SCNu64 " %" SCNu64 "%c", &file, &offset, &size,
                    &after) == 3)
        run_read(execution, file, offset, size);
    else
        run_simple(execution, KV_BAD_REQUEST);
}
