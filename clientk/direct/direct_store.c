#include "clientk/direct/direct_store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "wire/identity.h"
#include "wire/own_user.h"

#define MAX_DATAFILES 4096u

/* The size of the largest object: no reference leads farther. */
#define MAX_OBJECT_BYTES (UINT64_C(1) << 40)

/* The address space that a view takes at least. */
#define FIRST_VIEW_BYTES (UINT64_C(1) << 20)

/* At most one of this many descriptors that the process may have is for data files that are read
 * with calls, but DESCRIPTORS_MIN are always allowed. */
#define DESCRIPTOR_SHARE 8u
#define DESCRIPTORS_MIN  16u

/* How long a log that could not be opened, for want of memory or of permission, is not tried
 * again. */
#define NO_LOG_PAUSE_MS 1000u

/* The view ------------------------------------------------------------------------------------- */

static void close_view(struct direct_view *view)
{
    if (!view)
        return;
    mapguard_remove(view->guard);
    munmap((void *)(uintptr_t)view->base, view->map_bytes);
    free(view);
}

static void release_view(struct direct_retired *retired)
{
    close_view((struct direct_view *)retired);
}

/* Maps the object, with room for it to grow. NULL: no memory. */
static struct direct_view *open_view(int object_fd, uint64_t object_bytes, uint64_t usable_bytes)
{
    struct direct_view *view = object_bytes <= MAX_OBJECT_BYTES ? calloc(1, sizeof *view) : NULL;
    if (!view)
        return NULL;
    uint64_t bytes = FIRST_VIEW_BYTES;
    while (bytes < object_bytes + object_bytes / 2)
        bytes *= 2;
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, object_fd, 0);
    if (at == MAP_FAILED) {
        free(view);
        return NULL;
    }
    view->retired.release = release_view;
    view->base = at;
    view->map_bytes = bytes;
    atomic_init(&view->usable_bytes, usable_bytes);
    view->guard = mapguard_add(at, bytes);
    return view;
}

static uint64_t object_bytes_now(int fd)
{
    struct stat is;
    return fstat(fd, &is) == 0 && is.st_size > 0 ? (uint64_t)is.st_size : 0;
}

/* How many bytes of the object may be touched: those that it has, as far as the daemon shares
 * them. */
static uint64_t object_usable_bytes(const struct shared_store *header, uint64_t object_bytes)
{
    uint64_t shared = __atomic_load_n(&header->shared_bytes, __ATOMIC_ACQUIRE);
    return shared < object_bytes ? shared : object_bytes;
}

bool direct_store_grow(struct direct_store *store)
{
    bool grown = false;
    pthread_mutex_lock(&store->changing);
    struct direct_view *view = direct_store_view(store);
    uint64_t before = atomic_load(&view->usable_bytes);
    uint64_t object_bytes = object_bytes_now(store->object_fd);
    uint64_t usable = object_usable_bytes((const struct shared_store *)view->base, object_bytes);
    if (usable > before && usable <= view->map_bytes) {
        atomic_store(&view->usable_bytes, usable);
        grown = true;
    } else if (usable > before) {
        struct direct_view *larger = open_view(store->object_fd, object_bytes, usable);
        if (larger) {
            atomic_store(&store->view, larger);
            direct_readers_retire(store->readers, &view->retired);
            grown = true;
        }
    }
    pthread_mutex_unlock(&store->changing);
    return grown;
}

/* Finding and checking ------------------------------------------------------------------------- */

/* Returns true if the object may be mapped. Another user who can shorten an object can end a
 * process that maps it: so the object must be of the own user, or open to a group that trusts its
 * members, or the program has asked for such objects. */
static bool object_is_trusted(const struct direct_offer *offer, const struct stat *object)
{
    if (offer->of_any_user || wire_uid_is_own(offer->server_uid))
        return true;
    return (object->st_mode & S_IRGRP) != 0 && wire_gid_is_own(object->st_gid);
}

/* Opens the object that is offered, if it may be mapped. -1: *reason says why not. */
static int direct_open_object(const struct direct_offer *offer, enum direct_reason *reason)
{
    struct shared_store_name name =
        shared_store_numbered_name((dev_t)offer->device, (ino_t)offer->inode, offer->number);
    struct stat is;
    /* Without O_NONBLOCK a lease that its owner holds would keep the caller asleep. */
    int fd = shm_open(name.text, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0) {
        *reason = errno == EACCES || errno == EAGAIN ? DIRECT_OBJECT_DENIED
                  : errno == ENOENT                  ? DIRECT_NO_OBJECT
                                                     : DIRECT_NO_MEMORY;
        return -1;
    }
    bool is_servers = fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == offer->server_uid;
    if (is_servers && object_is_trusted(offer, &is))
        return fd;
    *reason = is_servers ? DIRECT_OF_ANOTHER_USER : DIRECT_OBJECT_FOREIGN;
    close(fd);
    return -1;
}

static enum direct_reason check_object_header(const struct shared_store *header, uint64_t usable)
{
    if (usable < SHARED_STORE_HEADER_BYTES || header->magic != SHARED_STORE_MAGIC)
        return DIRECT_DAMAGED;
    if (header->layout != SHARED_STORE_LAYOUT)
        return DIRECT_OTHER_LAYOUT;
    uint32_t condition = __atomic_load_n(&header->condition, __ATOMIC_ACQUIRE);
    if (condition != SHARED_STORE_IN_USE)
        return condition == SHARED_STORE_RETIRED ? DIRECT_SERVER_ENDED : DIRECT_DAMAGED;
    return DIRECT_IN_USE;
}

/* Copies the constant part of the header, and checks it. */
static enum direct_reason take_constants(struct direct_store *store,
                                         const struct shared_store *header, uint64_t usable)
{
    store->files_offset = header->files_offset;
    store->store_seed = header->store_seed;
    store->hash_key = header->hash_key;
    store->instance = __atomic_load_n(&header->instance, __ATOMIC_ACQUIRE);
    uint64_t files_end =
        store->files_offset + (uint64_t)store->datafiles * sizeof(struct shared_file);
    bool sound = store->files_offset >= SHARED_STORE_HEADER_BYTES &&
                 store->files_offset % sizeof(uint64_t) == 0 && files_end <= usable;
    return sound ? DIRECT_IN_USE : DIRECT_DAMAGED;
}

/* Opens the data directory that the header names, if it is the one of the offer. -1: *reason says
 * why not. */
static int direct_open_directory(const struct shared_store *header,
                                 const struct direct_offer *offer, enum direct_reason *reason)
{
    char dir[SHARED_STORE_DIR_BYTES];
    struct stat is;
    memcpy(dir, header->dir, sizeof dir);
    dir[sizeof dir - 1] = '\0';
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        *reason = errno == EACCES                      ? DIRECT_DIRECTORY_DENIED
                  : errno == EMFILE || errno == ENFILE ? DIRECT_NO_MEMORY
                                                       : DIRECT_NO_DIRECTORY;
        return -1;
    }
    /* Looking at "." needs the permission to enter that opening files needs, too; O_PATH does
     * not. */
    bool may_enter = fstatat(fd, ".", &is, 0) == 0;
    if (may_enter && is.st_dev == offer->device && is.st_ino == offer->inode)
        return fd;
    *reason = !may_enter && errno == EACCES ? DIRECT_DIRECTORY_DENIED : DIRECT_NO_DIRECTORY;
    close(fd);
    return -1;
}

/* How many logs may be open at once. */
static uint32_t log_slots_for(uint32_t datafiles, bool map_logs)
{
    struct rlimit descriptors;
    if (map_logs || getrlimit(RLIMIT_NOFILE, &descriptors) != 0)
        return datafiles;
    uint64_t share = descriptors.rlim_cur / DESCRIPTOR_SHARE;
    if (share < DESCRIPTORS_MIN)
        share = DESCRIPTORS_MIN;
    return share < datafiles ? (uint32_t)share : datafiles;
}

static void release_store(struct direct_retired *retired)
{
    direct_store_close((struct direct_store *)retired);
}

/* Makes a store without object and directory, which owns the descriptor of the server. NULL: no
 * memory. */
static struct direct_store *new_store(const struct direct_offer *offer, uint32_t datafiles,
                                      bool map_logs)
{
    uint32_t slots = log_slots_for(datafiles, map_logs);
    struct direct_store *store = calloc(1, sizeof *store + slots * sizeof store->logs[0]);
    if (!store)
        return NULL;
    store->retired.release = release_store;
    store->datafiles = datafiles;
    store->log_slots = slots;
    store->map_logs = map_logs;
    store->object_fd = -1;
    store->dir_fd = -1;
    store->server = offer->server;
    pthread_mutex_init(&store->changing, NULL);
    return store;
}

/* Makes a store for the view. NULL: *reason says why not, and the descriptor of the server stays
 * the caller's. */
static struct direct_store *make_store(const struct direct_offer *offer, bool map_logs,
                                       const struct direct_view *view, enum direct_reason *reason)
{
    const struct shared_store *header = (const struct shared_store *)view->base;
    uint64_t usable = atomic_load(&view->usable_bytes);
    *reason = check_object_header(header, usable);
    if (*reason != DIRECT_IN_USE)
        return NULL;
    uint32_t datafiles = header->datafiles;
    if (datafiles == 0 || datafiles > MAX_DATAFILES) {
        *reason = DIRECT_DAMAGED;
        return NULL;
    }
    struct direct_store *store = new_store(offer, datafiles, map_logs);
    if (!store) {
        *reason = DIRECT_NO_MEMORY;
        return NULL;
    }
    *reason = take_constants(store, header, usable);
    if (*reason == DIRECT_IN_USE)
        store->dir_fd = direct_open_directory(header, offer, reason);
    if (*reason == DIRECT_IN_USE)
        *reason = check_object_header(header, usable); /* so what was copied was constant */
    if (*reason == DIRECT_IN_USE)
        return store;
    store->server.fd = -1;
    direct_store_close(store);
    return NULL;
}

struct direct_store *direct_store_open(const struct direct_offer *offer, bool map_logs,
                                       uint32_t stale_ms, struct direct_readers *readers,
                                       enum direct_reason *reason)
{
    int object_fd = direct_open_object(offer, reason);
    if (object_fd < 0)
        return NULL;
    uint64_t object_bytes = object_bytes_now(object_fd);
    struct direct_view *view = NULL;
    *reason = DIRECT_DAMAGED;
    if (object_bytes >= SHARED_STORE_HEADER_BYTES && object_bytes <= MAX_OBJECT_BYTES) {
        *reason = DIRECT_NO_MEMORY;
        view = open_view(object_fd, object_bytes, 0);
    }
    struct direct_store *store = NULL;
    if (view) {
        const struct shared_store *header = (const struct shared_store *)view->base;
        atomic_init(&view->usable_bytes, object_usable_bytes(header, object_bytes));
        store = make_store(offer, map_logs, view, reason);
    }
    if (!store) {
        close_view(view);
        close(object_fd);
        return NULL;
    }
    atomic_init(&store->view, view);
    store->readers = readers;
    store->stale_ms = stale_ms;
    store->object_fd = object_fd;
    return store;
}

void direct_store_close(struct direct_store *store)
{
    if (!store)
        return;
    for (uint32_t slot = 0; slot < store->log_slots; slot++)
        direct_log_close(atomic_load(&store->logs[slot]));
    close_view(atomic_load(&store->view));
    int fds[] = {store->object_fd, store->dir_fd, store->server.fd};
    for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&store->changing);
    free(store);
}

/* The daemon ----------------------------------------------------------------------------------- */

bool direct_store_look(struct direct_store *store, uint64_t now_ms)
{
    const struct shared_store *header = (const struct shared_store *)direct_store_view(store)->base;
    struct pollfd end = {.fd = store->server.fd, .events = POLLIN};
    KV_ASSERT(store->server.fd >= 0);
    /* A daemon that has come since has another instance. */
    bool daemon_ended = __atomic_load_n(&header->instance, __ATOMIC_ACQUIRE) != store->instance ||
                        (store->server.is_lane ? wire_lane_server((mqd_t)store->server.fd) == 0
                                               : poll(&end, 1, 0) > 0);
    if (!daemon_ended) {
        atomic_store_explicit(&store->looked_ms, now_ms, memory_order_relaxed);
        return true;
    }
    uint64_t ended_ms = 0;
    if (atomic_compare_exchange_strong(&store->ended_ms, &ended_ms, now_ms))
        ended_ms = now_ms;
    return now_ms - ended_ms < store->stale_ms;
}

/* Only a thread that holds `changing` replaces a view, which may be released then. */
bool direct_store_is_served(struct direct_store *store)
{
    pthread_mutex_lock(&store->changing);
    const struct direct_view *view = direct_store_view(store);
    bool usable = direct_store_is_usable(store, (const struct shared_store *)view->base);
    pthread_mutex_unlock(&store->changing);
    return usable;
}

bool direct_store_is_replaced(struct direct_store *store)
{
    pthread_mutex_lock(&store->changing);
    const struct direct_view *view = direct_store_view(store);
    bool in_use = direct_store_in_use((const struct shared_store *)view->base);
    direct_store_look(store, clock_monotonic_coarse_ms());
    pthread_mutex_unlock(&store->changing);
    return !in_use && !direct_store_has_ended(store);
}

/* Logs ----------------------------------------------------------------------------------------- */

/* Opens the log that *facts describe, or makes more of it usable. NULL: it cannot be had. Holds:
 * store->changing. */
static struct direct_log *open_or_extend_log(struct direct_store *store,
                                             const struct direct_log_facts *facts)
{
    uint32_t slot = facts->file % store->log_slots;
    KV_ASSERT(facts->file < store->datafiles && pthread_mutex_trylock(&store->changing) != 0);
    struct direct_log *log = direct_store_known_log(store, facts->file, facts->generation);
    if (log && (atomic_load(&log->usable_bytes) >= facts->tail ||
                direct_log_extend(log, store->dir_fd, facts)))
        return log;
    errno = 0;
    struct direct_log *opened = direct_log_open(store->dir_fd, facts, store->map_logs);
    if (!opened) {
        if (errno != ENOENT) /* else the generation has just been replaced */
            atomic_store_explicit(&store->no_log_ms, clock_monotonic_coarse_ms(),
                                  memory_order_relaxed);
        return NULL;
    }
    struct direct_log *old = atomic_exchange(&store->logs[slot], opened);
    if (old)
        direct_readers_retire(store->readers, &old->retired);
    return opened;
}

struct direct_log *direct_store_log(struct direct_store *store,
                                    const struct direct_log_facts *facts)
{
    uint64_t no_log_ms = atomic_load_explicit(&store->no_log_ms, memory_order_relaxed);
    if (no_log_ms != 0 && clock_monotonic_coarse_ms() - no_log_ms < NO_LOG_PAUSE_MS)
        return NULL;
    pthread_mutex_lock(&store->changing);
    struct direct_log *log = open_or_extend_log(store, facts);
    if (log && no_log_ms != 0)
        atomic_store_explicit(&store->no_log_ms, 0, memory_order_relaxed);
    pthread_mutex_unlock(&store->changing);
    return log;
}
