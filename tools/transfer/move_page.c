#include "tools/transfer/move_page.h"

#include <stdlib.h>
#include <string.h>

#include "tools/transfer/move_key.h"

struct move_page *move_page_create(struct migration *migration)
{
    struct move_page *page = calloc(1, sizeof *page);
    if (page)
        page->migration = migration;
    return page;
}

void move_page_free(struct move_page *page)
{
    if (!page)
        return;
    for (size_t i = 0; i < MOVE_PAGE_ENTRIES; i++)
        clientk_value_free(&page->results[i].value);
    free(page->bytes);
    free(page);
}

/* Taking --------------------------------------------------------------------------------------- */

static bool copy_entry(struct move_page *page, const struct clientk_entry *entry)
{
    size_t needed = page->used_bytes + entry->key.size + entry->value.size;
    if (needed > page->room_bytes) {
        char *bytes = realloc(page->bytes, 2 * needed);
        if (!bytes)
            return false;
        page->bytes = bytes;
        page->room_bytes = 2 * needed;
    }
    struct moving_entry *moving = &page->entries[page->count++];
    *moving = (struct moving_entry){.at = page->used_bytes, .entry = *entry};
    memcpy(page->bytes + moving->at, entry->key.data, entry->key.size);
    if (entry->value.size > 0)
        memcpy(page->bytes + moving->at + entry->key.size, entry->value.data, entry->value.size);
    page->used_bytes = needed;
    return true;
}

void move_page_take(struct move_page *page, const struct clientk_entry *entry)
{
    struct migration *migration = page->migration;
    struct moved_key *moved = moved_keys_find(&migration->keys, entry->key);
    migration->seen++;
    bool is_known = moved && moved->state != MOVED_GONE;
    if (is_known)
        moved->pass = migration->pass;
    bool is_same = is_known && moved->source_version == entry->version;
    if (is_same && (!migration->verifies || moved->state == MOVED_REFUSED))
        return;
    if (page->count > 0 && page->used_bytes + entry->key.size + entry->value.size > MOVE_PAGE_BYTES)
        move_page_send(page);
    if (!copy_entry(page, entry)) {
        migration_stop(migration, KV_NO_MEMORY, "no memory for the entries");
        return;
    }
    if (page->count == MOVE_PAGE_ENTRIES)
        move_page_send(page);
}

/* Sending -------------------------------------------------------------------------------------- */

/* Decides what is done with an entry at first. */
static void plan_move(struct move_page *page, struct moving_entry *moving)
{
    const struct migration *migration = page->migration;
    struct clientk_entry *entry = &moving->entry;
    entry->key.data = page->bytes + moving->at;
    entry->value.data = page->bytes + moving->at + entry->key.size;
    const struct moved_key *moved = moved_keys_find(&migration->keys, entry->key);
    bool is_here = moved && moved->state == MOVED_HERE;
    moving->is_odd = moved && (moved->state == MOVED_FOREIGN ||
                               (is_here && moved->source_version > entry->version));
    moving->looks = !moving->is_odd && (migration->verifies || migration->overwrites ||
                                        (is_here && migration->keeps_versions));
    moving->expected = is_here ? moved->target_version : 0;
}

/* Executes `count` operations; operations[i] belongs to the entry of that index. */
static void execute(struct move_page *page, size_t count)
{
    if (count == 0)
        return;
    /* A status that stopped the call is in the results, too, and move_key will meet it again. */
    clientk_execute(page->migration->target, page->operations, count, page->results);
}

/* Decides by what the target was found to have. */
static void take_look(struct move_page *page, struct moving_entry *moving,
                      const struct clientk_result *result)
{
    struct migration *migration = page->migration;
    const struct clientk_value *value = &result->value;
    bool is_there = result->status == KV_OK;
    const struct moved_key *moved = moved_keys_find(&migration->keys, moving->entry.key);
    bool is_here = moved && moved->state == MOVED_HERE;
    bool has_failed = !is_there && result->status != KV_NOT_FOUND;
    if (is_there && value->expiry_ms == moving->entry.expiry_ms &&
        kv_slice_equal(kv_slice(value->data, value->size), moving->entry.value)) {
        migration_note_moved(migration, &moving->entry, value->version);
        moving->is_done_with = true;
    } else if (is_here && !has_failed) {
        moving->is_odd = !is_there || value->version != moved->target_version ||
                         moved->source_version == moving->entry.version;
    } else if (has_failed || (is_there && !migration->overwrites)) {
        moving->is_odd = true;
    } else {
        moving->expected = is_there ? value->version : 0;
    }
}

static void look_at_target(struct move_page *page)
{
    size_t count = 0, done = 0;
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].looks)
            page->operations[count++] = (struct clientk_operation){
                .opcode = CLIENTK_GET, .key = page->entries[i].entry.key};
    execute(page, count);
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].looks)
            take_look(page, &page->entries[i], &page->results[done++]);
}

static bool is_to_write(const struct moving_entry *moving)
{
    return !moving->is_done_with && !moving->is_odd;
}

static void write_planned(struct move_page *page)
{
    size_t count = 0, done = 0;
    for (size_t i = 0; i < page->count; i++)
        if (is_to_write(&page->entries[i]))
            page->operations[count++] =
                migration_put(page->migration, &page->entries[i].entry, page->entries[i].expected);
    execute(page, count);
    for (size_t i = 0; i < page->count; i++) {
        struct moving_entry *moving = &page->entries[i];
        if (!is_to_write(moving))
            continue;
        const struct clientk_result *result = &page->results[done++];
        if (result->status == KV_OK)
            migration_note_written(page->migration, &moving->entry, result->value.version);
        else
            moving->is_odd = true;
    }
}

void move_page_send(struct move_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        plan_move(page, &page->entries[i]);
    look_at_target(page);
    write_planned(page);
    for (size_t i = 0; i < page->count && migration_goes_on(page->migration); i++)
        if (page->entries[i].is_odd)
            move_key(page->migration, &page->entries[i].entry);
    page->count = page->used_bytes = 0;
    progress_show(&page->migration->progress, page->migration->seen, 0);
}
