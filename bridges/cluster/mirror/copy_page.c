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
};

struct copy_page {
    const atomic_bool *stop;
    unsigned count;
    size_t bytes;
    struct copy_item items[COPY_PAGE_ITEMS];

    pthread_mutex_t lock;
    pthread_cond_t done;
    unsigned under_way; /* covered by `lock` */

    _Atomic uint64_t written, refused, repeats;
    atomic_bool stuck;
};

struct copy_page *copy_page_create(const atomic_bool *stop)
{
    struct copy_page *page = calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->stop = stop;
    pthread_mutex_init(&page->lock, NULL);
    pthread_cond_init(&page->done, NULL);
    return page;
}

void copy_page_clear(struct copy_page *page)
{
    for (unsigned i = 0; i < page->count; i++)
        free(page->items[i].bytes);
    page->count = 0;
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

bool copy_page_add(struct copy_page *page, struct kv_slice key, const struct kv_slice *value,
                   uint64_t expiry_ms)
{
    size_t bytes = key.size + (value ? value->size : 0);
    bool has_room = page->count < COPY_PAGE_ITEMS && page->bytes + bytes <= COPY_PAGE_BYTES;
    if (page->count > 0 && !has_room)
        return false;
    struct copy_item *known = find_copy_item(page, key);
    struct copy_item *item = known ? known : &page->items[page->count];
    if (!known)
        *item = (struct copy_item){.page = page};
    if (!fill_copy_item(item, key, value, expiry_ms))
        return false;
    page->bytes += bytes;
    page->count += !known;
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

static void item_done(struct engine_operation *operation)
{
    struct copy_item *item = operation->context;
    struct copy_page *page = item->page;
    free(item->old);
    item->old = NULL;
    pthread_mutex_lock(&page->lock);
    if (--page->under_way == 0)
        pthread_cond_signal(&page->done);
    pthread_mutex_unlock(&page->lock);
}

static void submit_unwritten(struct copy_page *page, struct store_engine *engine)
{
    unsigned count = 0;
    for (unsigned i = 0; i < page->count; i++)
        count += !page->items[i].written;
    page->under_way = count; /* no other thread looks at it yet */
    uint64_t deadline_ms = clock_monotonic_coarse_ms() + PATIENCE_MS;
    for (unsigned i = 0; i < page->count; i++) {
        struct copy_item *item = &page->items[i];
        if (item->written)
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

/* Notes the outcome of each operation. Returns true if all were taken; else *failed is one that was
 * not. */
static bool note_outcomes(struct copy_page *page, const struct engine_operation **failed)
{
    bool all = true;
    for (unsigned i = 0; i < page->count; i++) {
        struct copy_item *item = &page->items[i];
        enum kv_status status = item->operation.status;
        if (item->written)
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
