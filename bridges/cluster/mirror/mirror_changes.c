#include "bridges/cluster/mirror/mirror_changes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"

/* The time between two tries to read a data file. */
#define AGAIN_MS 3000u

/* A call that reads changes of a file. */
struct change_reading {
    struct copy_page *page;
    uint64_t version;             /* the highest version of the visited changes */
    struct kvstore_position last; /* the position behind the last visited change */
    uint64_t taken, most;         /* how many changes were, and may be */
    bool parts;                   /* all parts may, ... */
    uint64_t transaction;         /* ... or that of this one */
    bool has_part;                /* it was */
    uint32_t following;           /* changes of the piece that are to come */
    bool broken;                  /* one of them had no room, for lack of memory */
    struct file_front front;
};

/* Life ----------------------------------------------------------------------------------------- */

bool mirror_changes_begin(struct mirror_changes *changes, struct kvstore *store,
                          struct copy_page *page)
{
    uint32_t files = kvstore_datafiles(store);
    *changes = (struct mirror_changes){.store = store, .files = files, .page = page};
    changes->places = calloc(files, sizeof *changes->places);
    changes->taken = calloc(files, sizeof *changes->taken);
    changes->again_ms = calloc(files, sizeof *changes->again_ms);
    changes->fronts = calloc(files, sizeof *changes->fronts);
    return changes->places && changes->taken && changes->again_ms && changes->fronts;
}

void mirror_changes_free(struct mirror_changes *changes)
{
    free(changes->places);
    free(changes->taken);
    free(changes->again_ms);
    free(changes->fronts);
}

enum kv_status mirror_changes_now(struct kvstore *store, uint32_t file, struct mirror_place *place)
{
    place->version = mirror_version_now(store, file);
    return kvstore_changes_now(store, file, &place->position);
}

/* A file --------------------------------------------------------------------------------------- */

/* Returns whether the change, the first of a piece, may be taken with those that follow it. */
static bool may_begin_piece(struct change_reading *reading, const struct kvstore_change *change)
{
    if (reading->parts || (change->transaction != 0 && change->transaction == reading->transaction))
        return true;
    if (change->transaction == 0)
        return copy_page_takes(reading->page, change->following + 1);
    reading->front = (struct file_front){.kind = FRONT_PART,
                                         .transaction = change->transaction,
                                         .changes = change->following + 1,
                                         .next_file = change->next_file};
    return false;
}

/* Adds a change to the page: a kvstore_change_visit. */
static bool take_change(void *context, const struct kvstore_change *change)
{
    struct change_reading *reading = context;
    bool put = change->kind == KVSTORE_CHANGE_PUT;
    bool begins_piece = change->piece != 0 && reading->following == 0;
    if (reading->taken == reading->most || reading->has_part ||
        (begins_piece && !may_begin_piece(reading, change)))
        return false;
    if (!copy_page_add(reading->page, change->key, put ? &change->value : NULL,
                       put ? change->expiry_ms : 0, change->piece != 0)) {
        reading->broken = change->piece != 0;
        return false;
    }
    reading->taken++;
    reading->following = change->following;
    reading->has_part |= change->following == 0 && change->transaction != 0 &&
                         change->transaction == reading->transaction;
    reading->last = change->position;
    if (change->version > reading->version)
        reading->version = change->version;
    return true;
}

/* Returns true if the page had no room for the last change. Every change that has room is visited,
 * so the place is behind the last one then, in its log or in the next. */
static bool stopped_before_last(const struct change_reading *reading,
                                const struct mirror_place *place)
{
    return reading->last.log == place->position.log &&
           reading->last.version != place->position.version;
}

/* Reads changes of the file, and moves its place behind them. Errors: those of kvstore_changes;
 * then the place is before what cannot be read. */
static enum kv_status read_changes_of(struct mirror_changes *changes, uint32_t file,
                                      struct change_reading *reading)
{
    struct mirror_place *place = &changes->places[file];
    bool at_end = false;
    uint64_t version = mirror_version_now(changes->store, file);
    reading->page = changes->page;
    reading->version = place->version;
    kvstore_await_change(changes->store, file);
    enum kv_status status =
        kvstore_changes(changes->store, file, &place->position, kv_slice(NULL, 0), COPY_PAGE_ITEMS,
                        take_change, reading, &at_end);
    place->version = at_end && version > reading->version ? version : reading->version;
    if (at_end)
        reading->front.kind = FRONT_END;
    changes->taken[file] += reading->taken;
    changes->spoiled |= reading->broken || reading->following > 0 ||
                        (status == KV_IO && stopped_before_last(reading, place));
    return status;
}

/* Leaves a file alone for a while. */
static enum kv_status leave_file_alone(struct mirror_changes *changes, uint32_t file,
                                       enum kv_status status)
{
    if (changes->again_ms[file] == 0)
        log_warn("mirror: changes of data file %" PRIu32 " cannot be read: %s%s", file,
                 kv_status_text(status),
                 status == KV_CORRUPT ? "" : "; trying again every 3 seconds (logged once)");
    changes->again_ms[file] = clock_monotonic_coarse_ms() + AGAIN_MS;
    changes->fronts[file].kind = FRONT_BROKEN;
    return status == KV_CORRUPT ? KV_MISSED : KV_OK;
}

/* Fills the page from a file, up to a part of a transaction of several data files that is not
 * `transaction`, and notes what comes then. */
static enum kv_status try_file(struct mirror_changes *changes, uint32_t file, uint64_t transaction)
{
    struct change_reading reading = {.most = UINT64_MAX, .transaction = transaction};
    if (changes->again_ms[file] > clock_monotonic_coarse_ms()) {
        changes->fronts[file].kind = FRONT_BROKEN;
        return KV_OK;
    }
    enum kv_status status = read_changes_of(changes, file, &reading);
    changes->spoiled |= transaction != 0 && !reading.has_part;
    if (reading.has_part) /* what is behind it must not take the room of the other parts */
        reading.front.kind = FRONT_TAKEN;
    changes->fronts[file] = reading.front;
    if (status != KV_OK && status != KV_MISSED)
        return leave_file_alone(changes, file, status);
    changes->again_ms[file] = 0;
    return status;
}

/* Transactions of several files ---------------------------------------------------------------- */

/* The file whose front is the part of the transaction with the lowest number; `files`: no front is
 * a part. */
static uint32_t first_part(const struct mirror_changes *changes)
{
    uint32_t first = changes->files;
    for (uint32_t i = 0; i < changes->files; i++)
        if (changes->fronts[i].kind == FRONT_PART &&
            (first == changes->files ||
             changes->fronts[i].transaction < changes->fronts[first].transaction))
            first = i;
    return first;
}

enum gathering {
    GATHERED,     /* all files are at their parts */
    GATHERS_NOT,  /* some file cannot be read, or has none: its place was behind it */
    GATHERS_LATER /* there is a transaction before, or no room in this page */
};

/* Looks for all parts of the transaction of which `file` has one. When one part can be read, so can
 * all. *sum: its changes. */
static enum gathering gather_parts(struct mirror_changes *changes, uint32_t file, uint64_t *sum,
                                   enum kv_status *status)
{
    uint64_t number = changes->fronts[file].transaction;
    uint32_t at = changes->fronts[file].next_file;
    *sum = changes->fronts[file].changes;
    for (uint32_t steps = 1; at != file; steps++) {
        if (at >= changes->files || steps >= changes->files)
            return GATHERS_NOT;
        struct file_front *front = &changes->fronts[at];
        if (front->kind == FRONT_END)
            *status = try_file(changes, at, 0);
        if (*status != KV_OK || changes->spoiled || front->kind == FRONT_MORE)
            return GATHERS_LATER;
        if (front->kind != FRONT_PART || front->transaction > number)
            return GATHERS_NOT;
        if (front->transaction < number)
            return GATHERS_LATER;
        *sum += front->changes;
        at = front->next_file;
    }
    return *sum <= COPY_PAGE_TOGETHER ? GATHERED : GATHERS_NOT;
}

/* Adds the first transaction of several files to the page. False: the page ends before it. */
static bool take_whole_transaction(struct mirror_changes *changes, uint32_t file,
                                   enum kv_status *status)
{
    uint64_t number = changes->fronts[file].transaction, sum;
    enum gathering gathering = gather_parts(changes, file, &sum, status);
    if (gathering == GATHERS_LATER)
        return first_part(changes) != file;
    if (gathering == GATHERS_NOT) /* what there is of it */
        sum = changes->fronts[file].changes;
    if (!copy_page_takes(changes->page, (uint32_t)sum))
        return false;
    uint32_t at = file;
    do {
        uint32_t next = changes->fronts[at].next_file;
        *status = try_file(changes, at, number);
        at = next;
    } while (gathering == GATHERED && at != file && *status == KV_OK && !changes->spoiled);
    return true;
}

/* Fills the page with what is behind the parts that were taken. */
static enum kv_status go_on_behind_parts(struct mirror_changes *changes)
{
    enum kv_status status = KV_OK;
    for (uint32_t i = 0; i < changes->files && status == KV_OK && !changes->spoiled; i++)
        if (changes->fronts[i].kind == FRONT_TAKEN)
            status = try_file(changes, i, 0);
    return status;
}

/* Pages ---------------------------------------------------------------------------------------- */

static void begin_page(struct mirror_changes *changes, const struct mirror_place *from)
{
    memcpy(changes->places, from, changes->files * sizeof *from);
    memset(changes->taken, 0, changes->files * sizeof *changes->taken);
    memset(changes->fronts, 0, changes->files * sizeof *changes->fronts);
    copy_page_clear(changes->page);
    changes->spoiled = false;
}

enum kv_status mirror_changes_fill(struct mirror_changes *changes, const struct mirror_place *from,
                                   bool *more)
{
    enum kv_status status = KV_OK;
    begin_page(changes, from);
    changes->first_file++;
    for (uint32_t i = 0; i < changes->files && status == KV_OK && !changes->spoiled; i++)
        status = try_file(changes, (changes->first_file + i) % changes->files, 0);
    for (bool goes_on = true; goes_on && status == KV_OK && !changes->spoiled;) {
        status = go_on_behind_parts(changes);
        uint32_t file = first_part(changes);
        if (status != KV_OK || changes->spoiled)
            break;
        goes_on = file < changes->files && take_whole_transaction(changes, file, &status);
    }
    *more = changes->spoiled;
    if (status != KV_OK || changes->spoiled) /* to begin again, but without what is broken */
        begin_page(changes, from);
    else
        for (uint32_t i = 0; i < changes->files; i++)
            *more |=
                changes->fronts[i].kind != FRONT_END && changes->fronts[i].kind != FRONT_BROKEN;
    return status;
}

/* Reads so many changes of the file. */
static bool read_taken_changes(struct mirror_changes *changes, uint32_t file, uint64_t count)
{
    while (changes->taken[file] < count) {
        struct change_reading reading = {.most = count - changes->taken[file], .parts = true};
        struct kvstore_position before = changes->places[file].position;
        enum kv_status status = read_changes_of(changes, file, &reading);
        bool moved = memcmp(&before, &changes->places[file].position, sizeof before) != 0;
        if (status != KV_OK || changes->spoiled || !moved)
            return false;
    }
    return true;
}

bool mirror_changes_fill_again(struct mirror_changes *changes, const struct mirror_place *from,
                               const uint64_t *taken)
{
    begin_page(changes, from);
    copy_page_take_again(changes->page);
    for (uint32_t i = 0; i < changes->files; i++)
        if (!read_taken_changes(changes, i, taken[i])) {
            begin_page(changes, from);
            return false;
        }
    return true;
}
