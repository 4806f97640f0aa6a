#include "tests/history/transaction_note.h"

#include <inttypes.h>

static const char *const step_names[] = {
    [CLIENTK_GET] = "get",       [CLIENTK_EXISTS] = "exists", [CLIENTK_PUT] = "put",
    [CLIENTK_DELETE] = "delete", [CLIENTK_ADD] = "add",       [CLIENTK_APPEND] = "append",
    [CLIENTK_TOUCH] = "touch"};

/* A step on a key that is in no history. */
static bool is_filler(const struct clientk_operation *step)
{
    return step->key.size > 0 && *(const char *)step->key.data == TRANSACTION_NOTE_FILLER;
}

static void write_slice(FILE *file, const char *name, struct kv_slice slice)
{
    fprintf(file, ",\"%s\":\"%.*s\"", name, (int)slice.size, (const char *)slice.data);
}

static void write_guards(FILE *file, const struct transaction_note *note)
{
    static const char *const kinds[] = {[CLIENTK_GUARD_VERSION] = "version",
                                        [CLIENTK_GUARD_PRESENT] = "present",
                                        [CLIENTK_GUARD_ABSENT] = "absent",
                                        [CLIENTK_GUARD_VALUE] = "value"};
    fputs(",\"guards\":[", file);
    for (size_t i = 0; i < note->asked.guard_count; i++) {
        const struct clientk_guard *guard = &note->asked.guards[i];
        fprintf(file, "%s{\"kind\":\"%s\",\"version\":%" PRIu64, i > 0 ? "," : "",
                kinds[guard->kind], guard->version);
        write_slice(file, "key", guard->key);
        if (guard->kind == CLIENTK_GUARD_VALUE)
            write_slice(file, "value", guard->value);
        else if (note->known && guard->version > 0 && note->known[i].version == guard->version)
            write_slice(file, "value", kv_slice(note->known[i].data, note->known[i].size));
        fputc('}', file);
    }
    fputc(']', file);
}

static void write_steps(FILE *file, const char *name, const struct clientk_operation *steps,
                        size_t count)
{
    fprintf(file, ",\"%s\":[", name);
    const char *between = "";
    for (size_t i = 0; i < count; i++) {
        if (is_filler(&steps[i]))
            continue;
        fprintf(file, "%s{\"call\":\"%s\"", between, step_names[steps[i].opcode]);
        between = ",";
        write_slice(file, "key", steps[i].key);
        if (steps[i].value.size > 0)
            write_slice(file, "value", steps[i].value);
        if (steps[i].opcode == CLIENTK_ADD)
            fprintf(file, ",\"delta\":%" PRId64, steps[i].delta);
        if (steps[i].add.has_min)
            fprintf(file, ",\"has_min\":true,\"min\":%" PRId64, steps[i].add.min);
        fputc('}', file);
    }
    fputc(']', file);
}

/* Only a read brings a value: memory of others may hold an older one. */
static void write_results(FILE *file, const struct transaction_note *note)
{
    const struct clientk_operation *steps =
        note->told.outcome == CLIENTK_ELSE ? note->asked.otherwise : note->asked.then;
    fputs(",\"results\":[", file);
    const char *between = "";
    for (size_t i = 0; i < note->told.results; i++) {
        const struct clientk_result *result = &note->results[i];
        if (is_filler(&steps[i]))
            continue;
        fprintf(file, "%s{\"status\":\"%s\"", between, kv_status_name(result->status));
        between = ",";
        if (result->status == KV_OK)
            fprintf(file, ",\"version\":%" PRIu64 ",\"number\":%" PRId64, result->value.version,
                    result->number);
        if (result->status == KV_OK && steps[i].opcode == CLIENTK_GET)
            write_slice(file, "value", kv_slice(result->value.data, result->value.size));
        fputc('}', file);
    }
    fputc(']', file);
}

void transaction_note_write(FILE *file, const struct transaction_note *note)
{
    static const char *const outcomes[] = {[CLIENTK_FAILED] = "failed",
                                           [CLIENTK_DONE] = "done",
                                           [CLIENTK_ELSE] = "else",
                                           [CLIENTK_UNKNOWN] = "unknown"};
    static const char *const parts[] = {[CLIENTK_PART_NONE] = "",
                                        [CLIENTK_PART_GUARD] = "guard",
                                        [CLIENTK_PART_THEN] = "then",
                                        [CLIENTK_PART_ELSE] = "else"};
    fprintf(file,
            "{\"client\":%" PRIu32 ",\"round\":%" PRIu32 ",\"call\":\"%s\",\"start_ns\":%" PRIu64
            ",\"end_ns\":%" PRIu64 ",\"outcome\":\"%s\",\"status\":\"%s\",\"part\":\"%s\""
            ",\"at\":%zu,\"guard\":%zu",
            note->client, note->round, note->call, note->start_ns, note->end_ns,
            outcomes[note->told.outcome], kv_status_name(note->status), parts[note->told.part],
            note->told.at, note->told.guard);
    write_guards(file, note);
    write_steps(file, "then", note->asked.then, note->asked.then_count);
    write_steps(file, "else", note->asked.otherwise, note->asked.otherwise_count);
    if (note->told.outcome == CLIENTK_DONE || note->told.outcome == CLIENTK_ELSE)
        write_results(file, note);
    fputs("}\n", file);
}

static bool only_reads(const struct clientk_operation *steps, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (steps[i].opcode != CLIENTK_GET && steps[i].opcode != CLIENTK_EXISTS)
            return false;
    return true;
}

bool transaction_note_outcome(struct transaction_note *note, enum kv_status status,
                              const struct clientk_transacted *told)
{
    note->status = status;
    note->told = *told;
    switch (status) {
    case KV_OK:
        return true;
    case KV_OUT_OF_BOUNDS:
    case KV_NOT_A_NUMBER:
    case KV_NOT_FOUND:
        return told->part == CLIENTK_PART_THEN || told->part == CLIENTK_PART_ELSE;
    case KV_TIMEOUT:
    case KV_OUTCOME_UNKNOWN:
        note->told.outcome = CLIENTK_UNKNOWN;
        return !only_reads(note->asked.then, note->asked.then_count) ||
               !only_reads(note->asked.otherwise, note->asked.otherwise_count);
    default: /* surely not executed */
        return false;
    }
}

/* The condition of a single write as a guard; false: it has none. */
static bool condition_guard(const struct clientk_operation *operation, struct clientk_guard *guard)
{
    const struct clientk_write_options *write = &operation->write;
    *guard = (struct clientk_guard){.key = operation->key, .version = write->if_version};
    guard->kind = write->if_absent        ? CLIENTK_GUARD_ABSENT
                  : write->if_present     ? CLIENTK_GUARD_PRESENT
                  : write->if_version > 0 ? CLIENTK_GUARD_VERSION
                                          : 0;
    return guard->kind != 0;
}

/* An exchange has a get before the put, with the old value. */
static size_t single_steps(const struct clientk_operation *operation,
                           const struct clientk_result *result, struct clientk_operation *steps,
                           struct clientk_result *results)
{
    steps[0] = *operation;
    results[0] = *result;
    if (operation->opcode != CLIENTK_EXCHANGE)
        return 1;
    steps[1] = *operation;
    results[1] = *result;
    steps[0].opcode = CLIENTK_GET;
    steps[0].value.size = 0;
    steps[1].opcode = CLIENTK_PUT;
    results[0].value.version = 0; /* nothing tells it */
    if (!result->found)
        results[0].status = KV_NOT_FOUND;
    return 2;
}

bool transaction_note_single(struct transaction_note *note,
                             const struct clientk_operation *operation,
                             const struct clientk_result *result, struct clientk_guard *guard,
                             struct clientk_operation *steps, struct clientk_result *results)
{
    bool guarded = condition_guard(operation, guard);
    size_t count = single_steps(operation, result, steps, results);
    struct clientk_transacted told = {.outcome = CLIENTK_DONE, .results = count};
    enum kv_status status = result->status;
    note->asked = (struct clientk_transaction){
        .guards = guard, .guard_count = guarded, .then = steps, .then_count = count};
    note->results = results;
    if (guarded &&
        (status == KV_NOT_FOUND || status == KV_EXISTS || status == KV_VERSION_MISMATCH)) {
        told = (struct clientk_transacted){.outcome = CLIENTK_ELSE};
        status = KV_OK;
    } else if (status == KV_OUT_OF_BOUNDS || status == KV_NOT_A_NUMBER) {
        told = (struct clientk_transacted){.outcome = CLIENTK_FAILED, .part = CLIENTK_PART_THEN};
    } else if (status == KV_NOT_FOUND) {
        status = KV_OK; /* and the result says so */
    }
    return transaction_note_outcome(note, status, &told);
}
