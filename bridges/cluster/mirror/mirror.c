#include "bridges/cluster/mirror/mirror.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "bridges/cluster/mirror/copy_page.h"
#include "bridges/cluster/mirror/mirror_changes.h"
#include "bridges/cluster/mirror/mirror_lag.h"
#include "bridges/cluster/mirror/mirror_mark.h"
#include "bridges/cluster/mirror/mirror_refill.h"
#include "bridges/cluster/mirror/mirror_state.h"
#include "bridges/cluster/natskv/natskv.h"

/* How long the start waits for the cluster's first answer. */
#define FIRST_ANSWER_MS 2000u

/* The time between two tries to reach the cluster. */
#define AGAIN_MS 3000u

/* The state is written at most once in this time. */
#define SAVE_EVERY_MS 1000u

/* The time for which changes are gathered, so that one page takes them. */
#define GATHER_MS 2u

/* The pause after a round that had nothing to copy although it was not the end of the changes. */
#define EMPTY_MS 50u

/* A write that must be slow waits a millisecond for each percent by which the copy exceeds the
 * bound, up to this. */
#define SLOW_WRITE_MAX_MS 100u

struct mirror {
    struct mirror_options options;
    struct kvstore *store;
    uint32_t files;
    struct mirror_state
        state; /* what the cluster has acknowledged; only the mirror's thread uses it */
    struct mirror_lag lag;
    struct mirror_changes changes; /* this and what follows belong to the thread */
    struct copy_page *page;
    struct store_engine *engine; /* NULL: not connected yet */
    uint64_t saved_ms;           /* when the state was written, by clock_monotonic_coarse_ms */
    bool unsaved;
    bool save_failed;
    bool mark_failed;

    sem_t wakes;
    atomic_bool changed;
    atomic_bool stop;
    atomic_bool connected;
    _Atomic uint64_t refills;
    atomic_bool filling;
    atomic_bool first; /* there has been no complete copy yet */

    pthread_t thread;
    bool started;
    sem_t answered;       /* posted when the first try to connect is over */
    pthread_mutex_t lock; /* covers the outcome of that try: */
    enum kv_status first_status;
    struct kv_error first_error;
};

/* Waiting -------------------------------------------------------------------------------------- */

static bool wait_for_semaphore(sem_t *semaphore, uint64_t wait_ms)
{
    const struct timespec until = clock_time_after_ms(CLOCK_MONOTONIC, wait_ms);
    int result;
    while ((result = sem_clockwait(semaphore, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR)
        ;
    return result == 0;
}

void mirror_note_change(void *context, uint32_t file)
{
    struct mirror *mirror = context;
    (void)file;
    mirror_lag_note_change(&mirror->lag);
    if (!atomic_exchange(&mirror->changed, true))
        sem_post(&mirror->wakes);
}

/* Sleeps for wait_ms, or until the mirror must end. */
static void sleep_a_while(struct mirror *mirror, uint64_t wait_ms)
{
    uint64_t until_ms = clock_monotonic_coarse_ms() + wait_ms;
    for (uint64_t now_ms;
         !atomic_load(&mirror->stop) && (now_ms = clock_monotonic_coarse_ms()) < until_ms;)
        wait_for_semaphore(&mirror->wakes, until_ms - now_ms);
}

/* The state ------------------------------------------------------------------------------------ */

static void save(struct mirror *mirror, bool now)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    struct kv_error error;
    if (!mirror->unsaved || (!now && now_ms - mirror->saved_ms < SAVE_EVERY_MS))
        return;
    bool failed = mirror_state_save(mirror->options.dir, &mirror->state, &error) != KV_OK;
    if (failed && !mirror->save_failed)
        log_error("mirror: the position of the copy cannot be saved, so a restart continues at an "
                  "earlier one: %s",
                  error.text);
    mirror->save_failed = failed;
    mirror->saved_ms = now_ms;
    mirror->unsaved = failed;
}

/* Makes the places behind the page the state: the cluster has acknowledged all before them. */
static void move_on(struct mirror *mirror)
{
    memcpy(mirror->state.places, mirror->changes.places,
           mirror->files * sizeof mirror->state.places[0]);
    mirror_state_end_page(&mirror->state);
    mirror_lag_look(&mirror->lag, &mirror->state);
    mirror->unsaved = true;
}

/* Copying everything --------------------------------------------------------------------------- */

/* Takes the places from which on changes will be followed. */
static enum kv_status take_places(struct mirror *mirror)
{
    for (uint32_t i = 0; i < mirror->files; i++) {
        enum kv_status status = mirror_changes_now(mirror->store, i, &mirror->changes.places[i]);
        if (status != KV_OK)
            return status;
    }
    return KV_OK;
}

/* Says in the bucket how far the copying is, so that nobody takes a part for the whole. KV_BUSY:
 * the bucket cannot be marked now. */
static enum kv_status mark(struct mirror *mirror, bool complete)
{
    struct kv_error error;
    bool failed = mirror_mark_set(mirror->engine, &mirror->state, complete, &error) != KV_OK;
    if (failed && !mirror->mark_failed)
        log_warn("mirror: the bucket cannot be marked as a copy, trying again: %s", error.text);
    mirror->mark_failed = failed;
    return failed ? KV_BUSY : KV_OK;
}

static enum kv_status copy_everything(struct mirror *mirror)
{
    enum kv_status status = mark(mirror, false);
    if (status != KV_OK)
        return status;
    atomic_fetch_add(&mirror->refills, 1);
    log_info("mirror: copying the whole store to bucket %s", mirror->state.bucket);
    status = take_places(mirror);
    if (status == KV_OK)
        status = mirror_refill(mirror->store, mirror->engine, mirror->page, &mirror->stop);
    while (status == KV_OK &&
           mark(mirror, true) != KV_OK) { /* else all of the copying would be for nothing */
        sleep_a_while(mirror, AGAIN_MS);
        status = atomic_load(&mirror->stop) ? KV_BUSY : KV_OK;
    }
    return status;
}

static enum kv_status fill_anew(struct mirror *mirror)
{
    mirror_state_begin_copy(&mirror->state);
    mirror->unsaved = true;
    save(mirror, true);
    atomic_store(&mirror->filling, true);
    enum kv_status status = copy_everything(mirror);
    if (status == KV_OK) {
        mirror->state.complete = true;
        atomic_store(&mirror->first, false);
        move_on(mirror);
        save(mirror, true);
        log_info("mirror: the whole store was copied; from now on its changes are");
    } else if (status != KV_BUSY) {
        log_warn("mirror: copying the whole store failed, it is tried again: %s",
                 kv_status_text(status));
    }
    atomic_store(&mirror->filling, false);
    return status;
}

/* Following ------------------------------------------------------------------------------------ */

/* Returns true if a page was begun of which nobody knows whether it is in the copy. */
static bool has_begun_page(const struct mirror *mirror)
{
    for (uint32_t i = 0; i < mirror->files; i++)
        if (mirror->state.page[i] > 0)
            return true;
    return false;
}

/* Fills the page. The first time after a crash that is the page of before: if it was written, its
 * transactions are in the copy, and pages that end elsewhere would take it back to within them. */
static enum kv_status fill_next_page(struct mirror *mirror, bool *more)
{
    *more = true;
    if (has_begun_page(mirror) &&
        mirror_changes_fill_again(&mirror->changes, mirror->state.places, mirror->state.page))
        return KV_OK;
    return mirror_changes_fill(&mirror->changes, mirror->state.places, more);
}

/* Copies one page of changes of all files to the cluster. KV_MISSED: the changes of some file
 * cannot be followed from its place on. */
static enum kv_status copy_page_of_changes(struct mirror *mirror, bool *more)
{
    enum kv_status status = fill_next_page(mirror, more);
    if (*more && copy_page_is_empty(mirror->page)) /* perhaps for lack of memory */
        sleep_a_while(mirror, EMPTY_MS);
    if (!copy_page_is_empty(mirror->page)) /* the listener may be called only for the next write */
        mirror_lag_note_change(&mirror->lag);
    if (status != KV_OK)
        return status;
    if (copy_page_has_transactions(mirror->page)) {
        memcpy(mirror->state.page, mirror->changes.taken,
               mirror->files * sizeof *mirror->state.page);
        mirror->unsaved = true;
        save(mirror, true);
    }
    status = copy_page_send(mirror->page, mirror->engine);
    if (status == KV_OK)
        move_on(mirror);
    return status;
}

/* Copies changes until the mirror must end, or changes were missed. */
static void follow_on(struct mirror *mirror)
{
    bool more = true;
    while (!atomic_load(&mirror->stop)) {
        if (!more) {
            save(mirror, false);
            bool woken = wait_for_semaphore(&mirror->wakes, SAVE_EVERY_MS);
            if (woken && atomic_load(&mirror->changed))
                sleep_a_while(mirror, GATHER_MS);
        }
        atomic_store(&mirror->changed, false);
        enum kv_status status = copy_page_of_changes(mirror, &more);
        save(mirror, false);
        if (status == KV_MISSED) {
            log_warn(
                "mirror: changes were missed (--keep-changes, or damage): everything is copied "
                "again");
            mirror->state.complete = false;
            return;
        }
        if (status != KV_OK && status != KV_BUSY)
            sleep_a_while(mirror, AGAIN_MS);
    }
}

/* The cluster ---------------------------------------------------------------------------------- */

/* Checks that the bucket is the copy that the state describes: a bucket that was made anew, or is
 * the copy of another time, cannot be continued. */
static enum kv_status check_bucket(struct mirror *mirror, struct kv_error *error)
{
    bool holds = true;
    if (!mirror->state.complete)
        return KV_OK;
    enum kv_status status = mirror_mark_look(mirror->engine, &mirror->state, &holds, error);
    if (status == KV_OK && !holds) {
        log_warn("mirror: bucket %s is not the copy that was completed: everything is copied again",
                 mirror->state.bucket);
        mirror->state.complete = false;
    }
    return status;
}

static enum kv_status connect_to_bucket(struct mirror *mirror, struct kv_error *error)
{
    struct natskv_options nats = mirror->options.nats;
    struct kv_error other;
    nats.mirror_of = mirror->state.name;
    enum kv_status status = natskv_open(&nats, &mirror->engine, error);
    if (status == KV_OK && (status = check_bucket(mirror, error)) != KV_OK) {
        engine_close(mirror->engine, &other);
        mirror->engine = NULL;
    }
    atomic_store(&mirror->connected, status == KV_OK);
    return status;
}

/* Returns true if the reason is another one than `told`, which was logged: a cluster that was away
 * may be there now, but its bucket somebody else's. Different words for a server that is away are
 * no news. */
static bool is_news(const struct kv_error *error, const struct kv_error *told)
{
    return error->status != told->status ||
           (error->status != KV_NO_SERVER && strcmp(error->text, told->text) != 0);
}

/* Connects to the bucket, and tries until it succeeds. False: the mirror must end, or the first
 * answer was a failure that is for good. */
static bool reach_cluster(struct mirror *mirror)
{
    struct kv_error error = {0}, told = {0};
    enum kv_status status = connect_to_bucket(mirror, &error);
    pthread_mutex_lock(&mirror->lock);
    mirror->first_status = status;
    mirror->first_error = error;
    pthread_mutex_unlock(&mirror->lock);
    sem_post(&mirror->answered);
    while (status != KV_OK && !atomic_load(&mirror->stop)) {
        if (is_news(&error, &told))
            log_warn("mirror: %s; trying again every %u seconds", error.text, AGAIN_MS / 1000);
        told = error;
        sleep_a_while(mirror, AGAIN_MS);
        if (!atomic_load(&mirror->stop))
            status = connect_to_bucket(mirror, &error);
    }
    return status == KV_OK;
}

/* Waits for the outcome of the first try; returns a failure only if that is for good. */
static enum kv_status first_answer(struct mirror *mirror, struct kv_error *error)
{
    pthread_mutex_lock(&mirror->lock);
    enum kv_status status = mirror->first_status;
    struct kv_error first = mirror->first_error;
    pthread_mutex_unlock(&mirror->lock);
    if (status == KV_OK || status == KV_NO_SERVER)
        return KV_OK;
    return kv_error_set(error, status, "--mirror: %s", first.text);
}

static void *mirror_thread(void *argument)
{
    struct mirror *mirror = argument;
    pthread_setname_np(pthread_self(), "serverk/mirror");
    if (!reach_cluster(mirror))
        return NULL;
    save(mirror, true); /* the bucket has the name now */
    while (!atomic_load(&mirror->stop)) {
        if (!mirror->state.complete && fill_anew(mirror) != KV_OK)
            sleep_a_while(mirror, AGAIN_MS);
        if (mirror->state.complete)
            follow_on(mirror);
    }
    save(mirror, true);
    return NULL;
}

/* Life ----------------------------------------------------------------------------------------- */

static enum kv_status start_mirror_thread(struct mirror *mirror, struct kv_error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* mapguard needs it */
    sigdelset(&all, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&mirror->thread, NULL, mirror_thread, mirror);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    mirror->started = result == 0;
    return result == 0
               ? KV_OK
               : kv_error_set_no_thread(error, result, "cannot start a thread for --mirror");
}

static struct mirror *create_mirror(const struct mirror_options *options, struct kvstore *store)
{
    struct mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return NULL;
    mirror->options = *options;
    mirror->store = store;
    mirror->files = kvstore_datafiles(store);
    sem_init(&mirror->wakes, 0, 0);
    sem_init(&mirror->answered, 0, 0);
    pthread_mutex_init(&mirror->lock, NULL);
    mirror->page = copy_page_create(&mirror->stop, natskv_shard);
    if (mirror->page && mirror_changes_begin(&mirror->changes, store, mirror->page))
        return mirror;
    mirror_free(mirror);
    return NULL;
}

/* Looks for changes that were sent to the cluster and then lost in a power failure: nobody else
 * knows of them. */
static void look_for_losses(struct mirror *mirror)
{
    if (!mirror->state.complete || !mirror_lag_was_undone(mirror->store, &mirror->state))
        return;
    log_warn("mirror: the store was recovered as after a power failure, so that the copy may have "
             "what the store has lost: everything is copied again");
    mirror->state.complete = false;
}

enum kv_status mirror_start(const struct mirror_options *options, struct kvstore *store,
                            struct mirror **result, struct kv_error *error)
{
    struct mirror *mirror = create_mirror(options, store);
    if (!mirror)
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    enum kv_status status =
        mirror_state_load(options->dir, options->nats.bucket, mirror->files, &mirror->state, error);
    if (status == KV_OK && !mirror_lag_begin(&mirror->lag, store, &mirror->state))
        status = kv_error_set(error, KV_NO_MEMORY, "out of memory");
    atomic_store(&mirror->first, !mirror->state.complete && mirror->state.same_ms == 0);
    if (status == KV_OK)
        look_for_losses(mirror);
    if (status == KV_OK) /* before a bucket can have the name */
        status = mirror_state_save(options->dir, &mirror->state, error);
    if (status == KV_OK)
        status = start_mirror_thread(mirror, error);
    if (status == KV_OK && wait_for_semaphore(&mirror->answered, FIRST_ANSWER_MS))
        status = first_answer(mirror, error);
    if (status != KV_OK) {
        mirror_stop(mirror);
        mirror_free(mirror);
        return status;
    }
    *result = mirror;
    return KV_OK;
}

void mirror_stop(struct mirror *mirror)
{
    struct kv_error error;
    if (!mirror)
        return;
    atomic_store(&mirror->stop, true);
    sem_post(&mirror->wakes);
    if (mirror->started)
        pthread_join(mirror->thread, NULL);
    mirror->started = false;
    engine_close(mirror->engine, &error);
    mirror->engine = NULL;
}

void mirror_free(struct mirror *mirror)
{
    if (!mirror)
        return;
    copy_page_free(mirror->page);
    mirror_lag_free(&mirror->lag);
    mirror_state_free(&mirror->state);
    mirror_changes_free(&mirror->changes);
    sem_destroy(&mirror->wakes);
    sem_destroy(&mirror->answered);
    pthread_mutex_destroy(&mirror->lock);
    free(mirror);
}

/* What others want to know --------------------------------------------------------------------- */

uint32_t mirror_hold_up(void *context)
{
    const struct mirror *mirror = context;
    uint64_t bound_ms = mirror->options.bound_ms;
    if (mirror->options.over == MIRROR_OVER_NOTHING)
        return 0;
    uint64_t lag_ms = mirror_lag_ms(&mirror->lag);
    if (lag_ms <= bound_ms || atomic_load(&mirror->first))
        return 0;
    if (mirror->options.over == MIRROR_OVER_FAIL)
        return MIRROR_REFUSES;
    uint64_t percent = (lag_ms - bound_ms) * 100 / (bound_ms > 0 ? bound_ms : 1) + 1;
    return percent < SLOW_WRITE_MAX_MS ? (uint32_t)percent : SLOW_WRITE_MAX_MS;
}

void mirror_numbers(const struct mirror *mirror, engine_number_visit visit, void *context)
{
    struct copy_counts counts = copy_page_counts(mirror->page);
    bool takes = atomic_load(&mirror->connected) && !copy_page_is_stuck(mirror->page);
    const struct engine_number all[] = {
        {"connected", "Whether the cluster takes the changes.", takes},
        {"filling", "Whether the whole store is being copied.", atomic_load(&mirror->filling)},
        {"lag_ms", "Milliseconds that the copy is behind.", mirror_lag_ms(&mirror->lag)},
        {"lag_changes", "Writes that the copy lacks.", mirror_lag_changes(&mirror->lag)},
        {"written_total", "Puts and deletes that the cluster has taken.", counts.written},
        {"refused_total", "Keys and values that the cluster cannot take.", counts.refused},
        {"repeats_total", "Pages of changes that were sent again.", counts.repeats},
        {"refills_total", "Times that the whole store was copied.", atomic_load(&mirror->refills)},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        visit(context, &all[i]);
}
