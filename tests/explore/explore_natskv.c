/* natskv on a cluster whose answers come late or not at all: what its callers are told must hold in
 * the stream. One key has a log that is appended to, where each number shows whether its append was
 * executed, how often, and in which order; those of the others have histories. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/cluster/natskv/nats_engine.h"
#include "bridges/cluster/natskv/natskv.h"
#include "tests/explore/explore.h"
#include "tests/explore/explored_nats.h"
#include "tests/history/history.h"

#define DAEMON         0u
#define CLUSTER        1u
#define CALLERS        3u
#define CALLS_EACH     4u
#define TOGETHER       2u /* operations that a caller submits at most before it waits */
#define REGISTERS      2u /* keys with a history of puts, gets and deletes; behind them: */
#define COUNTER        2u
#define LOG            3u
#define KEYS           4u
#define NUMBERS_MAX    64u
#define OPERATIONS_MAX (CALLERS * CALLS_EACH * TOGETHER)
#define LOG_BYTES      256u

/* An operation waits for one run before its own at most, each of which takes up to its deadline. */
#define DONE_WITHIN_MS (2 * NATS_PATIENCE_MS + 5000u)

struct called {
    struct engine_operation operation; /* the first member */
    unsigned key;
    int64_t number; /* of a write: no two have the same */
    char value[24];
    char found[LOG_BYTES]; /* by a get, or the exchange's old value */
    unsigned done;         /* how often */
    size_t log_bytes; /* of the log, as long as somebody knew it to be when this was submitted */
    struct history_operation noted;
};

static struct {
    struct store_engine *engine;
    struct called calls[OPERATIONS_MAX];
    unsigned count;
    size_t log_bytes; /* the longest that somebody was told of */
    bool may_fail;
} callers;

static struct kv_slice key_of(unsigned key)
{
    static const char *const names[KEYS] = {"a", "b", "n", "log"};
    return kv_slice_from_string(names[key]);
}

/* Outcomes ------------------------------------------------------------------------------------- */

static bool is_read_call(const struct called *called)
{
    return called->operation.opcode == ENGINE_GET;
}

/* The operation was surely not executed. */
static bool is_denied(enum kv_status status)
{
    return status == KV_NO_SERVER || status == KV_DEADLINE || status == KV_OVERLOADED ||
           status == KV_NO_SPACE;
}

/* The write has the sequence that its version says, and is there, or was folded into that. */
static void check_version(const struct called *called)
{
    uint64_t version = called->operation.entry.version;
    uint64_t sequence = (version + NATSKV_FOLD - 1) / NATSKV_FOLD;
    struct kv_slice key = key_of(called->key);
    EXPLORE_CHECK(sequence > 0 && sequence <= explored_cluster.last_sequence,
                  "a write is acknowledged with version %" PRIu64 ", which the stream has not",
                  version);
    const char *subject = strrchr(explored_cluster.messages[sequence].subject, '.') + 1;
    EXPLORE_CHECK(kv_slice_equal(kv_slice_from_string(subject), key),
                  "a write of %s is acknowledged with the version of one of %s",
                  (const char *)key.data, subject);
}

static void take_read(struct called *called)
{
    const struct engine_operation *operation = &called->operation;
    bool is_there = operation->status == KV_OK;
    size_t size = is_there ? operation->found_value.size : 0;
    EXPLORE_CHECK(size < sizeof called->found, "a value is too large");
    memcpy(called->found, operation->found_value.data ? operation->found_value.data : "", size);
    called->noted.output = is_there ? strtoll(called->found, NULL, 10) : HISTORY_ABSENT;
    if (called->key != LOG)
        return;
    EXPLORE_CHECK(size >= called->log_bytes, "a read finds %zu bytes of a log that had %zu", size,
                  called->log_bytes);
    if (size > callers.log_bytes)
        callers.log_bytes = size;
}

static void take_write(struct called *called)
{
    const struct engine_operation *operation = &called->operation;
    if (operation->status == KV_OK)
        check_version(called);
    called->noted.output = operation->number;
    if (called->key == LOG && (size_t)operation->number > callers.log_bytes)
        callers.log_bytes = (size_t)operation->number;
}

/* Called by whatever thread ends the operation. */
static void end_call(struct engine_operation *operation)
{
    bool was_quiet = explore_quietly(true);
    struct called *called = (struct called *)operation;
    enum kv_status status = operation->status;
    EXPLORE_CHECK(called->done++ == 0, "an operation is done twice");
    if (status == KV_OK || status == KV_NOT_FOUND || status == KV_EXISTS) {
        called->noted.succeeded = status == KV_OK || is_read_call(called);
        called->noted.end_ns = explore_clock_ns();
        if (is_read_call(called))
            take_read(called);
        else
            take_write(called);
    } else {
        EXPLORE_CHECK(callers.may_fail || !explore_keeps_time(),
                      "an operation ends with status %d of a sound cluster", status);
        EXPLORE_CHECK(is_denied(status) || (status == KV_OUTCOME_UNKNOWN && !is_read_call(called)),
                      "an operation ends with status %d", status);
    }
    explore_quietly(was_quiet);
}

/* Calls ---------------------------------------------------------------------------------------- */

static void draw_register(struct called *called)
{
    struct engine_operation *operation = &called->operation;
    switch (explore_random(6)) {
    case 0:
    case 1:
        operation->opcode = ENGINE_GET;
        called->noted.kind = HISTORY_GET;
        return;
    case 2:
        operation->opcode = ENGINE_DELETE;
        called->noted.kind = HISTORY_DELETE;
        return;
    case 3:
        operation->put.condition = KVSTORE_IF_ABSENT;
        called->noted.kind = HISTORY_PUT_IF_ABSENT;
        break;
    default:
        called->noted.kind = HISTORY_PUT;
        break;
    }
    operation->opcode = ENGINE_PUT;
    called->noted.input = called->number;
}

static void draw_call(struct called *called)
{
    struct engine_operation *operation = &called->operation;
    called->key = explore_random(KEYS);
    called->number = callers.count;
    sprintf(called->value, called->key == LOG ? ",%" PRId64 "," : "%" PRId64, called->number);
    *operation = (struct engine_operation){
        .key = key_of(called->key), .value = kv_slice_from_string(called->value), .done = end_call};
    called->noted = (struct history_operation){.end_ns = HISTORY_PENDING};
    if (called->key < REGISTERS) {
        draw_register(called);
    } else if (explore_random(3) == 0) {
        operation->opcode = ENGINE_GET;
        called->noted.kind = HISTORY_GET;
    } else {
        operation->opcode = called->key == LOG ? ENGINE_APPEND : ENGINE_ADD;
        operation->delta = called->noted.input = 1;
        called->noted.kind = HISTORY_ADD;
    }
    if (explore_random(3) == 0)
        operation->deadline_ms = clock_monotonic_coarse_ms() + 200 + explore_random(4000);
    called->log_bytes = callers.log_bytes;
}

static bool is_call_done(const void *what)
{
    return ((const struct called *)what)->done > 0;
}

static void call_often(void *unused)
{
    (void)unused;
    explore_quietly(true);
    for (unsigned i = 0; i < CALLS_EACH; i++) {
        struct called *together[TOGETHER];
        unsigned count = 1 + explore_random(TOGETHER);
        for (unsigned j = 0; j < count; j++) {
            together[j] = &callers.calls[callers.count++];
            draw_call(together[j]);
            together[j]->noted.start_ns = explore_clock_ns();
            explore_quietly(false);
            callers.engine->calls->submit(callers.engine, &together[j]->operation);
            explore_quietly(true);
        }
        for (unsigned j = 0; j < count; j++) {
            explore_quietly(false);
            explore_wait_until(is_call_done, together[j]);
            explore_quietly(true);
            uint64_t took_ns = explore_clock_ns() - together[j]->noted.start_ns;
            EXPLORE_CHECK(took_ns / 1000000 < DONE_WITHIN_MS, "an operation takes %" PRIu64 " ms",
                          took_ns / 1000000);
        }
    }
    explore_quietly(false);
}

/* What the stream has ------------------------------------------------------------------------- */

/* Each value of the log has the one before it at its beginning, and all of its numbers once. */
static const char *judge_log_values(void)
{
    const char *before = "";
    for (uint64_t i = 1; i <= explored_cluster.last_sequence; i++) {
        const struct stored_message *stored = &explored_cluster.messages[i];
        if (strcmp(strrchr(stored->subject, '.'), ".log") != 0)
            continue;
        EXPLORE_CHECK(strncmp(stored->value, before, strlen(before)) == 0,
                      "what was appended is lost: %s behind %s", stored->value, before);
        before = stored->value;
    }
    return before;
}

static unsigned count_in_log(const char *log, int64_t number)
{
    char text[24];
    unsigned count = 0;
    sprintf(text, ",%" PRId64 ",", number);
    for (const char *at = strstr(log, text); at; at = strstr(at + 1, text))
        count++;
    return count;
}

static bool was_put(unsigned key, const char *value)
{
    for (uint64_t i = 1; i <= explored_cluster.last_sequence; i++) {
        const struct stored_message *stored = &explored_cluster.messages[i];
        if (!stored->is_tombstone && strcmp(stored->value, value) == 0 &&
            strcmp(strrchr(stored->subject, '.') + 1, key_of(key).data) == 0)
            return true;
    }
    return false;
}

static void judge_call(const struct called *called, const char *log)
{
    enum kv_status status = called->operation.status;
    EXPLORE_CHECK(called->done == 1, "an operation is not done");
    if (called->key == LOG && !is_read_call(called)) {
        unsigned times = count_in_log(log, called->number);
        EXPLORE_CHECK(times <= 1, "append %" PRId64 " was executed %u times", called->number,
                      times);
        EXPLORE_CHECK(status != KV_OK || times == 1,
                      "append %" PRId64 " was acknowledged, and is not there", called->number);
        EXPLORE_CHECK(!is_denied(status) || times == 0,
                      "append %" PRId64 " was executed, and its status %d says that it was not",
                      called->number, status);
    }
    if (called->operation.opcode == ENGINE_PUT && is_denied(status))
        EXPLORE_CHECK(!was_put(called->key, called->value),
                      "put %" PRId64 " was executed, and its status %d says that it was not",
                      called->number, status);
}

/* What was denied is no part of a history, nor is a read that has failed. */
static void judge_history(unsigned key)
{
    static struct history_operation operations[OPERATIONS_MAX];
    unsigned kept = 0;
    for (unsigned i = 0; i < callers.count; i++) {
        const struct called *called = &callers.calls[i];
        bool is_kept = called->noted.end_ns != HISTORY_PENDING ||
                       called->operation.status == KV_OUTCOME_UNKNOWN;
        if (called->key == key && is_kept)
            operations[kept++] = called->noted;
    }
    EXPLORE_CHECK(history_check(operations, kept, HISTORY_ABSENT) != HISTORY_VIOLATION,
                  "no order of the operations on %s explains their answers",
                  (const char *)key_of(key).data);
}

static void judge_all(void)
{
    const char *log = judge_log_values();
    for (unsigned i = 0; i < callers.count; i++) {
        judge_call(&callers.calls[i], log);
        if (callers.calls[i].key == LOG && is_read_call(&callers.calls[i]))
            EXPLORE_CHECK(strncmp(log, callers.calls[i].found, strlen(callers.calls[i].found)) == 0,
                          "a read has found %s, and the log is %s", callers.calls[i].found, log);
    }
    for (unsigned key = 0; key < LOG; key++)
        judge_history(key);
}

static void run_natskv(bool may_fail)
{
    const struct natskv_options options = {
        .urls = "nats://explored", .bucket = "x", .check_only = true};
    struct kv_error error = {.text = ""};
    struct link_counts counts;
    explore_quietly(true);
    explore_forget_statics();
    memset(&callers, 0, sizeof callers);
    callers.may_fail = may_fail;
    explored_nats_begin(CLUSTER, may_fail);
    EXPLORE_CHECK(natskv_open(&options, &callers.engine, &error) == KV_OK, "%s", error.text);
    explore_quietly(false);
    for (unsigned i = 0; i < CALLERS; i++)
        explore_thread(DAEMON, call_often, NULL);
    explore_wait_for_threads();
    nats_link_counts(((struct nats_engine *)callers.engine)->link, &counts);
    EXPLORE_CHECK(counts.in_flight == 0, "%" PRIu64 " calls are under way when all is done",
                  counts.in_flight);
    explored_nats_end();
    engine_close(callers.engine, &error);
    explore_wait_for_all();
    explore_quietly(true);
    EXPLORE_CHECK(explored_nats_left() == 0, "%u objects of the library are left",
                  explored_nats_left());
    judge_all();
}

static void run(void)
{
    run_natskv(true);
}

static void run_sound(void)
{
    run_natskv(false);
}

EXPLORE_HARNESS(explore_natskv) = {
    .name = "natskv",
    .invariant = "an operation on a cluster that loses requests and answers ends once, as it says",
    .run = run,
    .most_still_ms = 100,
};

EXPLORE_HARNESS(explore_natskv_sound) = {
    .name = "natskv-sound",
    .invariant = "the same on a cluster that answers all",
    .run = run_sound,
    .most_still_ms = 100,
};
