#include "kvstore/sync/links.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "kvstore/format/sizes.h"
#include "kvstore/shared/shared_store.h"
#include "kvstore/sync/sync_state.h"

/* With so many links open a sync is asked for, whatever the durability of the store: recovery has
 * to look at each of them. With four times as many, writers wait for it. */
#define LINKS_MANY     65536u
#define LINKS_TOO_MANY (4u * LINKS_MANY)

/* How many are closed under one hold of sync.mutex, which writers wait for. */
#define LINKS_CLOSED_AT_ONCE 256u

struct link_part {
    struct link *link;
    struct link_part *previous, *next; /* of the file */
    uint64_t begin, end;               /* positions of the file (kvstore_ticket) */
    uint32_t file;
};

struct link {
    struct link *before, *behind; /* in sync.links */
    struct link *next_to_visit;   /* of links_want */
    uint64_t number;
    uint32_t part_count;
    bool is_wanted; /* the syncs that close it have been asked for */
    bool is_dead;   /* it can never be closed: a sync has failed */
    struct link_part parts[];
};

struct link *link_create(uint32_t count)
{
    struct link *link = malloc(sizeof *link + count * sizeof link->parts[0]);
    if (link)
        *link = (struct link){.part_count = 0};
    return link;
}

void link_add_part(struct link *link, uint32_t file, uint64_t position)
{
    link->parts[link->part_count++] =
        (struct link_part){.link = link, .begin = position, .end = LINKS_NO_END, .file = file};
}

static void append_link(struct sync *sync, struct link *link)
{
    struct open_links *links = &sync->links;
    KV_ASSERT(mutex_is_held(&sync->mutex));
    link->before = links->last;
    if (links->last)
        links->last->behind = link;
    else
        links->first = link;
    links->last = link;
    links->count++;
    for (uint32_t i = 0; i < link->part_count; i++) {
        struct link_part *part = &link->parts[i];
        struct sync_file *file = &sync->files[part->file];
        part->previous = file->last_part;
        *(file->last_part ? &file->last_part->next : &file->first_part) = part;
        file->last_part = part;
        if (!file->first_unwanted)
            file->first_unwanted = part;
    }
}

uint64_t link_open(struct sync *sync, struct link *link)
{
    struct shared_store *shared = sync->context->shared;
    pthread_mutex_lock(&sync->mutex);
    link->number = shared->last_transaction + 1;
    __atomic_store_n(&shared->last_transaction, link->number, __ATOMIC_RELAXED);
    append_link(sync, link);
    pthread_mutex_unlock(&sync->mutex);
    return link->number;
}

/* No other thread looks at the end before the file has been synced to there, for which it needs the
 * lock. */
void link_end_part(struct link *link, uint32_t file, uint64_t position)
{
    for (uint32_t i = 0; i < link->part_count; i++)
        if (link->parts[i].file == file)
            __atomic_store_n(&link->parts[i].end, position, __ATOMIC_RELAXED);
}

static bool part_is_synced(const struct sync *sync, const struct link_part *part)
{
    return atomic_load(&sync->files[part->file].synced_position) >=
           __atomic_load_n(&part->end, __ATOMIC_RELAXED);
}

/* Closing -------------------------------------------------------------------------------------- */

static void add_to_try(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    if (file->is_to_be_tried)
        return;
    file->is_to_be_tried = true;
    file->next_to_try = sync->links.to_try;
    sync->links.to_try = number;
}

static uint32_t take_to_try(struct sync *sync)
{
    uint32_t number = sync->links.to_try;
    sync->links.to_try = sync->files[number].next_to_try;
    sync->files[number].is_to_be_tried = false;
    return number;
}

/* Brings durable_position up to date. */
static void note_durable(struct sync *sync, uint32_t number)
{
    struct sync_file *file = &sync->files[number];
    uint64_t position = atomic_load(&file->synced_position);
    if (file->first_part)
        position = at_most(position, file->first_part->begin);
    if (position <= atomic_load(&file->durable_position))
        return;
    atomic_store(&file->durable_position, position);
    if (file->is_to_be_told || number == sync->links.publishing)
        return;
    file->is_to_be_told = true;
    file->next_to_tell = sync->links.to_tell;
    sync->links.to_tell = number;
}

static bool can_close(const struct sync *sync, const struct link *link)
{
    for (uint32_t i = 0; i < link->part_count; i++) {
        const struct link_part *part = &link->parts[i];
        if (sync->files[part->file].first_part != part || !part_is_synced(sync, part))
            return false;
    }
    return true;
}

static void remove_part(struct sync *sync, struct link_part *part)
{
    struct sync_file *file = &sync->files[part->file];
    *(part->previous ? &part->previous->next : &file->first_part) = part->next;
    *(part->next ? &part->next->previous : &file->last_part) = part->previous;
    if (file->first_unwanted == part)
        file->first_unwanted = part->next;
}

/* Up to the first transaction that is open, or that was refused and may be found on disk. */
static void raise_settled(struct sync *sync)
{
    const struct open_links *links = &sync->links;
    struct shared_store *shared = sync->context->shared;
    uint64_t settled = links->first ? links->first->number - 1 : shared->last_transaction;
    for (uint32_t number = 0; links->refused_files > 0 && number < sync->context->datafiles;
         number++)
        if (sync->files[number].last_refused != 0)
            settled = at_most(settled, sync->files[number].first_refused - 1);
    __atomic_store_n(&shared->settled, at_least(settled, shared->settled), __ATOMIC_RELAXED);
}

static void remove_link(struct sync *sync, struct link *link)
{
    struct open_links *links = &sync->links;
    *(link->before ? &link->before->behind : &links->first) = link->behind;
    *(link->behind ? &link->behind->before : &links->last) = link->before;
    links->count--;
    raise_settled(sync);
}

static void close_link(struct sync *sync, struct link *link)
{
    for (uint32_t i = 0; i < link->part_count; i++) {
        struct link_part *part = &link->parts[i];
        KV_ASSERT(sync->files[part->file].first_part == part);
        remove_part(sync, part);
        note_durable(sync, part->file);
        add_to_try(sync, part->file);
    }
    remove_link(sync, link);
    free(link);
}

bool links_note_synced(struct sync *sync, uint32_t number)
{
    unsigned closed = 0;
    KV_ASSERT(mutex_is_held(&sync->mutex));
    sync->links.publishing = number; /* the caller tells about this one */
    note_durable(sync, number);
    if (sync->files[number].first_part)
        add_to_try(sync, number);
    while (sync->links.to_try != LINKS_NO_FILE && closed < LINKS_CLOSED_AT_ONCE) {
        const struct link_part *part = sync->files[take_to_try(sync)].first_part;
        if (part && can_close(sync, part->link)) {
            close_link(sync, part->link);
            closed++;
        }
    }
    return sync->links.to_try != LINKS_NO_FILE;
}

uint32_t links_take_to_tell(struct sync *sync)
{
    pthread_mutex_lock(&sync->mutex);
    uint32_t number = sync->links.to_tell;
    if (number != LINKS_NO_FILE) {
        sync->links.to_tell = sync->files[number].next_to_tell;
        sync->files[number].is_to_be_told = false;
    }
    pthread_mutex_unlock(&sync->mutex);
    return number;
}

/* Asking --------------------------------------------------------------------------------------- */

static void add_to_visit(struct link *link, struct link **to_visit)
{
    if (link->is_wanted)
        return;
    link->is_wanted = true;
    link->next_to_visit = *to_visit;
    *to_visit = link;
}

/* Adds the links that have a part of the file before `position`, each once in its life: the syncs
 * that were asked for then will close it. */
static void visit_before(struct sync *sync, uint32_t number, uint64_t position,
                         struct link **to_visit)
{
    struct sync_file *file = &sync->files[number];
    while (file->first_unwanted && file->first_unwanted->begin < position) {
        add_to_visit(file->first_unwanted->link, to_visit);
        file->first_unwanted = file->first_unwanted->next;
    }
}

void links_want(struct sync *sync, uint32_t number, uint64_t position)
{
    struct link *to_visit = NULL;
    KV_ASSERT(mutex_is_held(&sync->mutex));
    visit_before(sync, number, position, &to_visit);
    while (to_visit) {
        struct link *link = to_visit;
        to_visit = link->next_to_visit;
        for (uint32_t i = 0; i < link->part_count; i++) {
            const struct link_part *part = &link->parts[i];
            if (!part_is_synced(sync, part))
                sync_want(sync, part->file, __atomic_load_n(&part->end, __ATOMIC_RELAXED));
            visit_before(sync, part->file, part->begin, &to_visit);
        }
    }
}

/* Refused transactions ------------------------------------------------------------------------- */

static void note_refused(struct sync *sync, uint32_t number, uint64_t transaction)
{
    struct sync_file *file = &sync->files[number];
    KV_ASSERT(mutex_is_held(&sync->mutex) && file->last_refused < transaction);
    if (file->last_refused == 0) {
        file->first_refused = transaction;
        sync->links.refused_files++;
    }
    file->last_refused = transaction;
}

/* Its parts are the last ones of the files, whose locks are held: nothing waits for them. */
void link_drop(struct sync *sync, struct link *link)
{
    pthread_mutex_lock(&sync->mutex);
    for (uint32_t i = 0; i < link->part_count; i++) {
        KV_ASSERT(!link->parts[i].next);
        remove_part(sync, &link->parts[i]);
        note_refused(sync, link->parts[i].file, link->number);
    }
    remove_link(sync, link);
    pthread_mutex_unlock(&sync->mutex);
    free(link);
}

void links_note_erased(struct sync *sync, uint32_t number, uint64_t transaction)
{
    struct sync_file *file = &sync->files[number];
    pthread_mutex_lock(&sync->mutex);
    KV_ASSERT(file->busy && transaction <= file->last_refused);
    if (file->last_refused == transaction) {
        file->first_refused = file->last_refused = 0;
        sync->links.refused_files--;
    } else if (file->first_refused <= transaction) {
        file->first_refused = transaction + 1;
    }
    raise_settled(sync);
    pthread_mutex_unlock(&sync->mutex);
}

bool links_first_refused(struct sync *sync, uint64_t transaction, struct refused_part *part)
{
    bool found = false;
    pthread_mutex_lock(&sync->mutex);
    for (uint32_t number = 0; number < sync->context->datafiles && !found; number++) {
        const struct sync_file *file = &sync->files[number];
        *part = (struct refused_part){number, file->first_refused};
        found = file->last_refused != 0 && file->first_refused <= transaction;
    }
    pthread_mutex_unlock(&sync->mutex);
    return found;
}

bool link_is_written(struct sync *sync, struct link *link)
{
    pthread_mutex_lock(&sync->mutex);
    uint32_t count = sync->links.count;
    if (count >= LINKS_MANY)
        links_want(sync, link->parts[0].file, link->parts[0].end);
    pthread_mutex_unlock(&sync->mutex);
    return count >= LINKS_TOO_MANY;
}

bool links_first_open(struct sync *sync, uint64_t transaction, struct kvstore_ticket *ticket)
{
    pthread_mutex_lock(&sync->mutex);
    const struct link *link = sync->links.first;
    bool found = link && link->number <= transaction;
    ticket->position = 0;
    /* Parts that end at 0 are of links_take_over: they wait for the others. */
    for (uint32_t i = 0; found && ticket->position == 0 && i < link->part_count; i++)
        *ticket = (struct kvstore_ticket){link->parts[i].file,
                                          __atomic_load_n(&link->parts[i].end, __ATOMIC_RELAXED)};
    pthread_mutex_unlock(&sync->mutex);
    return found;
}

/* Beginnings and ends -------------------------------------------------------------------------- */

/* Marks what can never be closed: links behind one that cannot, in any of its files. False: there
 * was nothing to mark. */
static bool spread_death(struct sync *sync, uint32_t number)
{
    bool is_dead = false, any = false;
    for (struct link_part *part = sync->files[number].first_part; part; part = part->next) {
        is_dead |= part->link->is_dead;
        any |= is_dead && !part->link->is_dead;
        part->link->is_dead = is_dead;
    }
    return any;
}

/* Has the syncs of the link's files fail. */
static void doom_files(struct sync *sync, const struct link *link)
{
    for (uint32_t i = 0; i < link->part_count; i++) {
        struct sync_file *file = &sync->files[link->parts[i].file];
        if (file->doomed || atomic_load(&file->failed))
            continue;
        file->doomed = file->apart = true;
        sync_enqueue(sync, link->parts[i].file);
    }
}

void links_note_failed(struct sync *sync, uint32_t number)
{
    bool more = true;
    KV_ASSERT(mutex_is_held(&sync->mutex));
    for (struct link_part *part = sync->files[number].first_part; part; part = part->next)
        part->link->is_dead |= !part_is_synced(sync, part);
    while (more) {
        more = false;
        for (uint32_t other = 0; other < sync->context->datafiles; other++)
            more |= spread_death(sync, other);
    }
    for (const struct link *link = sync->links.first; link; link = link->behind)
        if (link->is_dead)
            doom_files(sync, link);
}

bool links_take_over(struct sync *sync)
{
    const struct store_context *context = sync->context;
    if (context->shared->last_transaction == context->shared->settled)
        return true;
    struct link *link = link_create(context->datafiles);
    if (!link)
        return false;
    uint64_t last = context->shared->last_transaction;
    bool any = false;
    for (uint32_t number = 0; number < context->datafiles; number++) {
        uint64_t position = atomic_load(&context->files[number].appended_bytes);
        any |= position > 0;
        link_add_part(link, number, 0);
        link->parts[number].end = position;
    }
    link->number = context->shared->settled + 1; /* of those that it stands for the first */
    pthread_mutex_lock(&sync->mutex);
    if (any)
        append_link(sync, link);
    for (uint32_t number = 0; number < context->datafiles; number++)
        if (context->files[number].taken_over) /* some may have been refused */
            note_refused(sync, number, last);
    raise_settled(sync);
    pthread_mutex_unlock(&sync->mutex);
    if (!any) /* all that is there is on disk */
        free(link);
    return true;
}

void links_free(struct sync *sync)
{
    while (sync->links.first) {
        struct link *link = sync->links.first;
        sync->links.first = link->behind;
        free(link);
    }
}
