#include "kvstore/api/shared_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/numbers/random.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "kvstore/core/lock.h"
#include "kvstore/core/thread.h"
#include "kvstore/index/arena.h"
#include "kvstore/index/arena_claim.h"
#include "kvstore/index/arena_move.h"
#include "kvstore/shared/shared_order.h"
#include "kvstore/shared/store_leftovers.h"
#include "kvstore/shared/store_objects.h"
#include "kvstore/table/datafile.h"

const char *kvstore_direct_name(enum kvstore_direct direct)
{
    static const char *const names[KVSTORE_DIRECT_COUNT] = {[KVSTORE_DIRECT_OFF] = "off",
                                                            [KVSTORE_DIRECT_OWNER] = "owner",
                                                            [KVSTORE_DIRECT_GROUP] = "group"};
    return (unsigned)direct < KVSTORE_DIRECT_COUNT ? names[direct] : NULL;
}

static uint64_t first_bytes(const struct store_context *context)
{
    return SHARED_STORE_HEADER_BYTES + (uint64_t)context->datafiles * sizeof(struct shared_file);
}

static struct shared_store_name shared_index_name(const struct shared_index *direct,
                                                  uint64_t number)
{
    return shared_store_numbered_name((dev_t)direct->device, (ino_t)direct->inode, number);
}

static void take_name(struct shared_index *direct, uint64_t number)
{
    direct->number = number;
    direct->name = shared_index_name(direct, number);
}

/* Objects of a predecessor --------------------------------------------------------------------- */

/* Tells processes that have mapped the object of `fd` that it is out of use. */
static void retire_object(int fd)
{
    const uint32_t retired = SHARED_STORE_RETIRED;
    ssize_t written =
        pwrite(fd, &retired, sizeof retired, offsetof(struct shared_store, condition));
    (void)written; /* after a failure the name is gone all the same */
}

static bool remove_object(void *context, uint64_t number)
{
    const struct shared_index *direct = context;
    struct shared_store_name name = shared_index_name(direct, number);
    struct stat facts;
    bool is_taken = direct->is_left && number == direct->number;
    int fd = is_taken ? -1 : shm_open(name.text, O_RDWR, 0);
    if (fd < 0)
        return false;
    if (fstat(fd, &facts) == 0 && facts.st_uid == geteuid() &&
        (uint64_t)facts.st_size >= sizeof(struct shared_store))
        retire_object(fd);
    close(fd);
    shm_unlink(name.text);
    return false;
}

/* Removes all objects of the store, except one that is taken over. Objects of other users are not
 * ours to remove. */
static void remove_left(struct shared_index *direct)
{
    store_objects_find((dev_t)direct->device, (ino_t)direct->inode, geteuid(), remove_object,
                       direct);
}

/* The object ----------------------------------------------------------------------------------- */

static bool set_mode(const struct shared_index *direct, const struct store_context *context, int fd)
{
    struct stat dir;
    if (direct->mode == KVSTORE_DIRECT_GROUP && fstat(context->dir_fd, &dir) == 0 &&
        (dir.st_mode & S_IXGRP) == 0)
        log_warn("%s: direct reads are for the group of the directory, which may not enter it: "
                 "chmod g+x %s",
                 context->dir, context->dir);
    return datafile_admit(context, fd);
}

static void unmake_object(const struct shared_index *direct, int fd)
{
    int reason = errno;
    close(fd);
    shm_unlink(direct->name.text);
    errno = reason;
}

/* Makes an object under the name. -1, errno: there can be none. */
static int make_named(const struct shared_index *direct, const struct store_context *context)
{
    int fd = shm_open(direct->name.text, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return -1;
    store_leftovers_lock(fd);
    if (set_mode(direct, context, fd))
        return fd;
    unmake_object(direct, fd);
    return -1;
}

/* How many names are tried, where another user has taken the usual one: nobody can foresee the
 * others. */
#define NAME_TRIES 4u

/* Makes the object. -1, errno: there can be none. */
static int make_object(struct shared_index *direct, const struct store_context *context)
{
    take_name(direct, 0);
    for (unsigned tries = 0; tries < NAME_TRIES; tries++) {
        int fd = make_named(direct, context);
        if (fd >= 0 || errno != EEXIST)
            return fd;
        take_name(direct, random_secret());
    }
    return -1;
}

/* Readers find the files by this name, whatever their own directory is. */
static bool put_dir(struct shared_store *shared, const char *dir)
{
    char *path = realpath(dir, NULL);
    bool fits = path && strlen(path) < sizeof shared->dir;
    if (fits)
        memcpy(shared->dir, path, strlen(path) + 1);
    free(path);
    return fits;
}

/* Returns true if the object is of this layout and of this very store, and was in use when its
 * process died. */
static bool header_fits(const struct shared_store *shared, const struct store_context *context)
{
    return shared->magic == SHARED_STORE_MAGIC && shared->layout == SHARED_STORE_LAYOUT &&
           shared->condition == SHARED_STORE_IN_USE && shared->store_seed == context->seed &&
           memcmp(&shared->hash_key, &context->hash_key, sizeof context->hash_key) == 0 &&
           shared->datafiles == context->datafiles &&
           shared->files_offset == SHARED_STORE_HEADER_BYTES;
}

/* Opens the object that a predecessor has left, if only this user can have written to it. */
static int open_left(const struct shared_index *direct, const struct store_context *context)
{
    struct stat facts;
    int fd = shm_open(direct->name.text, O_RDWR, 0);
    if (fd < 0)
        return -1;
    bool ours = fstat(fd, &facts) == 0 && facts.st_uid == geteuid() && S_ISREG(facts.st_mode) &&
                (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0 && set_mode(direct, context, fd);
    if (ours) {
        store_leftovers_lock(fd);
        return fd;
    }
    close(fd);
    return -1;
}

struct left_search {
    struct shared_index *direct;
    struct store_context *context;
};

/* Adopts the arena of another process, to be claimed file by file. */
static bool adopt_left_object(void *search, uint64_t number)
{
    struct shared_index *direct = ((struct left_search *)search)->direct;
    struct store_context *context = ((struct left_search *)search)->context;
    take_name(direct, number);
    int fd = open_left(direct, context);
    if (fd < 0)
        return false;
    context->arena = arena_adopt(fd, first_bytes(context));
    if (!context->arena)
        return false;
    context->shared = (void *)arena_base(context->arena);
    direct->is_left =
        header_fits(context->shared, context) && put_dir(context->shared, context->dir);
    if (direct->is_left)
        return true;
    arena_free(context->arena);
    context->arena = NULL;
    return false;
}

static bool begin_left(struct shared_index *direct, struct store_context *context)
{
    struct left_search search = {direct, context};
    return store_objects_find((dev_t)direct->device, (ino_t)direct->inode, geteuid(),
                              adopt_left_object, &search);
}

static void log_why_not_shared(const struct shared_index *direct,
                               const struct store_context *context)
{
    log_warn("%s: no direct reads, and the next start may take longer: shared memory %s: %s",
             context->dir, direct->name.text, strerror(errno));
}

/* Makes an arena in an object. False, errno: there can be none. */
static bool begin_shared(struct shared_index *direct, struct store_context *context)
{
    int fd = make_object(direct, context);
    if (fd < 0)
        return false;
    context->arena = arena_create(fd, first_bytes(context));
    if (context->arena) {
        context->shared = (void *)arena_base(context->arena);
        errno = ENAMETOOLONG;
        if (put_dir(context->shared, context->dir))
            return true;
    }
    int reason = errno;
    shm_unlink(direct->name.text);
    arena_free(context->arena);
    context->arena = NULL;
    errno = reason;
    return false;
}

static enum kv_status begin_private(struct shared_index *direct, struct store_context *context,
                                    struct kv_error *error)
{
    direct->mode = KVSTORE_DIRECT_OFF;
    context->arena = arena_create(-1, first_bytes(context));
    if (!context->arena)
        return kv_error_set(error, KV_NO_MEMORY,
                            "%s: out of memory for the index (check the limit: ulimit -v)",
                            context->dir);
    context->shared = (void *)arena_base(context->arena);
    return KV_OK;
}

/* Sets whether other processes may read, and the name under which they look for the object. */
static void choose_name(struct shared_index *direct, const struct store_context *context)
{
    struct stat facts;
    *direct = (struct shared_index){.mode = KVSTORE_DIRECT_OFF};
    if (context->options.read_only || fstat(context->dir_fd, &facts) != 0)
        return;
    direct->mode = context->options.direct;
    direct->device = facts.st_dev;
    direct->inode = facts.st_ino;
    take_name(direct, 0);
}

static void place_files(const struct store_context *context)
{
    struct shared_file *files = (void *)((char *)context->shared + context->shared->files_offset);
    for (uint32_t number = 0; number < context->datafiles; number++)
        context->files[number].shared = &files[number];
}

/* Makes an empty arena, in an object if possible. */
static enum kv_status shared_index_make_anew(struct shared_index *direct,
                                             struct store_context *context, struct kv_error *error)
{
    if (direct->name.text[0] != '\0')
        remove_left(direct);
    bool is_shared = direct->mode != KVSTORE_DIRECT_OFF && begin_shared(direct, context);
    if (direct->mode != KVSTORE_DIRECT_OFF && !is_shared)
        log_why_not_shared(direct, context);
    enum kv_status status = is_shared ? KV_OK : begin_private(direct, context, error);
    if (status != KV_OK)
        return status;
    context->shared->magic = SHARED_STORE_MAGIC;
    context->shared->layout = SHARED_STORE_LAYOUT;
    context->shared->store_seed = context->seed;
    context->shared->hash_key = context->hash_key;
    context->shared->datafiles = context->datafiles;
    context->shared->files_offset = SHARED_STORE_HEADER_BYTES;
    place_files(context);
    return KV_OK;
}

/* How long the names in /dev/shm are looked at, at most. */
#define LEFTOVERS_MS 500u

enum kv_status shared_index_begin(struct shared_index *direct, struct store_context *context,
                                  struct kv_error *error)
{
    choose_name(direct, context);
    if (direct->mode != KVSTORE_DIRECT_OFF) {
        struct store_leftovers left = store_leftovers_remove(LEFTOVERS_MS);
        if (left.objects > 0)
            log_info(
                "removed from /dev/shm the indexes of %u store%s that %s gone, left by processes "
                "that were killed: %" PRIu64 " KiB",
                left.objects, left.objects == 1 ? "" : "s", left.objects == 1 ? "is" : "are",
                left.bytes / 1024);
    }
    bool may_be_left = direct->mode != KVSTORE_DIRECT_OFF && !context->is_new;
    if (!may_be_left || !begin_left(direct, context))
        return shared_index_make_anew(direct, context, error);
    remove_left(direct);
    place_files(context);
    return KV_OK;
}

static enum kv_status take_over_file(void *context, uint32_t number, struct kv_error *error)
{
    (void)error;
    datafile_take_over(context, number);
    return KV_OK;
}

static void tell_taken(const struct store_context *context, uint32_t taken)
{
    uint32_t pid = context->shared->daemon_pid;
    if (taken == context->datafiles)
        log_info("%s: process %u was killed and left its index, which is taken over", context->dir,
                 pid);
    else if (taken == 0)
        log_info("%s: process %u was killed and left its index, which is in doubt: every data file "
                 "is read instead",
                 context->dir, pid);
    else
        log_info("%s: process %u was killed and left its index: %u of %u data files are taken "
                 "over, the others are read",
                 context->dir, pid, taken, context->datafiles);
}

/* Nobody reads the orders that the process has left: others are about to get their memory. */
static void forget_orders(const struct store_context *context)
{
    for (uint32_t number = 0; number < context->datafiles; number++) {
        struct shared_order *order = &context->files[number].shared->order;
        __atomic_store_n(&order->root, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&order->changes, (order->changes | 1) + 1, __ATOMIC_RELEASE);
        order_fence_writes();
    }
}

enum kv_status shared_index_take_over(struct shared_index *direct, struct store_context *context,
                                      struct kv_error *error)
{
    uint32_t taken = 0;
    if (!direct->is_left)
        return KV_OK;
    thread_run_parallel(context->datafiles, take_over_file, context, NULL);
    for (uint32_t number = 0; number < context->datafiles; number++)
        taken += context->files[number].taken_over;
    tell_taken(context, taken);
    if (taken == 0) {
        direct->is_left = false;
        arena_free(context->arena);
        context->arena = NULL;
        enum kv_status status = shared_index_make_anew(direct, context, error);
        for (uint32_t number = 0; status == KV_OK && number < context->datafiles; number++)
            context->files[number].current->words = datafile_next_words(&context->files[number]);
        return status;
    }
    for (uint32_t number = 0; number < context->datafiles; number++)
        if (!context->files[number].taken_over)
            datafile_give_up_left(&context->files[number]);
    forget_orders(context);
    arena_end_claims(context->arena);
    return KV_OK;
}

void shared_index_serve(const struct shared_index *direct, const struct store_context *context)
{
    struct shared_store *shared = context->shared;
    if (direct->mode == KVSTORE_DIRECT_OFF)
        return;
    shared->daemon_pid = (uint32_t)getpid();
    __atomic_store_n(&shared->verify_every_read, context->options.verify_every_read,
                     __ATOMIC_RELAXED);
    uint64_t instance = random_secret();
    for (uint32_t number = 0; number < context->datafiles && context->options.ordered; number++)
        __atomic_store_n(&context->files[number].shared->order.instance, instance,
                         __ATOMIC_RELEASE);
    __atomic_store_n(&shared->instance, instance, __ATOMIC_RELEASE);
    __atomic_store_n(&shared->condition, SHARED_STORE_IN_USE, __ATOMIC_RELEASE);
}

/* Making it anew ------------------------------------------------------------------------------- */

/* How long a file's lock is waited for. A lock may be held for longer, as on a disk that does not
 * answer, and the locks that are taken already keep writers waiting. */
#define RENEW_PATIENCE_MS 100u

/* Repeats in the new object the flags that were set, without the file's lock, while a generation
 * was copied (generation_doubt, generation_sync). The flag of a sync that has ended meanwhile stays
 * until the next sync, which does no harm. */
static void repeat_flags(const struct store_context *context, int old_object)
{
    for (uint32_t number = 0; number < context->datafiles; number++) {
        struct shared_file *file = context->files[number].shared;
        struct shared_file old;
        off_t at = (off_t)((char *)file - (char *)context->shared);
        if (pread(old_object, &old, sizeof old, at) != (ssize_t)sizeof old)
            continue;
        for (unsigned i = 0; i < 2; i++)
            __atomic_fetch_or(&file->states[i].flags, old.states[i].flags, __ATOMIC_SEQ_CST);
    }
}

/* Moves the arena to the object `fd`. Readers of the old object are told before anything changes in
 * the new object alone. False, errno. Holds: the lock of each file. */
static bool move_arena_to(const struct store_context *context, int fd)
{
    KV_ASSERT(lockset_is_write_held(context->locks, 0));
    KV_ASSERT(lockset_is_write_held(context->locks, context->datafiles - 1));
    int old_object = arena_object(context->arena);
    bool moved = old_object >= 0 && arena_move(context->arena, fd);
    int reason = errno;
    if (moved) {
        repeat_flags(context, old_object);
        retire_object(old_object);
    }
    if (old_object >= 0)
        close(old_object);
    errno = reason;
    return moved;
}

/* False, errno. */
static bool fill_shared_object(const struct store_context *context, int fd)
{
    if (!arena_prepare_move(context->arena, fd))
        return false;
    if (!lockset_try_write_lock_all(context->locks, RENEW_PATIENCE_MS)) {
        errno = EBUSY;
        return false;
    }
    bool filled = move_arena_to(context, fd);
    int reason = errno;
    lockset_write_unlock_all(context->locks);
    errno = reason;
    return filled;
}

void shared_index_renew(struct shared_index *direct, const struct store_context *context)
{
    if (direct->mode == KVSTORE_DIRECT_OFF || !arena_object_is_gone(context->arena))
        return;
    int fd = make_named(direct, context);
    bool is_made = fd >= 0 && fill_shared_object(context, fd);
    if (fd >= 0 && !is_made)
        unmake_object(direct, fd);
    if (is_made) {
        shared_index_serve(direct, context);
        arena_restore_large_pages(context->arena);
        log_info("%s: the index is in shared memory %s again", context->dir, direct->name.text);
    } else if (!direct->was_in_the_way) {
        log_why_not_shared(direct, context);
    }
    direct->was_in_the_way = !is_made;
}

void shared_index_retire(const struct shared_index *direct, const struct store_context *context)
{
    if (context->arena && direct->mode != KVSTORE_DIRECT_OFF)
        __atomic_store_n(&context->shared->condition, SHARED_STORE_RETIRED, __ATOMIC_RELEASE);
}

void shared_index_end(struct shared_index *direct, struct store_context *context)
{
    if (context->arena && direct->mode != KVSTORE_DIRECT_OFF)
        shm_unlink(direct->name.text);
    arena_free(context->arena);
    context->arena = NULL;
}
