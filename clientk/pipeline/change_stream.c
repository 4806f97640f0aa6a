#include "clientk/pipeline/change_stream.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/base/handles.h"
#include "clientk/base/last_error.h"
#include "clientk/base/value_memory.h"
#include "clientk/pipeline/event_loop.h"
#include "clientk/pipeline/pipeline_state.h"
#include "clientk/pipeline/position_text.h"
#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/time/clock.h"
#include "wire/change.h"

/* How long the server may keep a request, and how much longer the client waits for the answer. */
#define WAIT_MS     10000u
#define PATIENCE_MS 5000u

/* How often the program is asked whether it wants to interrupt. */
#define LOOK_EVERY_MS 100u

struct clientk_watch {
    struct clientk_pipeline *pipeline;
    uint8_t *prefix;
    size_t prefix_bytes;
    bool keys_only;
    uint8_t *positions; /* of all data files; NULL: not known yet */
    size_t positions_bytes;
    uint32_t next_file; /* the data file whose changes are asked for first */
    bool renews;        /* the request under way asks for positions: ... */
    int64_t renewed;    /* ... of data file renewed - 1, or, if it is 0, of all */
    bool wants_renewal;
    bool missed; /* changes were: told when the new positions are there, so that none is after it */
    bool (*interrupted)(void); /* the option: it ends waits, not the request; NULL: never */

    /* What has come. */
    struct clientk_value page; /* the changes, in which the slices lie that are given out */
    struct read_cursor changes;
    uint32_t page_file;
    struct wire_position page_end;
    bool in_page;
    bool has_told; /* a change was returned; `told` is about the last */
    struct clientk_change_transaction told;
    enum kv_status status; /* to be returned by the next call; KV_OK: none */
    struct kv_error error;
};

/* Answers -------------------------------------------------------------------------------------- */

static void watch_fail(struct clientk_watch *watch, enum kv_status status, const char *sentence)
{
    watch->status = status;
    kv_error_set(&watch->error, status, "%s", sentence ? sentence : kv_status_text(status));
}

static void watch_take_positions(struct clientk_watch *watch, const struct clientk_value *value)
{
    bool sound = value->size > 0 && value->size % WIRE_POSITION_BYTES == 0;
    if (!sound ||
        (watch->positions && watch->renewed > 0 && value->size != watch->positions_bytes)) {
        watch_fail(watch, KV_IO, "the server's answer makes no sense");
        return;
    }
    size_t at = 0, size = value->size;
    if (watch->positions && watch->renews && watch->renewed > 0) {
        at = (size_t)(watch->renewed - 1) * WIRE_POSITION_BYTES;
        size = WIRE_POSITION_BYTES;
    } else if (!watch->positions || watch->positions_bytes != value->size) {
        uint8_t *grown = realloc(watch->positions, value->size);
        if (!grown) {
            watch_fail(watch, KV_NO_MEMORY, NULL);
            return;
        }
        watch->positions = grown;
        watch->positions_bytes = value->size;
    }
    memcpy(watch->positions + at, (const uint8_t *)value->data + at, size);
    watch->wants_renewal = false;
    if (watch->missed)
        watch_fail(watch, KV_MISSED,
                   "changes were missed: they are not kept any more, or were undone by a power "
                   "failure");
    watch->missed = false;
}

static void watch_take_page(struct clientk_watch *watch, const struct clientk_result *result)
{
    const struct clientk_value *value = &result->value;
    KV_ASSERT(!watch->in_page);
    if (value->size < WIRE_POSITION_BYTES ||
        (uint64_t)result->number > watch->positions_bytes / WIRE_POSITION_BYTES) {
        watch_fail(watch, KV_IO, "the server's answer makes no sense");
        return;
    }
    if (!value_reserve(&watch->page, value->size)) {
        watch_fail(watch, KV_NO_MEMORY, NULL);
        return;
    }
    memcpy(watch->page.data, value->data, value->size);
    wire_get_position(watch->page.data, &watch->page_end);
    watch->changes = read_cursor((const uint8_t *)watch->page.data + WIRE_POSITION_BYTES,
                                 value->size - WIRE_POSITION_BYTES);
    watch->page_file = (uint32_t)result->number - 1;
    watch->in_page = true;
}

/* A clientk_complete: the WATCH under way was answered. */
static void watch_answered(void *context, void *tag, const struct clientk_result *result)
{
    struct clientk_watch *watch = context;
    const struct kv_error *last_error = last_error_of_thread();
    (void)tag;
    if (result->status == KV_TIMEOUT || result->status == KV_DEADLINE)
        return; /* nothing has come: the server is asked again */
    if (result->status == KV_MISSED) {
        size_t files = watch->positions_bytes / WIRE_POSITION_BYTES;
        bool one = result->number > 0 && (uint64_t)result->number <= files;
        watch->renewed = one ? result->number : 0;
        watch->wants_renewal = watch->missed = true;
    } else if (result->status == KV_UNSUPPORTED)
        watch_fail(watch, KV_UNSUPPORTED,
                   "the server cannot tell of changes: it is of an older version, or its data are "
                   "elsewhere");
    else if (result->status != KV_OK)
        /* with the sentence of the thread, if that belongs to the status: watch_ask_and_receive has
         * cleared earlier ones */
        watch_fail(watch, result->status,
                   last_error->status == result->status ? last_error->text : NULL);
    else if (result->number == 0)
        watch_take_positions(watch, &result->value);
    else
        watch_take_page(watch, result);
    watch->renews = false;
}

/* Asking --------------------------------------------------------------------------------------- */

/* Sends a WATCH, unless one is under way. */
static enum kv_status watch_ask(struct clientk_watch *watch)
{
    struct clientk_pipeline *pipeline = watch->pipeline;
    KV_ASSERT(pipeline->pending <= 1);
    if (pipeline->pending > 0)
        return KV_OK;
    watch->renews = !watch->positions || watch->wants_renewal;
    struct wire_operation operation = {
        .opcode = WIRE_OP_WATCH,
        .flags = (watch->keys_only ? WIRE_KEYS_ONLY : 0) | WIRE_TELL_TRANSACTIONS,
        .key = kv_slice(watch->prefix, watch->prefix_bytes),
        .value =
            watch->renews ? kv_slice(NULL, 0) : kv_slice(watch->positions, watch->positions_bytes),
        .cursor = watch->next_file,
        .limit = WAIT_MS};
    return event_loop_submit(pipeline, &operation, NULL);
}

/* Moves the position of the data file of the page. */
static void watch_move_position(struct clientk_watch *watch, const struct wire_position *position)
{
    KV_ASSERT(watch->page_file < watch->positions_bytes / WIRE_POSITION_BYTES);
    wire_put_position(watch->positions + (size_t)watch->page_file * WIRE_POSITION_BYTES, position);
}

/* Finds the next change of the page. False: there is none left. */
static bool watch_next_of_page(struct clientk_watch *watch, struct clientk_change *change)
{
    struct wire_change found;
    if (!watch->in_page)
        return false;
    if (read_cursor_left(&watch->changes) == 0) {
        watch_move_position(watch, &watch->page_end);
        watch->next_file = watch->page_file + !watch->told.goes_on;
        watch->in_page = false;
        return false;
    }
    if (wire_get_change(&watch->changes, &found) != KV_OK) {
        watch->in_page = false;
        watch_fail(watch, KV_IO, "the server's answer makes no sense");
        return false;
    }
    struct wire_position position = {watch->page_end.log, found.version, found.place};
    watch_move_position(watch, &position);
    *change =
        (struct clientk_change){.kind = found.flags & WIRE_CHANGE_EXPIRED   ? CLIENTK_CHANGE_EXPIRE
                                        : found.flags & WIRE_CHANGE_DELETED ? CLIENTK_CHANGE_DELETE
                                                                            : CLIENTK_CHANGE_PUT,
                                .key = found.key,
                                .value = found.value,
                                .version = found.version,
                                .expiry_ms = found.expiry_ms};
    watch->has_told = true;
    watch->told = (struct clientk_change_transaction){.number = found.transaction,
                                                      .parts = found.parts,
                                                      .goes_on = found.flags & WIRE_CHANGE_GOES_ON};
    return true;
}

/* Returns the status that is to be returned, and clears it. */
static enum kv_status watch_take_status(struct clientk_watch *watch)
{
    enum kv_status status = watch->status;
    *last_error_of_thread() = watch->error;
    watch->status = KV_OK;
    return status;
}

/* Waits for the descriptor until until_ms, but no longer than LOOK_EVERY_MS. */
static void watch_wait(const struct clientk_watch *watch, uint64_t until_ms)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    uint64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    struct pollfd ready = {.fd = event_loop_descriptor(watch->pipeline), .events = POLLIN};
    poll(&ready, 1, (int)(left_ms < LOOK_EVERY_MS ? left_ms : LOOK_EVERY_MS));
}

static enum kv_status watch_check_use(const struct clientk_watch *watch)
{
    struct kv_error *error = last_error_of_thread();
    if (!watch)
        return kv_error_set(error, KV_USAGE, "NULL was given as the watch");
    if (watch->pipeline->fork_generation != handles_fork_generation())
        return kv_error_set(error, KV_USAGE, "the watch belongs to the parent process");
    return KV_OK;
}

/* Returns true if there is a change or a status to return. */
static bool watch_has_news(const struct clientk_watch *watch)
{
    return watch->in_page || watch->status != KV_OK;
}

static enum kv_status watch_ask_and_receive(struct clientk_watch *watch)
{
    last_error_of_thread()->status = KV_OK;
    enum kv_status status = watch_ask(watch);
    return status == KV_OK ? event_loop_run(watch->pipeline) : status;
}

/* Does what can be done without waiting. When this function returns KV_OK and has no news, a
 * request is under way: without one the descriptor would not tell of the next change. */
static enum kv_status watch_advance(struct clientk_watch *watch)
{
    enum kv_status status = watch_ask_and_receive(watch);
    bool told_nothing = watch->pipeline->pending == 0 && !watch_has_news(watch);
    return status == KV_OK && told_nothing ? watch_ask_and_receive(watch) : status;
}

enum kv_status clientk_watch_next(struct clientk_watch *watch, int timeout_ms,
                                  struct clientk_change *change)
{
    enum kv_status status = watch_check_use(watch);
    uint64_t until_ms =
        timeout_ms < 0 ? UINT64_MAX : clock_monotonic_coarse_ms() + (uint64_t)timeout_ms;
    *change = (struct clientk_change){0};
    while (status == KV_OK) {
        if (watch_next_of_page(watch, change))
            return KV_OK;
        if (watch->status != KV_OK)
            return watch_take_status(watch);
        status = watch_advance(watch);
        if (status != KV_OK || watch_has_news(watch))
            continue;
        if (clock_monotonic_coarse_ms() >= until_ms || (watch->interrupted && watch->interrupted()))
            return kv_error_set(last_error_of_thread(), KV_TIMEOUT, "no change came in time");
        watch_wait(watch, until_ms);
    }
    return last_error_explain(last_error_of_thread(), status);
}

enum kv_status clientk_watch_transaction(const struct clientk_watch *watch,
                                         struct clientk_change_transaction *transaction)
{
    enum kv_status status = watch_check_use(watch);
    *transaction = (struct clientk_change_transaction){0};
    if (status == KV_OK && !watch->has_told)
        return kv_error_set(last_error_of_thread(), KV_USAGE, "the watch has returned no change");
    if (status == KV_OK)
        *transaction = watch->told;
    return status;
}

int clientk_watch_fd(struct clientk_watch *watch)
{
    return watch_check_use(watch) == KV_OK ? event_loop_descriptor(watch->pipeline) : -1;
}

enum kv_status clientk_watch_position(struct clientk_watch *watch, struct clientk_value *text)
{
    enum kv_status status = watch_check_use(watch);
    if (status != KV_OK)
        return status;
    text->size = 0;
    if (!value_reserve(text, position_text_bytes(watch->positions_bytes)))
        return kv_error_set(last_error_of_thread(), KV_NO_MEMORY, "no memory for a position");
    text->size = position_text_write(watch->positions, watch->positions_bytes, text->data);
    return KV_OK;
}

/* Opening -------------------------------------------------------------------------------------- */

static void free_watch(struct clientk_watch *watch)
{
    if (watch->pipeline)
        pipeline_drop(watch->pipeline);
    free(watch->prefix);
    free(watch->positions);
    clientk_value_free(&watch->page);
    free(watch);
}

void clientk_watch_close(struct clientk_watch *watch)
{
    if (watch)
        free_watch(watch);
}

/* Copies the options into the watch. */
static enum kv_status watch_take_options(struct clientk_watch *watch,
                                         const struct clientk_watch_options *options,
                                         struct kv_error *error)
{
    watch->keys_only = options->keys_only;
    watch->prefix_bytes = options->prefix.size;
    watch->prefix = malloc(options->prefix.size + 1);
    if (!watch->prefix)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a watch");
    if (options->prefix.size > 0)
        memcpy(watch->prefix, options->prefix.data, options->prefix.size);
    if (!options->since)
        return KV_OK;
    if (!position_text_read(options->since, &watch->positions, &watch->positions_bytes))
        return kv_error_set(error, KV_USAGE,
                            "since: not a position that clientk_watch_position gave");
    return KV_OK;
}

/* Waits for the first positions, those of now. */
static enum kv_status watch_await_positions(struct clientk_watch *watch, struct kv_error *error)
{
    uint64_t until_ms = clock_monotonic_coarse_ms() + watch->pipeline->settings.timeout_ms;
    enum kv_status status = KV_OK;
    while (status == KV_OK && !watch->positions) {
        status = watch_ask_and_receive(watch);
        if (status == KV_OK && watch->status != KV_OK)
            status = watch_take_status(watch);
        else if (status == KV_OK && !watch->positions &&
                 client_settings_time_is_over(&watch->pipeline->settings, until_ms))
            status = KV_TIMEOUT;
        else if (status == KV_OK && !watch->positions)
            watch_wait(watch, until_ms);
    }
    last_error_explain(last_error_of_thread(), status);
    if (status != KV_OK && error)
        *error = *last_error_of_thread();
    return status;
}

/* Sends the first request for changes. From now on a request is under way until it is answered, or
 * for longer than the server may keep it; what interrupts the waits of the program does not end the
 * request. */
static enum kv_status watch_begin_to_follow(struct clientk_watch *watch)
{
    struct client_settings *settings = &watch->pipeline->settings;
    if (settings->timeout_ms < WAIT_MS + PATIENCE_MS)
        settings->timeout_ms = WAIT_MS + PATIENCE_MS;
    watch->interrupted = settings->interrupted;
    settings->interrupted = NULL;
    enum kv_status status = watch_advance(watch);
    if (watch_has_news(watch)) /* already: no descriptor would tell */
        event_loop_wake(watch->pipeline);
    return last_error_explain(last_error_of_thread(), status);
}

enum kv_status change_stream_open(struct pipeline_list *list,
                                  const struct client_settings *settings,
                                  const struct clientk_watch_options *options,
                                  struct clientk_watch **watch, struct kv_error *error)
{
    struct clientk_watch *created = calloc(1, sizeof *created);
    if (!created)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for a watch");
    struct pipeline_sizes sizes = {.window = 1, .batch = 1};
    enum kv_status status = watch_take_options(created, options, error);
    if (status == KV_OK)
        status = pipeline_open(list, settings, sizes, watch_answered, created, &created->pipeline,
                               error);
    if (status == KV_OK)
        status = event_loop_open(created->pipeline, error);
    if (status == KV_OK && !created->positions)
        status = watch_await_positions(created, error);
    if (status == KV_OK)
        status = watch_begin_to_follow(created);
    if (status != KV_OK) {
        free_watch(created);
        return status;
    }
    *watch = created;
    return KV_OK;
}
