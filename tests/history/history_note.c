#include "tests/history/history_note.h"

#include <inttypes.h>

void history_note_write_json(FILE *file, const struct history_note *note)
{
    static const char *const calls[] = {"get", "put", "delete", "add", "exchange"};
    static const char *const conditions[] = {"", "absent", "present", "version"};
    fprintf(file,
            "{\"client\":%" PRIu32 ",\"key\":%" PRIu32 ",\"call\":\"%s\",\"if\":\"%s\","
            "\"if_version\":%" PRIu64 ",\"input\":%" PRId64 ",\"status\":\"%s\",\"found\":%s,"
            "\"output\":%" PRId64 ",\"version\":%" PRIu64 ",\"start_ns\":%" PRIu64
            ",\"end_ns\":%" PRIu64 "}\n",
            note->client, note->key, calls[note->call], conditions[note->condition],
            note->if_version, note->input, kv_status_name(note->status),
            note->found ? "true" : "false", note->output, note->version, note->start_ns,
            note->end_ns);
}

static enum history_kind kind_of(const struct history_note *note)
{
    switch (note->call) {
    case NOTE_GET:
        return HISTORY_GET;
    case NOTE_DELETE:
        return HISTORY_DELETE;
    case NOTE_ADD:
        return HISTORY_ADD;
    case NOTE_EXCHANGE:
        return HISTORY_EXCHANGE;
    case NOTE_PUT:
        break;
    }
    return note->condition == NOTE_ALWAYS      ? HISTORY_PUT
           : note->condition == NOTE_IF_ABSENT ? HISTORY_PUT_IF_ABSENT
                                               : HISTORY_PUT_IF_PRESENT;
}

/* history.h knows no versions: a put that had the right one is a put that found the key. */
bool history_note_operation(const struct history_note *note, struct history_operation *operation)
{
    bool has_output = note->call == NOTE_ADD || note->found;
    *operation = (struct history_operation){
        .kind = kind_of(note),
        .succeeded = note->status == KV_OK,
        .input = note->input,
        .output = has_output ? note->output : HISTORY_ABSENT,
        .start_ns = note->start_ns,
        .end_ns = note->status == KV_OUTCOME_UNKNOWN ? HISTORY_PENDING : note->end_ns};
    return note->status != KV_VERSION_MISMATCH;
}
