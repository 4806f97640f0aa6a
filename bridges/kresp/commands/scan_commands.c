/* The commands about all keys. */
#include "common/numbers/random.h"
#include "common/text/parse.h"
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_error.h"
#include "bridges/kresp/session/redis_value.h"
#include "bridges/kresp/session/transaction_run.h"
#include "bridges/kresp/protocol/decimal.h"
#include "common/text/glob.h"

/* About how many keys one batch looks at, at least. */
#define PAGE_KEYS 256u

/* Adds the operation that reads a page of keys that begin as the pattern does. */
static void add_page(struct redis_job *job, struct kv_slice pattern, uint64_t cursor,
                     uint32_t limit)
{
    struct kv_slice prefix = pattern.data ? glob_literal_prefix(pattern) : kv_slice(NULL, 0);
    struct clientk_operation *scan = redis_job_add(job, CLIENTK_SCAN, prefix);
    scan->scan.keys_only = true;
    scan->scan.cursor = cursor;
    scan->scan.limit = limit;
}

/* Returns true if the result has entries: a page that ends at a damaged record has some, too, and
 * the scan continues behind the record. */
static bool has_entries(const struct clientk_result *result)
{
    bool damaged = result->status == KV_CORRUPT || result->status == KV_IO;
    return result->status == KV_OK || (damaged && result->value.version != 0);
}

/* Finds where the page ends: the next cursor, 0 at the end. Behind a cursor that this store never
 * gave, or a prefix that no key can have, there is nothing. False: an error was replied. */
static bool page_end(struct redis_job *job, uint64_t *next)
{
    const struct clientk_result *result = redis_job_result(job, 0);
    *next = has_entries(result) ? (uint64_t)result->number : 0;
    if (has_entries(result) || result->status == KV_USAGE || result->status == KV_BAD_REQUEST ||
        result->status == KV_BAD_KEY)
        return true;
    reply_status(redis_job_reply(job), result->status);
    return false;
}

static void read_page(const struct redis_job *job, clientk_visit visitor, void *context)
{
    if (has_entries(redis_job_result(job, 0)))
        clientk_read_page(&redis_job_result(job, 0)->value, visitor, context);
}

/* Pages of the keys that match a pattern. If all of them begin alike, and the server has an order,
 * they lie together in it: those pages are of a range, and their cursors those of scan_places. A
 * server says whether it has an order when the first page is asked for. */

enum page_phase {
    PAGE_OF_RANGE, /* if the pattern allows it */
    PAGE_OF_SCAN   /* the server has no order */
};

enum page_outcome {
    PAGE_READ,
    PAGE_REPLANNED, /* to be planned again: the phase has changed */
    PAGE_REFUSED    /* an error is the reply */
};

struct page_visit {
    struct kv_slice pattern;  /* data NULL: all keys */
    struct resp_reply *reply; /* where the keys that match go */
    uint64_t steps;           /* steps that the pattern may still take */
    size_t keys, matches;
    struct byte_buffer *last; /* where the last key goes; NULL: nowhere */
};

static bool visit_scanned_key(void *context, const struct clientk_entry *entry)
{
    struct page_visit *page = context;
    page->keys++;
    page->steps += glob_steps(entry->key.size) - glob_steps(0);
    if (page->last) {
        page->last->start = page->last->end = 0;
        byte_buffer_append(page->last, entry->key.data, entry->key.size);
    }
    if (redis_store_owns(entry->key))
        return true;
    if (page->pattern.data && !glob_matches(page->pattern, entry->key, false, &page->steps))
        return page->steps > 0;
    page->matches++;
    reply_bulk(page->reply, entry->key);
    return true;
}

static bool is_page_of_range(const struct redis_job *job, struct kv_slice pattern, uint64_t cursor)
{
    if (cursor != 0)
        return scan_places_owns(cursor);
    return job->phase == PAGE_OF_RANGE && pattern.data && glob_literal_prefix(pattern).size > 0;
}

static void plan_matching(struct redis_job *job, struct kv_slice pattern, uint64_t cursor,
                          uint32_t limit)
{
    redis_job_plan_last(job); /* each SCAN of a pipeline may take all the steps of a pattern */
    if (!is_page_of_range(job, pattern, cursor))
        add_page(job, pattern, cursor, limit);
}

static enum page_outcome refuse_page(struct redis_job *job, const char *error)
{
    redis_job_fail(job, "%s", error);
    return PAGE_REFUSED;
}

/* Replies for a range that the store did not give; or the page is to be one of a scan. */
static enum page_outcome replan_range(struct redis_job *job, uint64_t cursor, enum kv_status status)
{
    bool lacks_order = status == KV_UNSUPPORTED || status == KV_BUSY;
    if (lacks_order && cursor == 0) {
        job->phase = PAGE_OF_SCAN;
        return PAGE_REPLANNED;
    }
    if (status == KV_UNSUPPORTED)
        return refuse_page(job, "ERR invalid cursor: serverk no longer keeps the keys in order; "
                                "begin with 0 again");
    reply_status(redis_job_reply(job), status);
    return PAGE_REFUSED;
}

#define PAGE_MAX_KEYS 4096u /* of a range's message */

/* Reads the page behind the place. */
static enum page_outcome read_matching_range(struct redis_job *job, struct page_visit *page,
                                             uint64_t cursor, struct byte_buffer *place,
                                             uint32_t limit, uint64_t *next)
{
    struct redis_service *service = job->session->service;
    if (cursor != 0 && !scan_places_find(&service->scans, cursor, place))
        return refuse_page(job, place->failed ? "ERR kresp: out of memory"
                                              : "ERR invalid cursor: kresp keeps those of the last "
                                                "1024 SCANs by prefix, until it ends; begin with 0 "
                                                "again");
    const struct clientk_range range = {
        .from = byte_buffer_slice(place),
        .behind_from = cursor != 0,
        .prefix = page->pattern.data ? glob_literal_prefix(page->pattern) : kv_slice(NULL, 0),
        .keys_only = true,
        .no_wait = true,
        .page = limit < PAGE_MAX_KEYS ? limit : PAGE_MAX_KEYS,
        .limit = limit};
    page->last = place;
    enum kv_status status = redis_store_range(service->store, &range, visit_scanned_key, page);
    *next = 0;
    if (status != KV_OK && status != KV_BAD_KEY)
        return replan_range(job, cursor, status);
    if (page->keys == limit && !place->failed)
        *next = scan_places_keep(&service->scans, job->session->user->uid, cursor,
                                 byte_buffer_slice(place));
    return page->keys == limit && *next == 0 ? refuse_page(job, "ERR kresp: out of memory")
                                             : PAGE_READ;
}

/* Reads the page that plan_matching planned into page->reply, and finds the next cursor, 0 at the
 * end. */
static enum page_outcome take_page(struct redis_job *job, struct page_visit *page, uint64_t cursor,
                                   uint32_t limit, uint64_t *next)
{
    enum page_outcome outcome = PAGE_READ;
    page->reply->protocol = redis_job_reply(job)->protocol;
    page->steps = glob_steps(0);
    if (is_page_of_range(job, page->pattern, cursor)) {
        struct byte_buffer place = {.owner = job->owner};
        outcome = read_matching_range(job, page, cursor, &place, limit, next);
        byte_buffer_free(&place);
    } else if (page_end(job, next)) {
        read_page(job, visit_scanned_key, page);
    } else {
        outcome = PAGE_REFUSED;
    }
    if (outcome == PAGE_READ && page->steps == 0)
        return refuse_page(job, "ERR kresp: the pattern takes too many steps on the keys that are "
                                "here: it has long sets, or a long stretch without a star");
    if (outcome == PAGE_READ && page->reply->bytes.failed)
        return refuse_page(job, "ERR kresp: the reply is too large; use SCAN with a smaller COUNT");
    return outcome;
}

/* SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]. */

struct scan_request {
    uint64_t cursor;
    struct kv_slice pattern; /* data NULL: all keys */
    uint32_t count;
    bool nothing; /* the type that was asked for does not exist here */
};

static bool parse_scan(struct redis_job *job, struct scan_request *scan)
{
    *scan = (struct scan_request){.count = 10};
    if (!decimal_parse_cursor(job->arguments[1], &scan->cursor)) {
        redis_job_fail(job, "ERR invalid cursor");
        return false;
    }
    for (size_t i = 2; i < job->count; i += 2) {
        int64_t count;
        if (i + 1 < job->count && redis_argument_is(job, i, "COUNT")) {
            if (!redis_argument_integer(job, i + 1, &count))
                return false;
            if (count >= 1) {
                scan->count = count > 10000 ? 10000 : (uint32_t)count;
                continue;
            }
        } else if (i + 1 < job->count && redis_argument_is(job, i, "MATCH")) {
            scan->pattern = job->arguments[i + 1];
            continue;
        } else if (i + 1 < job->count && redis_argument_is(job, i, "TYPE")) {
            scan->nothing = !redis_argument_is(job, i + 1, "string");
            continue;
        }
        redis_job_fail(job, "ERR syntax error");
        return false;
    }
    return true;
}

void plan_scan(struct redis_job *job)
{
    struct scan_request scan;
    if (parse_scan(job, &scan) && !scan.nothing)
        plan_matching(job, scan.pattern, scan.cursor, scan.count);
}

/* Replies with the next cursor and the keys. */
static void reply_page(struct resp_reply *reply, uint64_t next, const struct page_visit *page)
{
    char cursor[INTEGER_BYTES];
    size_t size = format_u64(next, cursor);
    struct kv_slice keys = byte_buffer_slice(&page->reply->bytes);
    reply_array(reply, 2);
    reply_bulk(reply, kv_slice(cursor, size));
    reply_array(reply, page->matches);
    byte_buffer_append(&reply->bytes, keys.data, keys.size);
}

bool answer_scan(struct redis_job *job)
{
    struct scan_request scan;
    uint64_t next = 0;
    struct resp_reply keys = {.bytes.owner = job->owner};
    struct page_visit page = {.reply = &keys};
    enum page_outcome outcome = PAGE_READ;
    parse_scan(job, &scan);
    page.pattern = scan.pattern;
    if (!scan.nothing)
        outcome = take_page(job, &page, scan.cursor, scan.count, &next);
    if (outcome == PAGE_READ)
        reply_page(redis_job_reply(job), next, &page);
    byte_buffer_free(&keys.bytes);
    return outcome != PAGE_REPLANNED;
}

/* KEYS: pages until the end. steps: cursor, bytes (the elements of the reply), total. ---------- */

void plan_keys(struct redis_job *job)
{
    plan_matching(job, job->arguments[1], job->steps ? job->steps->cursor : 0, PAGE_KEYS);
}

bool answer_keys(struct redis_job *job)
{
    struct redis_steps *steps = redis_job_steps(job);
    if (!steps)
        return true;
    struct resp_reply keys = {.bytes = steps->bytes};
    struct page_visit page = {.pattern = job->arguments[1], .reply = &keys};
    enum page_outcome outcome = take_page(job, &page, steps->cursor, PAGE_KEYS, &steps->cursor);
    steps->bytes = keys.bytes;
    steps->total += (int64_t)page.matches;
    if (outcome != PAGE_READ)
        return outcome == PAGE_REFUSED;
    if (steps->cursor != 0)
        return false;
    reply_array(redis_job_reply(job), (size_t)steps->total);
    byte_buffer_append(&redis_job_reply(job)->bytes, steps->bytes.data + steps->bytes.start,
                       byte_buffer_size(&steps->bytes));
    return true;
}

/* RANDOMKEY: one key of a page, drawn by lot. The pages move through the store from call to call,
 * and begin at a data file that is drawn by lot. phase 1: reads a page there; 2: reads from the
 * start of the store, because nothing was behind. steps: cursor. */

#define LOT_KEYS 64u

/* A cursor at the beginning of a data file has the file's number in these bits (docs/PROTOCOL.md
 * 7.9). */
#define CURSOR_FILE_BITS 52

/* What this thread draws lots with, and where its walk is. */
static _Thread_local struct random_state lot;
static _Thread_local bool lot_is_seeded;
static _Thread_local uint64_t walk_cursor;

struct lot_visit {
    struct byte_buffer key; /* the key that is drawn so far */
    size_t keys;
};

/* Draws each of n keys with the same chance: the n-th replaces the drawn one with chance 1/n. */
static bool draw_key(void *context, const struct clientk_entry *entry)
{
    struct lot_visit *page = context;
    if (redis_store_owns(entry->key))
        return true;
    if (random_below(&lot, ++page->keys) > 0)
        return true;
    page->key.start = page->key.end = 0;
    byte_buffer_append(&page->key, entry->key.data, entry->key.size);
    return true;
}

void plan_randomkey(struct redis_job *job)
{
    redis_job_plan_last(job);
    add_page(job, kv_slice(NULL, 0), job->steps ? job->steps->cursor : 0, LOT_KEYS);
}

static bool begin_walk(struct redis_job *job)
{
    struct redis_store_figures figures = {0};
    struct redis_steps *steps = redis_job_steps(job);
    enum kv_status status = steps ? KV_OK : KV_NO_MEMORY;
    if (!lot_is_seeded)
        random_seed(&lot, random_secret());
    lot_is_seeded = true;
    if (status == KV_OK && walk_cursor == 0)
        status = redis_store_count(job->session->service->store, &figures);
    if (status != KV_OK) {
        reply_status(redis_job_reply(job), status);
        return true;
    }
    steps->cursor = walk_cursor;
    if (walk_cursor == 0 && figures.files > 0)
        steps->cursor = random_below(&lot, figures.files) << CURSOR_FILE_BITS;
    job->phase = 1;
    return false;
}

bool answer_randomkey(struct redis_job *job)
{
    struct lot_visit page = {.keys = 0};
    uint64_t next;
    if (job->phase == 0)
        return begin_walk(job);
    if (!page_end(job, &next))
        return true;
    read_page(job, draw_key, &page);
    walk_cursor = next;
    bool more = page.keys == 0 && (next != 0 || job->phase == 1);
    if (more) {
        if (next == 0)
            job->phase = 2;
        job->steps->cursor = next;
    } else if (page.keys == 0) {
        reply_null(redis_job_reply(job));
    } else {
        reply_bulk(redis_job_reply(job), byte_buffer_slice(&page.key));
    }
    byte_buffer_free(&page.key);
    return !more;
}

bool answer_dbsize(struct redis_job *job)
{
    struct redis_store_figures figures = {0};
    enum kv_status status = redis_transaction_count_store(job, &figures);
    if (status == KV_OK)
        reply_integer(redis_job_reply(job), (int64_t)figures.keys);
    else
        reply_status(redis_job_reply(job), status);
    return true;
}

/* FLUSHDB, FLUSHALL: delete page by page. phase 0: reads a page; 1: deletes its keys. steps:
 * cursor, bytes (the page's keys, each with its size before it). */

static bool keep_key(void *context, const struct clientk_entry *entry)
{
    struct byte_buffer *keys = context;
    if (redis_store_owns(entry->key))
        return true;
    byte_buffer_append(keys, &entry->key.size, sizeof entry->key.size);
    byte_buffer_append(keys, entry->key.data, entry->key.size);
    return true;
}

static void add_deletes(struct redis_job *job)
{
    struct kv_slice left = byte_buffer_slice(&job->steps->bytes);
    while (left.size > 0) {
        size_t size;
        memcpy(&size, left.data, sizeof size);
        const char *key = (const char *)left.data + sizeof size;
        redis_job_add(job, CLIENTK_DELETE, kv_slice(key, size));
        left = kv_slice(key + size, left.size - sizeof size - size);
    }
}

void plan_flush(struct redis_job *job)
{
    redis_job_plan_last(job);
    if (!job->session->service->allow_flush)
        redis_job_fail(job, "ERR kresp: %s is off; start kresp with --allow-flush",
                       job->command->name);
    else if (job->count > 2 || (job->count == 2 && !redis_argument_is(job, 1, "ASYNC") &&
                                !redis_argument_is(job, 1, "SYNC")))
        redis_job_fail(job, "ERR syntax error");
    else if (job->phase == 0)
        add_page(job, kv_slice(NULL, 0), job->steps ? job->steps->cursor : 0, PAGE_KEYS);
    else
        add_deletes(job);
}

bool answer_flush(struct redis_job *job)
{
    if (job->phase == 0) {
        struct redis_steps *steps = redis_job_steps(job);
        if (!steps || !page_end(job, &steps->cursor))
            return true;
        steps->bytes.start = steps->bytes.end = 0;
        read_page(job, keep_key, &steps->bytes);
        if (steps->bytes.failed) {
            redis_job_fail(job, "ERR kresp: out of memory");
            return true;
        }
        job->phase = 1;
        return false;
    }
    for (size_t i = 0; i < job->operations; i++)
        if (redis_job_found(job, i) == FAILED)
            return true;
    job->phase = 0;
    if (job->steps->cursor != 0)
        return false;
    tracking_table_tell_all(&job->session->service->tracking);
    reply_ok(redis_job_reply(job));
    return true;
}
