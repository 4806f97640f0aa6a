/*
 * RANGE, RANGE_COUNT and RANGE_DELETE. A range is cut to what the user may read: it is walked
 * part by part of what that is (all, of users without a rule), each with a call of the engine,
 * which holds the locks of all data files for some thousand entries at most.
 */
#include <string.h>

#include "common/memory/copy.h"
#include "serverk/execute/execution_internal.h"
#include "serverk/execute/scan_page.h"
#include "serverk/session/access.h"
#include "wire/range_value.h"

/* As many places as are tried for a page (inquiries.c). */
#define PAGE_TRIES 3u

/* A deletion is not interrupted: so it has fewer entries than a page. */
#define DELETE_DEFAULT_LIMIT 256u
#define DELETE_MAX_LIMIT     1024u
#define DELETE_KEYS_BYTES    (256u << 10)

/* What context->found is used for: the key that was looked at last; a prefix of the user's rule, or
 * the keys that are to be deleted. */
#define LAST_BYTES (WIRE_MAX_KEY_BYTES + 1u)

_Static_assert(LAST_BYTES > KVSTORE_MAX_KEY_BYTES, "room for any key");

static const char no_order[] = "the keys of this store have no order: start serverk with --ordered";
static const char being_built[] = "the order of the keys is still being built";

/* A range on its way. */
struct range_run {
    struct execution *execution;
    struct kvstore_range range; /* as asked for */
    struct access_part user_part;
    enum kv_status bad; /* KV_CORRUPT, KV_IO: something was left out; */
    uint32_t bad_file;  /* the first such record */
    uint64_t bad_offset;
    bool more;
    struct kv_slice last; /* behind which the range goes on; empty: behind what was given */
};

/* Returns the operation's value, which nobody else changes. */
static enum kv_status take_range_bounds(struct execution *execution,
                                        struct wire_range_bounds *bounds)
{
    struct execution_context *context = execution->context;
    enum kv_status status = take_request_value(execution);
    if (status != KV_OK)
        return status;
    struct kv_slice value = execution->value;
    if ((execution->operation->flags & WIRE_VALUE_IN_SEGMENT) && value.data != context->incoming) {
        if (value.size > context->buffer_bytes)
            return KV_BAD_REQUEST;
        copy_bytes(context->incoming, value.data, value.size);
        value.data = context->incoming;
    }
    return wire_get_range_bounds(value, bounds);
}

/* Begins with the range that the operation names. */
static enum kv_status begin_run(struct range_run *run, struct execution *execution, uint32_t *limit)
{
    struct wire_range_bounds bounds;
    enum kv_status status = take_range_bounds(execution, &bounds);
    if (status != KV_OK)
        return status;
    *run = (struct range_run){.execution = execution,
                              .range = {.from = execution->operation->key,
                                        .to = bounds.to,
                                        .prefix = bounds.prefix,
                                        .behind_from = bounds.way & WIRE_RANGE_BEHIND,
                                        .reverse = bounds.way & WIRE_RANGE_REVERSE,
                                        .last = execution->context->found}};
    *limit = bounds.limit;
    return KV_OK;
}

/* The part ends where the user's does, if that is within it. */
static void cut_to_edge(struct kvstore_range *part, struct kv_slice edge)
{
    if (edge.size == 0)
        return;
    if (part->reverse && (part->to.size == 0 || access_compare_keys(edge, part->to) < 0))
        part->to = edge;
    if (!part->reverse && access_compare_keys(edge, part->from) > 0) {
        part->from = edge;
        part->behind_from = false;
    }
}

/* Goes on with the part of the range that the user may read next. False: there is no other. */
static bool next_part(struct range_run *run, struct kvstore_range *part)
{
    struct execution *execution = run->execution;
    uint8_t *room = execution->context->found + LAST_BYTES;
    struct access_part *user_part = &run->user_part;
    do {
        if (!access_next_part(execution->session->access, run->range.reverse, room, user_part))
            return false;
        *part = run->range;
        if (kv_slice_has_prefix(user_part->prefix, part->prefix))
            part->prefix = user_part->prefix;
    } while (!kv_slice_has_prefix(part->prefix, user_part->prefix));
    cut_to_edge(part, user_part->edge);
    return true;
}

/* Walks a part. False: the range ends here, for a failure that *status is, or since it goes on. */
static bool walk_part(struct range_run *run, const struct kvstore_range *part, kvstore_visit visit,
                      void *context, struct kvstore_range_result *result, enum kv_status *status)
{
    *status = kvstore_range(run->execution->store, part, visit, context, result);
    bool left_out = (*status == KV_CORRUPT || *status == KV_IO) && result->bad_offset != 0;
    if (left_out && run->bad == KV_OK) {
        run->bad = *status;
        run->bad_file = result->bad_file;
        run->bad_offset = result->bad_offset;
    }
    if (left_out)
        *status = KV_OK;
    run->more = result->more;
    run->last = kv_slice(part->last, result->last_bytes);
    return *status == KV_OK && !run->more;
}

/* Adds a result without value; if there is a sentence about the failure, that is it. */
static void fail_range(struct execution *execution, enum kv_status status)
{
    const char *sentence = status == KV_UNSUPPORTED ? no_order
                           : status == KV_BUSY      ? being_built
                                                    : "";
    execution->result.status = status;
    if (*sentence)
        add_answer(execution, kv_slice_from_string(sentence));
    else
        add_plain(execution);
}

/* What the result says of the records that were left out. */
static void tell_left_out(struct range_run *run, uint64_t count)
{
    struct wire_result *result = &run->execution->result;
    uint64_t file = 0;
    result->status = run->bad;
    if (run->bad != KV_OK) {
        result_tell_version(result, run->bad_offset);
        file = (uint64_t)run->bad_file << WIRE_RANGE_FILE_SHIFT;
    }
    result_tell_number(result, (int64_t)(count | file));
}

/* RANGE ---------------------------------------------------------------------------------------- */

/* Notes behind which key the range goes on, if only what has expired was met. */
static enum kv_status add_passed(struct range_run *run, struct scan_page *page)
{
    struct wire_scan_entry passed = {.key = run->last, .passed = true};
    if (!run->more || run->last.size == 0 || page->entries > 0 ||
        wire_put_scan_entry(&page->cursor, &passed))
        return KV_OK;
    page->refused_bytes = wire_scan_entry_size(&passed);
    return KV_BUFFER_TOO_SMALL;
}

static enum kv_status fill_range_page(struct range_run *run, struct scan_page *page, uint32_t limit)
{
    struct kvstore_range part;
    struct kvstore_range_result result;
    enum kv_status status = KV_OK;
    while (!run->more && next_part(run, &part)) {
        part.max_entries = limit - page->entries;
        if (part.max_entries == 0)
            run->more = true; /* perhaps, below another prefix of the user */
        else if (!walk_part(run, &part, scan_page_add, page, &result, &status))
            break;
    }
    if (status == KV_OK && page->refused_bytes > 0 && page->entries == 0)
        return KV_BUFFER_TOO_SMALL;
    return status == KV_OK ? add_passed(run, page) : status;
}

/* All of it, or nothing. */
static enum kv_status fill_whole(struct range_run *run, struct scan_page *page)
{
    struct kvstore_range part;
    struct kvstore_range_result result;
    enum kv_status status = KV_OK;
    while (next_part(run, &part) &&
           walk_part(run, &part, scan_page_add_or_measure, page, &result, &status))
        ;
    if (status == KV_OK && run->bad != KV_OK)
        return run->bad;
    if (status == KV_OK && run->more)
        return KV_LIMIT;
    if (status == KV_OK && page->refused_bytes > 0) {
        page->refused_bytes += write_cursor_used(&page->cursor);
        return KV_BUFFER_TOO_SMALL;
    }
    return status;
}

static enum kv_status fill_place(struct execution *execution, struct range_run *run,
                                 struct scan_page *page, const struct reply_place *place)
{
    struct wire_operation limited = *execution->operation;
    enum kv_status status = begin_run(run, execution, &limited.limit);
    if (status != KV_OK)
        return status;
    scan_page_begin(page, &limited, NULL, place->at, place->capacity);
    return limited.flags & WIRE_ATOMIC ? fill_whole(run, page)
                                       : fill_range_page(run, page, scan_page_limit(&limited));
}

void execute_range(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct range_run run;
    struct scan_page page = {.entries = 0};
    struct reply_place place = reply_largest_place(execution->reply);
    enum kv_status status = fill_place(execution, &run, &page, &place);
    for (unsigned i = 0; i < PAGE_TRIES && status == KV_BUFFER_TOO_SMALL; i++) {
        place = reply_place(execution->reply, page.refused_bytes);
        if (place.kind == PLACE_NONE)
            break;
        status = fill_place(execution, &run, &page, &place);
    }
    if (status == KV_OK) {
        size_t used = write_cursor_used(&page.cursor);
        tell_left_out(&run, run.more);
        result->value = kv_slice(NULL, used);
        if (reply_add_placed(execution->reply, result, &place))
            return;
        *result = (struct wire_result){.status = KV_OK};
        page.refused_bytes = used;
        status = KV_BUFFER_TOO_SMALL;
    }
    if (status == KV_BUFFER_TOO_SMALL)
        result_tell_size(result, page.refused_bytes);
    fail_range(execution, status);
}

/* RANGE_COUNT ---------------------------------------------------------------------------------- */

/* Has the part begin behind the key that was looked at last. */
static void go_on_behind_last(const struct range_run *run, struct kvstore_range *part)
{
    if (part->reverse) {
        part->to = run->last;
    } else {
        part->from = run->last;
        part->behind_from = true;
    }
}

static enum kv_status count_parts(struct range_run *run, uint64_t *count)
{
    struct kvstore_range part;
    struct kvstore_range_result result;
    enum kv_status status = KV_OK;
    while (!run->more && status == KV_OK && next_part(run, &part)) {
        while (!walk_part(run, &part, NULL, NULL, &result, &status) && status == KV_OK &&
               allowance_look(&run->execution->allowance) == KV_OK) {
            *count += result.visited;
            go_on_behind_last(run, &part);
        }
        *count += result.visited;
    }
    return status;
}

void execute_range_count(struct execution *execution)
{
    struct range_run run;
    uint64_t count = 0;
    uint32_t limit; /* means nothing */
    enum kv_status status = begin_run(&run, execution, &limit);
    if (status == KV_OK)
        status = count_parts(&run, &count);
    if (status != KV_OK) {
        fail_range(execution, status);
        return;
    }
    tell_left_out(&run, count);
    add_answer(execution, run.more ? run.last : kv_slice(NULL, 0));
}

/* RANGE_DELETE --------------------------------------------------------------------------------- */

/* The keys of one step, each with its size before it. */
struct doomed_range {
    uint8_t *keys;
    size_t used, room;
    struct kv_slice last;
};

/* A kvstore_visit. */
static bool keep_doomed_key(void *context, const struct kvstore_scanned *entry)
{
    struct doomed_range *doomed = context;
    uint16_t size = (uint16_t)entry->key.size;
    uint8_t *at = doomed->keys + doomed->used;
    if (doomed->used + sizeof size + size > doomed->room)
        return false;
    memcpy(at, &size, sizeof size);
    memcpy(at + sizeof size, entry->key.data, size);
    doomed->last = kv_slice(at + sizeof size, size);
    doomed->used += sizeof size + size;
    return true;
}

/* Finds the keys that are to be deleted, and the place in the reply for that behind which the range
 * goes on. Nothing has changed if it is not KV_OK. */
static enum kv_status find_doomed_keys(struct range_run *run, struct doomed_range *doomed,
                                       struct reply_place *place)
{
    struct execution *execution = run->execution;
    const struct execution_context *context = execution->context;
    struct kvstore_range_result found;
    struct kvstore_range range;
    uint32_t limit;
    enum kv_status status = begin_run(run, execution, &limit);
    if (status != KV_OK)
        return status;
    range = run->range;
    if (!access_may_write_range(execution->session->access, range.from, range.to, range.prefix))
        return KV_DENIED;
    range.keys_only = true;
    range.max_entries = limit == 0                 ? DELETE_DEFAULT_LIMIT
                        : limit < DELETE_MAX_LIMIT ? limit
                                                   : DELETE_MAX_LIMIT;
    size_t room = context->buffer_bytes - LAST_BYTES;
    *doomed = (struct doomed_range){.keys = context->found + LAST_BYTES,
                                    .room = room < DELETE_KEYS_BYTES ? room : DELETE_KEYS_BYTES};
    walk_part(run, &range, keep_doomed_key, doomed, &found, &status);
    if (run->last.size == 0)
        run->last = doomed->last;
    if (!run->more)
        run->last.size = 0;
    if (status != KV_OK)
        return status;
    *place = reply_place(execution->reply, run->last.size);
    if (place->kind != PLACE_NONE)
        return KV_OK;
    result_tell_size(&execution->result, run->last.size);
    return KV_BUFFER_TOO_SMALL;
}

/* Deletes the keys; what somebody else has deleted meanwhile does not count. */
static enum kv_status delete_doomed_keys(struct execution *execution,
                                         const struct doomed_range *doomed, uint64_t *deleted)
{
    struct access_user *user = execution->session->access;
    enum kv_status status = KV_OK;
    uint64_t record_bytes = 0;
    uint16_t size;
    for (size_t at = 0; at < doomed->used && status == KV_OK; at += sizeof size + size) {
        memcpy(&size, doomed->keys + at, sizeof size);
        struct kv_slice key = kv_slice(doomed->keys + at + sizeof size, size);
        status = user ? access_check_key(user, key, true) : KV_OK;
        if (status == KV_OK)
            status = kvstore_delete(execution->store, key, 0, &execution->written);
        if (status == KV_OK) {
            see_to_durability(execution, execution->written.ticket);
            record_bytes += execution->written.record_bytes;
            *deleted += 1;
        } else if (status == KV_NOT_FOUND) {
            status = KV_OK;
        }
    }
    execution->written.record_bytes = record_bytes;
    return status;
}

void execute_range_delete(struct execution *execution)
{
    struct wire_result *result = &execution->result;
    struct range_run run = {.execution = execution};
    struct doomed_range doomed;
    struct reply_place place;
    uint64_t deleted = 0;
    enum kv_status status = find_doomed_keys(&run, &doomed, &place);
    if (status != KV_OK) {
        fail_range(execution, status);
        return;
    }
    status = delete_doomed_keys(execution, &doomed, &deleted);
    tell_left_out(&run, deleted);
    if (status != KV_OK) {
        *result = (struct wire_result){.status = status};
        result_tell_number(result, (int64_t)deleted);
        add_plain(execution);
        return;
    }
    copy_bytes(place.at, run.last.data, run.last.size);
    result->value = kv_slice(NULL, run.last.size);
    if (reply_add_placed(execution->reply, result, &place))
        return;
    result->status = KV_IO; /* deleted, but the window does not take the key */
    result_tell_size(result, run.last.size);
    add_plain(execution);
}
