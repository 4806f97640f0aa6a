#include "serverk/execute/execution_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "serverk/execute/watchers.h"
#include "serverk/session/access.h"
#include "wire/change.h"

/* The most changes of one page, and those that are asked of the store at a time. */
#define PAGE_CHANGES  4096u
#define SLICE_CHANGES 128u

/* What was too big for the largest place gets another that is large enough. */
#define PAGE_TRIES 3u

/* A WATCH under way. */
struct watch_request {
    struct execution *execution;
    uint32_t files;
    uint8_t *positions; /* of all files: the operation's, as far as they were not moved on; owned */
    bool keys_only;
    bool tells_transactions;

    /* the page */
    struct write_cursor cursor;
    uint32_t changes;
    struct kvstore_position last;    /* behind the last of them */
    struct write_cursor before_last; /* the cursor without it */
    bool ends;                       /* the next one is of another log */
    bool cut;                        /* the last piece was taken out again */
    uint64_t piece;                  /* of the last of them (kvstore_change); 0: none */
    uint32_t following;              /* likewise */
    uint32_t before_piece_changes;   /* the page as it was before that piece */
    struct kvstore_position before_piece_last;
    struct write_cursor before_piece;
    size_t refused_bytes;
};

/* Whether the change is of the piece that the last change in the page is of. */
static bool continues_piece(const struct watch_request *watch, const struct kvstore_change *change)
{
    return watch->changes > 0 && change->piece != 0 && change->piece == watch->piece;
}

/* The piece of the last change does not end in this page: it is taken out again, unless the page
 * has nothing else; then the next page goes on with it. */
static void end_before_piece(struct watch_request *watch)
{
    if (watch->before_piece_changes > 0) {
        watch->cursor = watch->before_piece;
        watch->changes = watch->before_piece_changes;
        watch->last = watch->before_piece_last;
        watch->cut = true;
    } else if (watch->tells_transactions) {
        wire_change_goes_on(watch->before_last.at);
    }
}

/* Notes that a change was added, whose page was `before` without it. */
static void note_added(struct watch_request *watch, const struct kvstore_change *change,
                       const struct write_cursor *before)
{
    if (!continues_piece(watch, change)) {
        watch->piece = change->piece;
        watch->before_piece = *before;
        watch->before_piece_changes = watch->changes;
        watch->before_piece_last = watch->last;
    } else if (watch->tells_transactions) {
        wire_change_goes_on(watch->before_last.at);
    }
    watch->following = change->following;
    watch->before_last = *before;
    watch->changes++;
    watch->last = change->position;
}

/* Clients make the position behind a change of the log in the position of its page, so that a page
 * has changes of one log only. */
static bool add_change(void *context, const struct kvstore_change *change)
{
    struct watch_request *watch = context;
    if (!access_may_read(watch->execution->session->access, change->key))
        return true;
    watch->ends = watch->changes > 0 && change->position.log != watch->last.log;
    if (watch->ends)
        return false;
    struct wire_change entry = {.flags = change->kind == KVSTORE_CHANGE_DELETE ? WIRE_CHANGE_DELETED
                                         : change->kind == KVSTORE_CHANGE_EXPIRE
                                             ? WIRE_CHANGE_EXPIRED
                                             : 0,
                                .key = change->key,
                                .value = watch->keys_only ? kv_slice(NULL, 0) : change->value,
                                .version = change->version,
                                .place = change->position.place,
                                .expiry_ms = change->expiry_ms,
                                .transaction = watch->tells_transactions ? change->transaction : 0,
                                .parts = change->parts};
    struct write_cursor before = watch->cursor;
    if (wire_put_change(&watch->cursor, &entry)) {
        note_added(watch, change, &before);
        return true;
    }
    watch->refused_bytes = wire_change_size(&entry);
    if (continues_piece(watch, change))
        end_before_piece(watch);
    return false;
}

static uint8_t *position_at(const struct watch_request *watch, uint32_t file)
{
    KV_ASSERT(file < watch->files);
    return watch->positions + (size_t)file * WIRE_POSITION_BYTES;
}

static void put_position(uint8_t *at, const struct kvstore_position *position)
{
    struct wire_position wire = {position->log, position->version, position->place};
    wire_put_position(at, &wire);
}

static struct kvstore_position get_position(const uint8_t *at)
{
    struct wire_position wire;
    wire_get_position(at, &wire);
    return (struct kvstore_position){.log = wire.log, .version = wire.version, .place = wire.place};
}

/* Takes the last change out of the page if kvstore_changes has stopped before it, as where the log
 * lost bytes while it was shown: its value may be zeros. */
static void drop_void(struct watch_request *watch, const struct kvstore_position *position)
{
    const struct kvstore_position *last = &watch->last;
    bool is_behind = last->place > position->place ||
                     (last->place == position->place && last->version != position->version);
    if (watch->changes == 0 || last->log != position->log || !is_behind)
        return;
    watch->cursor = watch->before_last;
    watch->changes--;
    watch->following = 0; /* if one before it is of its piece, that says that it goes on */
}

/* Fills the page from the file, as far as there is room and time; the position moves on only over
 * what is in the page, or is not asked for. */
static enum kv_status fill_watch_page(struct watch_request *watch, uint32_t file,
                                      const struct reply_place *place)
{
    struct execution *execution = watch->execution;
    struct kvstore_position position = get_position(position_at(watch, file));
    enum kv_status status = KV_BUFFER_TOO_SMALL;
    bool at_end = false;
    watch->changes = 0;
    watch->ends = watch->cut = false;
    watch->refused_bytes = place->capacity < WIRE_POSITION_BYTES ? 1 : 0;
    if (watch->refused_bytes > 0)
        return status;
    watch->cursor = write_cursor(place->at, place->capacity);
    write_room(&watch->cursor, WIRE_POSITION_BYTES);
    do {
        status = kvstore_changes(execution->store, file, &position, execution->operation->key,
                                 SLICE_CHANGES, add_change, watch, &at_end);
    } while (status == KV_OK && !at_end && watch->refused_bytes == 0 && !watch->ends &&
             watch->changes < PAGE_CHANGES && allowance_look(&execution->allowance) == KV_OK);
    if (status == KV_IO)
        drop_void(watch, &position);
    if (status != KV_OK && watch->changes > 0 && watch->following > 0)
        end_before_piece(watch);
    if (watch->changes > 0 && (position.log != watch->last.log || watch->cut))
        position = watch->last;
    KV_ASSERT(watch->changes < PAGE_CHANGES + SLICE_CHANGES + KVSTORE_MAX_TRANSACTION_STEPS);
    put_position(position_at(watch, file), &position);
    if (watch->changes > 0)
        return KV_OK; /* what is wrong behind them comes with the next page */
    return status == KV_OK && watch->refused_bytes > 0 ? KV_BUFFER_TOO_SMALL : status;
}

/* A page of the file, if it has one, or what is wrong with it. False: there is nothing to tell. */
static bool answer_page(struct watch_request *watch, uint32_t file)
{
    struct execution *execution = watch->execution;
    struct wire_result *result = &execution->result;
    struct reply_place place = reply_largest_place(execution->reply);
    result->status = fill_watch_page(watch, file, &place);
    for (unsigned i = 0; i < PAGE_TRIES && result->status == KV_BUFFER_TOO_SMALL; i++) {
        place = reply_place(execution->reply, watch->refused_bytes + WIRE_POSITION_BYTES);
        if (place.kind == PLACE_NONE)
            break;
        result->status = fill_watch_page(watch, file, &place);
    }
    if (result->status == KV_OK && watch->changes == 0)
        return false;
    result_tell_number(result, (int64_t)file + 1);
    if (result->status == KV_OK) {
        memcpy(place.at, position_at(watch, file), WIRE_POSITION_BYTES);
        result->value = kv_slice(NULL, write_cursor_used(&watch->cursor));
        if (reply_add_placed(execution->reply, result, &place))
            return true;
        *result = (struct wire_result){.status = KV_BUFFER_TOO_SMALL};
        watch->refused_bytes = write_cursor_used(&watch->cursor);
    }
    if (result->status == KV_BUFFER_TOO_SMALL)
        result_tell_size(result, watch->refused_bytes + WIRE_POSITION_BYTES);
    add_plain(execution);
    return true;
}

/* False: no file has a page. *in_time false: not all were looked at. */
static bool answer_first_page(struct watch_request *watch, bool *in_time)
{
    struct execution *execution = watch->execution;
    *in_time = true;
    for (uint32_t i = 0; i < watch->files; i++) {
        if (answer_page(watch, (uint32_t)((execution->operation->cursor + i) % watch->files)))
            return true;
        if (i + 1 < watch->files && allowance_look(&execution->allowance) != KV_OK) {
            *in_time = false;
            return false;
        }
    }
    return false;
}

static struct kv_slice all_positions(const struct watch_request *watch)
{
    return kv_slice(watch->positions, (size_t)watch->files * WIRE_POSITION_BYTES);
}

static void answer_positions(struct watch_request *watch)
{
    result_tell_number(&watch->execution->result, 0);
    add_answer(watch->execution, all_positions(watch));
}

static void answer_status(struct watch_request *watch, enum kv_status status)
{
    watch->execution->result.status = status;
    add_plain(watch->execution);
}

/* Answers with the positions behind what there is. */
static void begin_watch_anew(struct watch_request *watch)
{
    for (uint32_t file = 0; file < watch->files; file++) {
        struct kvstore_position position;
        enum kv_status status = kvstore_changes_now(watch->execution->store, file, &position);
        if (status != KV_OK) {
            answer_status(watch, status);
            return;
        }
        put_position(position_at(watch, file), &position);
    }
    answer_positions(watch);
}

/* Returns whether the request may be answered later. */
static bool may_wait(const struct execution *execution)
{
    return execution->context->watchers && execution->operation->limit > 0 &&
           execution->request->count == 1;
}

/* First without asking to be told, which takes the locks; what comes in between is found by the
 * second look. */
static void look_and_wait(struct watch_request *watch)
{
    struct execution *execution = watch->execution;
    struct execution_context *context = execution->context;
    bool in_time;
    if (answer_first_page(watch, &in_time))
        return;
    if (context->waiting && in_time && !context->waiting_ends) {
        context->waits_on = true;
        return;
    }
    if (context->waiting || !in_time || !may_wait(execution)) {
        answer_positions(watch);
        return;
    }
    uint64_t told_before = watchers_told(context->watchers);
    for (uint32_t file = 0; file < watch->files; file++)
        kvstore_await_change(execution->store, file);
    if (answer_first_page(watch, &in_time))
        return;
    if (!in_time) { /* files that were not looked at may have changes that nobody was told of */
        answer_positions(watch);
        return;
    }
    struct kv_slice positions = all_positions(watch);
    enum kv_status status = watchers_take(context->watchers, execution->session, execution->request,
                                          execution->operation, positions, told_before);
    if (status == KV_OK)
        context->waits_on = true;
    else
        answer_status(watch, status);
}

void execute_watch(struct execution *execution)
{
    const struct wire_operation *operation = execution->operation;
    struct watch_request watch = {.execution = execution,
                                  .files = kvstore_datafiles(execution->store),
                                  .keys_only = operation->flags & WIRE_KEYS_ONLY,
                                  .tells_transactions = operation->flags & WIRE_TELL_TRANSACTIONS};
    size_t bytes = (size_t)watch.files * WIRE_POSITION_BYTES;
    enum kv_status status = take_request_value(execution);
    if (status == KV_OK && operation->value.size % WIRE_POSITION_BYTES != 0)
        status = KV_BAD_REQUEST;
    if (status != KV_OK) {
        answer_status(&watch, status);
        return;
    }
    if (operation->value.size != 0 && operation->value.size != bytes) { /* of another store */
        answer_status(&watch, KV_MISSED);
        return;
    }
    watch.positions = malloc(bytes);
    if (!watch.positions) {
        answer_status(&watch, KV_NO_MEMORY);
        return;
    }
    if (operation->value.size == 0) {
        begin_watch_anew(&watch);
    } else {
        memcpy(watch.positions, execution->value.data, bytes);
        look_and_wait(&watch);
        const struct execution_context *context = execution->context;
        if (context->waiting && context->waits_on) /* it keeps how far it has looked */
            memcpy(context->waiting, watch.positions, bytes);
    }
    free(watch.positions);
}
