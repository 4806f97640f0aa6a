#include "tests/support/fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "kvstore/log/fileio.h"

static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault_plan current_plan;           /* guarded by plan_lock */
static atomic_ulong calls[FAULT_CALL_COUNT + 1]; /* the last counts all */
static atomic_bool installed;                    /* a plan is: calls count */
static atomic_bool fired;
static atomic_ulong writes_failed;

static struct fault_plan plan_now(void)
{
    pthread_mutex_lock(&plan_lock);
    struct fault_plan plan = current_plan;
    pthread_mutex_unlock(&plan_lock);
    return plan;
}

/* Counts a call; true, with errno set, if it has to fail. */
static bool fails(enum fault_call call)
{
    if (!atomic_load(&installed))
        return false;
    unsigned long of_its_kind = atomic_fetch_add(&calls[call], 1) + 1;
    unsigned long of_all = atomic_fetch_add(&calls[FAULT_ANY], 1) + 1;
    struct fault_plan plan = plan_now();
    if (plan.nth == 0 || (plan.call != FAULT_ANY && plan.call != call))
        return false;
    unsigned long number = plan.call == FAULT_ANY ? of_all : of_its_kind;
    if (number < plan.nth || (plan.length != 0 && number - plan.nth >= plan.length))
        return false;
    atomic_store(&fired, true);
    errno = plan.error;
    return true;
}

static int fault_open_at(int dir_fd, const char *name, int flags, mode_t mode)
{
    return fails(FAULT_OPEN) ? -1 : fileio_system.open_at(dir_fd, name, flags, mode);
}

static int fault_allocate(int fd, off_t offset, off_t size)
{
    return fails(FAULT_ALLOCATE) ? -1 : fileio_system.allocate(fd, offset, size);
}

static int fault_punch(int fd, off_t size)
{
    return fileio_system.punch(fd, size);
}

static int fault_truncate(int fd, off_t size)
{
    return fails(FAULT_TRUNCATE) ? -1 : fileio_system.truncate(fd, size);
}

typedef ssize_t (*read_call)(int fd, void *data, size_t size, off_t offset);

static ssize_t fault_read(read_call system_read, int fd, void *data, size_t size, off_t offset)
{
    if (!fails(FAULT_READ))
        return system_read(fd, data, size, offset);
    struct fault_plan plan = plan_now();
    if (plan.effect == FAULT_FAILS)
        return -1;
    ssize_t got = system_read(fd, data, size, offset);
    if (got <= (ssize_t)plan.read_bytes)
        return got;
    if (plan.effect == FAULT_SHORTENS)
        return (ssize_t)plan.read_bytes;
    ((unsigned char *)data)[plan.read_bytes] ^= 1;
    return got;
}

static ssize_t fault_read_at(int fd, void *data, size_t size, off_t offset)
{
    return fault_read(fileio_system.read_at, fd, data, size, offset);
}

static ssize_t fault_read_direct_at(int fd, void *data, size_t size, off_t offset)
{
    return fault_read(fileio_system.read_direct_at, fd, data, size, offset);
}

static ssize_t fault_write_at(int fd, const void *data, size_t size, off_t offset)
{
    if (!fails(FAULT_WRITE))
        return fileio_system.write_at(fd, data, size, offset);
    struct fault_plan plan = plan_now();
    bool is_first = atomic_fetch_add(&writes_failed, 1) == 0;
    size_t part = plan.written_bytes < size ? plan.written_bytes : size;
    if (plan.only_first_writes && !is_first)
        part = 0;
    if (part > 0)
        fileio_system.write_at(fd, data, part, offset);
    errno = plan.error;
    return -1;
}

static int fault_zero(int fd, size_t size, off_t offset)
{
    return fails(FAULT_ZERO) ? -1 : fileio_system.zero(fd, size, offset);
}

static int fault_sync_data(int fd)
{
    return fails(FAULT_SYNC_DATA) ? -1 : fileio_system.sync_data(fd);
}

static int fault_sync_dir(int dir_fd)
{
    return fails(FAULT_SYNC_DIR) ? -1 : fileio_system.sync_dir(dir_fd);
}

static int fault_rename_at(int dir_fd, const char *from, const char *to)
{
    return fails(FAULT_RENAME) ? -1 : fileio_system.rename_at(dir_fd, from, to);
}

static int fault_exchange_at(int dir_fd, const char *one, const char *other)
{
    return fails(FAULT_EXCHANGE) ? -1 : fileio_system.exchange_at(dir_fd, one, other);
}

static int fault_unlink_at(int dir_fd, const char *name)
{
    return fails(FAULT_UNLINK) ? -1 : fileio_system.unlink_at(dir_fd, name);
}

static void *fault_map(size_t size, int protection, int fd)
{
    return fails(FAULT_MAP) ? MAP_FAILED : fileio_system.map(size, protection, fd);
}

static int fault_unmap(void *at, size_t size)
{
    return fails(FAULT_UNMAP) ? -1 : fileio_system.unmap(at, size);
}

static int fault_populate(void *at, size_t size)
{
    return fails(FAULT_POPULATE) ? -1 : fileio_system.populate(at, size);
}

/* Has no way to fail. */
static void fault_forget(int fd, void *at, size_t size, off_t offset)
{
    fileio_system.forget(fd, at, size, offset);
}

static void fault_boot_id(uint8_t id[16])
{
    fileio_system.boot_id(id);
}

static const struct fileio fault_table = {
    .open_at = fault_open_at,
    .allocate = fault_allocate,
    .truncate = fault_truncate,
    .punch = fault_punch,
    .read_at = fault_read_at,
    .read_direct_at = fault_read_direct_at,
    .write_at = fault_write_at,
    .zero = fault_zero,
    .sync_data = fault_sync_data,
    .sync_dir = fault_sync_dir,
    .rename_at = fault_rename_at,
    .exchange_at = fault_exchange_at,
    .unlink_at = fault_unlink_at,
    .map = fault_map,
    .unmap = fault_unmap,
    .populate = fault_populate,
    .forget = fault_forget,
    .boot_id = fault_boot_id,
};

const char *fault_call_name(enum fault_call call)
{
    static const char *const names[FAULT_CALL_COUNT + 1] = {
        [FAULT_OPEN] = "open",           [FAULT_ALLOCATE] = "allocate",
        [FAULT_TRUNCATE] = "truncate",   [FAULT_READ] = "read",
        [FAULT_WRITE] = "write",         [FAULT_ZERO] = "zero",
        [FAULT_SYNC_DATA] = "sync_data", [FAULT_SYNC_DIR] = "sync_dir",
        [FAULT_RENAME] = "rename",       [FAULT_EXCHANGE] = "exchange",
        [FAULT_UNLINK] = "unlink",       [FAULT_MAP] = "map",
        [FAULT_UNMAP] = "unmap",         [FAULT_POPULATE] = "populate",
        [FAULT_ANY] = "any call",
    };
    return names[call];
}

static void set_plan(struct fault_plan plan)
{
    pthread_mutex_lock(&plan_lock);
    current_plan = plan;
    pthread_mutex_unlock(&plan_lock);
}

/* The table is in place from the start, so that a plan may come while a store's threads run. */
__attribute__((constructor)) static void stand_in(void)
{
    fileio = &fault_table;
}

void fault_install(const struct fault_plan *plan)
{
    for (int call = 0; call <= FAULT_ANY; call++)
        atomic_store(&calls[call], 0);
    atomic_store(&fired, false);
    atomic_store(&writes_failed, 0);
    set_plan(*plan);
    atomic_store(&installed, true);
    if (fileio != &fault_table)
        fileio = &fault_table;
}

void fault_clear(void)
{
    atomic_store(&installed, false);
}

unsigned long fault_calls(enum fault_call call)
{
    return atomic_load(&calls[call]);
}

bool fault_has_fired(void)
{
    return atomic_load(&fired);
}
