#include "kvstore/api/shared_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "kvstore/index/arena.h"
#include "kvstore/table/datafile.h"

#define OWNER_MODE 0600u
#define GROUP_MODE 0640u

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

/* What a predecessor has left ------------------------------------------------------------------ */

/* Tells those who have mapped it that it is out of use. Only what is ours can be left by one of our
 * processes. */
static void retire(int fd)
{
    const uint32_t retired = SHARED_STORE_RETIRED;
    ssize_t written =
        pwrite(fd, &retired, sizeof retired, offsetof(struct shared_store, condition));
    (void)written; /* then the name is gone all the same */
}

static void remove_left(const struct shared_index *direct)
{
    struct stat facts;
    int fd = shm_open(direct->name.text, O_RDWR, 0);
    if (fd < 0)
        return;
    if (fstat(fd, &facts) == 0 && facts.st_uid == geteuid() &&
        (uint64_t)facts.st_size >= sizeof(struct shared_store))
        retire(fd);
    close(fd);
    shm_unlink(direct->name.text);
}

/* The object ----------------------------------------------------------------------------------- */

/* Lets the group of the directory in. */
static bool open_to_group(const struct store_context *context, int fd)
{
    struct stat dir, object;
    if (fstat(context->dir_fd, &dir) != 0 || fstat(fd, &object) != 0)
        return false;
    if ((dir.st_mode & S_IXGRP) == 0)
        log_warn("%s: direct reads are for the group of the directory, which may not enter it: "
                 "chmod g+x %s",
                 context->dir, context->dir);
    return (object.st_gid == dir.st_gid || fchown(fd, (uid_t)-1, dir.st_gid) == 0) &&
           fchmod(fd, GROUP_MODE) == 0;
}

/* -1, errno: there can be none. */
static int make_object(const struct shared_index *direct, const struct store_context *context)
{
    int fd = shm_open(direct->name.text, O_RDWR | O_CREAT | O_EXCL, OWNER_MODE);
    if (fd < 0)
        return -1;
    bool open = direct->mode == KVSTORE_DIRECT_GROUP ? open_to_group(context, fd)
                                                     : fchmod(fd, OWNER_MODE) == 0;
    if (open)
        return fd;
    int reason = errno;
    close(fd);
    shm_unlink(direct->name.text);
    errno = reason;
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

static void put_header(struct shared_store *shared, const struct store_context *context)
{
    shared->magic = SHARED_STORE_MAGIC;
    shared->layout = SHARED_STORE_LAYOUT;
    shared->store_seed = context->seed;
    shared->hash_key = context->hash_key;
    shared->datafiles = context->datafiles;
    shared->files_offset = SHARED_STORE_HEADER_BYTES;
}

static void explain(const struct shared_index *direct, const struct store_context *context)
{
    log_warn("%s: no direct reads, and the next start may take longer: shared memory %s: %s%s",
             context->dir, direct->name.text, strerror(errno),
             errno == EEXIST ? " (another user's: remove it)" : "");
}

/* An arena in an object of its own. False: there can be none. */
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

/* Whether others are to be let in, and under which name they look. */
static void settle(struct shared_index *direct, const struct store_context *context)
{
    struct stat facts;
    *direct = (struct shared_index){.mode = KVSTORE_DIRECT_OFF};
    if (context->options.read_only || fstat(context->dir_fd, &facts) != 0)
        return;
    direct->mode = context->options.direct;
    direct->device = facts.st_dev;
    direct->inode = facts.st_ino;
    direct->name = shared_store_name(facts.st_dev, facts.st_ino);
}

enum kv_status shared_index_begin(struct shared_index *direct, struct store_context *context,
                                  struct kv_error *error)
{
    settle(direct, context);
    if (direct->name.text[0] != '\0')
        remove_left(direct);
    bool is_shared = direct->mode != KVSTORE_DIRECT_OFF && begin_shared(direct, context);
    if (direct->mode != KVSTORE_DIRECT_OFF && !is_shared)
        explain(direct, context);
    enum kv_status status = is_shared ? KV_OK : begin_private(direct, context, error);
    if (status != KV_OK)
        return status;
    put_header(context->shared, context);
    struct shared_file *files = (void *)((char *)context->shared + context->shared->files_offset);
    for (uint32_t number = 0; number < context->datafiles; number++)
        context->files[number].shared = &files[number];
    return KV_OK;
}

void shared_index_serve(struct shared_index *direct, const struct store_context *context)
{
    struct shared_store *shared = context->shared;
    if (direct->mode == KVSTORE_DIRECT_OFF)
        return;
    shared->daemon_pid = (uint32_t)getpid();
    __atomic_store_n(&shared->instance, random_secret(), __ATOMIC_RELEASE);
    __atomic_store_n(&shared->condition, SHARED_STORE_IN_USE, __ATOMIC_RELEASE);
}

void shared_index_end(struct shared_index *direct, struct store_context *context)
{
    if (context->arena && direct->mode != KVSTORE_DIRECT_OFF) {
        __atomic_store_n(&context->shared->condition, SHARED_STORE_RETIRED, __ATOMIC_RELEASE);
        shm_unlink(direct->name.text);
    }
    arena_free(context->arena);
    context->arena = NULL;
}
