#include "bridges/cluster/mirror/copy_page.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"

/* The time limit of an operation; then it is tried again, unless the mirror ends. */
#define PATIENCE_MS 4000u

/* The shortest time between two tries of what was not taken. */
#define AGAIN_MIN_MS 100u
#define AGAIN_MAX_MS 2000u
#define STOP_LOOK_MS 50u

struct copy_item {
    struct engine_operation operation;
    struct copy_page *page;
    uint8_t *bytes; /* key, then value */
    void *old;      /* the value that the key had in the cluster, which nobody needs */
    bool written;
    bool together; /* to be written with others of its shard */
    uint32_t shard;
    struct copy_group *group; /* with which it is written now; NULL: alone */
};

/* What is written as one transaction: keys of one shard. */
struct copy_group {
    struct engine_operation operation;
    struct kvstore_transaction transaction;
    struct copy_page *page;
    unsigned first; /* of its places in the page's steps, results and grouped */
};

struct copy_page {
    const atomic_bool *stop;
    copy_page_shard *shard_of;
    unsigned count;
    unsigned together; /* how many items are */
    bool takes_again;  /* copy_page_take_again */
    size_t bytes;
    struct copy_item items[COPY_PAGE_ITEMS];

    unsigned groups;
    struct copy_group group[COPY_PAGE_TOGETHER / 2];
    struct kvstore_step steps[COPY_PAGE_TOGETHER];
    struct kvstore_step_result results[COPY_PAGE_TOGETHER];
    struct copy_item *grouped[COPY_PAGE_TOGETHER];

    pthread_mutex_t lock;
    pthread_cond_t done;
    unsigned under_way; /* covered by `lock` */

    _Atomic uint64_t written, refused, repeats;
    atomic_bool stuck, was_dissolved;
};

struct copy_page *copy_page_create(const atomic_bool *stop, copy_page_shard *shard_of)
{
    struct copy_page *page = calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->stop = stop;
    page->shard_of = shard_of;
    pthread_mutex_init(&page->lock, NULL);
    pthread_cond_init(&page->done, NULL);
    return page;
}

void copy_page_clear(struct copy_page *page)
{
    for (unsigned i = 0; i < page->count; i++)
        free(page->items[i].bytes);
    page->count = page->together = 0;
    page->takes_again = false;
    page->bytes = 0;
}

void copy_page_free(struct copy_page *page)
{
    if (!page)
        return;
    copy_page_clear(page);
    pthread_cond_destroy(&page->done);
    pthread_mutex_destroy(&page->lock);
    free(page);
}

/* Filling -------------------------------------------------------------------------------------- */

static struct copy_item *find_copy_item(struct copy_page *page, struct kv_slice key)
{
    for (unsigned i = 0; i < page->count; i++) {
        struct kv_slice other = page->items[i].operation.key;
        if (other.size == key.size && memcmp(other.data, key.data, key.size) == 0)
            return &page->items[i];
    }
    return NULL;
}

static bool fill_copy_item(struct copy_item *item, struct kv_slice key,
                           const struct kv_slice *value, uint64_t expiry_ms)
{
    size_t value_bytes = value ? value->size : 0;
    uint8_t *bytes = malloc(key.size + value_bytes + 1);
    if (!bytes)
        return false;
    memcpy(bytes, key.data, key.size);
    if (value_bytes > 0)
        memcpy(bytes + key.size, value->data, value_bytes);
    free(item->bytes);
    item->bytes = bytes;
    item->written = false;
    item->operation = (struct engine_operation){.opcode = value ? ENGINE_EXCHANGE : ENGINE_DELETE,
                                                .key = kv_slice(bytes, key.size),
                                                .value = kv_slice(bytes + key.size, value_bytes),
                                                .put = {.expiry_ms = expiry_ms}};
    return true;
}

bool copy_page_takes(const struct copy_page *page, uint32_t changes)
{
    return page->count == 0 ||
           (page->count + changes <= COPY_PAGE_ITEMS &&
            page->together + changes <= COPY_PAGE_TOGETHER && page->bytes < COPY_PAGE_MOST_BYTES);
}

void copy_page_take_again(struct copy_page *page)
{
    page->takes_again = true;
}

bool copy_page_has_transactions(const struct copy_page *page)
{
    return page->together > 0;
}

bool copy_page_add(struct copy_page *page, struct kv_slice key, const struct kv_slice *value,
                   uint64_t expiry_ms, bool together)
{
    size_t bytes = key.size + (value ? value->size : 0);
    bool has_room = together || page->takes_again || page->bytes + bytes <= COPY_PAGE_MOST_BYTES;
    if (page->count > 0 && !has_room)
        return false;
    struct copy_item *known = find_copy_item(page, key);
    if (!known && page->count == COPY_PAGE_ITEMS)
        return false;
    struct copy_item *item = known ? known : &page->items[page->count];
    if (together && !(known && known->together) && page->together == COPY_PAGE_TOGETHER)
        return false;
    if (!known)
        *item = (struct copy_item){.page = page};
    if (!fill_copy_item(item, key, value, expiry_ms))
        return false;
    page->bytes += bytes;
    page->count += !known;
    page->together += together && !item->together;
    item->together |= together;
    return true;
}

/* Sending -------------------------------------------------------------------------------------- */

/* Gives room for the old value: a kvstore_place. */
static void *place_old(void *context, size_t bytes)
{
    struct copy_item *item = context;
    free(item->old);
    item->old = malloc(bytes + 1);
    return item->old;
}

static void one_is_done(struct copy_page *page)
{
    pthread_mutex_lock(&page->lock);
    if (--page->under_way == 0)
        pthread_cond_signal(&page->done);
    pthread_mutex_unlock(&page->lock);
}

static void item_done(struct engine_operation *operation)
{
    struct copy_item *item = operation->context;
    free(item->old);
    item->old = NULL;
    one_is_done(item->page);
}

static void group_done(struct engine_operation *operation)
{
    struct copy_group *group = operation->context;
    one_is_done(group->page);
}

static bool waits_for_group(const struct copy_item *item)
{
    return !item->written && item->together && !item->group;
}

/* Adds the item to the group, as its next step. */
static void join_group(struct copy_group *group, struct copy_item *item, unsigned at)
{
    const struct engine_operation *operation = &item->operation;
    bool is_put = operation->opcode != ENGINE_DELETE;
    struct copy_page *page = group->page;
    page->grouped[at] = item;
    page->steps[at] = (struct kvstore_step){.kind = is_put ? KVSTORE_STEP_PUT : KVSTORE_STEP_DELETE,
                                            .key = operation->key,
                                            .value = operation->value,
                                            .expiry_ms = operation->put.expiry_ms};
    group->transaction.then_count++;
    item->group = group;
}

/* Makes groups of the items that are to be written together and lie in one shard; one that is alone
 * there is written alone. */
static void make_groups(struct copy_page *page, const struct store_engine *engine)
{
    unsigned used = 0;
    page->groups = 0;
    for (unsigned i = 0; i < page->count; i++) {
        page->items[i].group = NULL;
        if (page->items[i].together)
            page->items[i].shard = page->shard_of(engine, page->items[i].operation.key);
    }
    for (unsigned i = 0; i < page->count; i++) {
        uint32_t shard = page->items[i].shard;
        unsigned others = 0;
        for (unsigned j = i + 1; j < page->count && waits_for_group(&page->items[i]); j++)
            others += waits_for_group(&page->items[j]) && page->items[j].shard == shard;
        if (others == 0)
            continue;
        struct copy_group *group = &page->group[page->groups++];
        *group = (struct copy_group){.page = page, .first = used};
        for (unsigned j = i; j < page->count; j++)
            if (waits_for_group(&page->items[j]) && page->items[j].shard == shard)
                join_group(group, &page->items[j], used++);
    }
}

static void submit_group(struct copy_group *group, struct store_engine *engine,
                         uint64_t deadline_ms)
{
    struct copy_page *page = group->page;
    group->transaction.then = &page->steps[group->first];
    group->operation = (struct engine_operation){.opcode = ENGINE_TRANSACT,
                                                 .after_reading = true,
                                                 .transaction = &group->transaction,
                                                 .results = &page->results[group->first],
                                                 .deadline_ms = deadline_ms,
                                                 .context = group,
                                                 .done = group_done};
    engine->calls->submit(engine, &group->operation);
}

static void submit_unwritten(struct copy_page *page, struct store_engine *engine)
{
    make_groups(page, engine);
    unsigned count = page->groups;
    for (unsigned i = 0; i < page->count; i++)
        count += !page->items[i].written && !page->items[i].group;
    page->under_way = count; /* no other thread looks at it yet */
    uint64_t deadline_ms = clock_monotonic_coarse_ms() + PATIENCE_MS;
    for (unsigned i = 0; i < page->groups; i++)
        submit_group(&page->group[i], engine, deadline_ms);
    for (unsigned i = 0; i < page->count; i++) {
        struct copy_item *item = &page->items[i];
        if (item->written || item->group)
            continue;
        item->operation.deadline_ms = deadline_ms;
        item->operation.sentence = NULL;
        item->operation.context = item;
        item->operation.place = place_old;
        item->operation.done = item_done;
        engine->calls->submit(engine, &item->operation);
    }
    pthread_mutex_lock(&page->lock);
    while (page->under_way > 0)
        pthread_cond_wait(&page->done, &page->lock);
    pthread_mutex_unlock(&page->lock);
}

/* Removes what the key has in the cluster, since the cluster will never take its new value. */
static void remove_refused_key(struct copy_page *page, struct copy_item *item,
                               enum kv_status status)
{
    if (atomic_fetch_add(&page->refused, 1) == 0)
        log_warn("mirror: the cluster does not take a key of %zu bytes with a value of %zu (%s): "
                 "the copy is without it (logged once; stats count them)",
                 item->operation.key.size, item->operation.value.size, kv_status_text(status));
    item->written = status == KV_BAD_KEY || item->operation.opcode == ENGINE_DELETE;
    item->operation.opcode = ENGINE_DELETE;
    item->operation.value = kv_slice(NULL, 0);
}

/* The cluster will not take the items of the group together: they are written one by one. */
static void dissolve_group(struct copy_group *group, enum kv_status status)
{
    if (atomic_exchange(&group->page->was_dissolved, true) == false)
        log_warn("mirror: the cluster does not take keys of a transaction together (%s): they are "
                 "written one by one (logged once)",
                 group->operation.sentence ? group->operation.sentence : kv_status_text(status));
    for (uint32_t i = 0; i < group->transaction.then_count; i++)
        group->page->grouped[group->first + i]->together = false;
}

/* Notes the outcome of a transaction. Returns true if it was taken; else *failed is it, if it is to
 * be tried as it is. */
static bool note_group(struct copy_group *group, const struct engine_operation **failed)
{
    struct copy_page *page = group->page;
    const struct kvstore_transacted *told = &group->operation.transacted;
    enum kv_status status = group->operation.status;
    bool is_about_one = !told->in_guard && told->at < group->transaction.then_count;
    if (status == KV_OK) {
        for (uint32_t i = 0; i < group->transaction.then_count; i++)
            page->grouped[group->first + i]->written = true;
        atomic_fetch_add(&page->written, group->transaction.then_count);
        return true;
    }
    if ((status == KV_BAD_KEY || status == KV_VALUE_TOO_BIG) && is_about_one)
        remove_refused_key(page, page->grouped[group->first + told->at], status);
    else if (status == KV_BAD_KEY || status == KV_VALUE_TOO_BIG || status == KV_UNSUPPORTED ||
             status == KV_LIMIT)
        dissolve_group(group, status);
    else
        *failed = &group->operation;
    return false;
}

/* Notes the outcome of each operation. Returns true if all were taken; else *failed is one that was
 * not. */
static bool note_outcomes(struct copy_page *page, const struct engine_operation **failed)
{
    bool all = true;
    for (unsigned i = 0; i < page->groups; i++)
        all &= note_group(&page->group[i], failed);
    for (unsigned i = 0; i < page->count; i++) {
        struct copy_item *item = &page->items[i];
        enum kv_status status = item->operation.status;
        if (item->written || item->group)
            continue;
        if (status == KV_OK || status == KV_NOT_FOUND) {
            item->written = true;
            atomic_fetch_add(&page->written, 1);
        } else if (status == KV_BAD_KEY || status == KV_VALUE_TOO_BIG) {
            remove_refused_key(page, item, status);
            all &= item->written;
        } else {
            *failed = &item->operation;
            all = false;
        }
    }
    return all;
}

static void log_if_stuck(struct copy_page *page, const struct engine_operation *failed)
{
    if (!failed == !atomic_load(&page->stuck))
        return;
    atomic_store(&page->stuck, failed != NULL);
    if (failed)
        log_warn("mirror: the cluster does not take changes now; they are tried again: %s",
                 failed->sentence ? failed->sentence : kv_status_text(failed->status));
    else
        log_info("mirror: the cluster takes changes again");
}

enum kv_status copy_page_send(struct copy_page *page, struct store_engine *engine)
{
    for (uint64_t pause_ms = AGAIN_MIN_MS; page->count > 0;) {
        const struct engine_operation *failed = NULL;
        submit_unwritten(page, engine);
        bool all = note_outcomes(page, &failed);
        log_if_stuck(page, failed);
        if (all)
            break;
        if (atomic_load(page->stop))
            return KV_BUSY;
        if (!failed)
            continue;
        atomic_fetch_add(&page->repeats, 1);
        for (uint64_t waited = 0; waited < pause_ms && !atomic_load(page->stop);
             waited += STOP_LOOK_MS)
            clock_sleep_ms(STOP_LOOK_MS);
        pause_ms = pause_ms * 2 < AGAIN_MAX_MS ? pause_ms * 2 : AGAIN_MAX_MS;
    }
    copy_page_clear(page);
    return KV_OK;
}

bool copy_page_is_empty(const struct copy_page *page)
{
    return page->count == 0;
}

struct copy_counts copy_page_counts(const struct copy_page *page)
{
    return (struct copy_counts){.written = atomic_load(&page->written),
                                .refused = atomic_load(&page->refused),
                                .repeats = atomic_load(&page->repeats)};
}

bool copy_page_is_stuck(const struct copy_page *page)
{
    return atomic_load(&page->stuck);
}
