#include "tests/explore/machine_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "tests/explore/machine.h"
#include "tests/explore/machine_clock.h"
#include "tests/explore/machine_faults.h"
#include "tests/explore/machine_handles.h"
#include "tests/explore/machine_names.h"
#include "tests/explore/seeded_numbers.h"
#include "tests/explore/seeded_schedule.h"

#define SYNC_MAX_NS  UINT64_C(300000)
#define SECTOR_BYTES 512u
#define DIRECTORIES  4u

/* What stands for a directory where the boot's number is open. */
#define BOOT_DIRECTORY DIRECTORIES

bool machine_has(int descriptor)
{
    return machine_is_on() && machine_handle_of(descriptor) != NULL;
}

static void write_some_back(void)
{
    if (!machine_is_eager())
        return;
    if (seeded_one_in(&faults.random, 4))
        machine_names_commit(seeded_some_of(&faults.random, machine_names_pending()));
    struct machine_file *file = machine_file_any(&faults.random);
    if (file)
        machine_file_write_back(file, &faults.random, false);
}

/* Begins a call. True: the process is to die in it. */
static bool begin_call(const void *place)
{
    schedule_step(place);
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    write_some_back();
    return machine_faults_kill();
}

static void enter(const void *place)
{
    if (begin_call(place))
        schedule_lose_own(place);
}

/* The directory that a path names, or that the name is in. False: it is none of the machine's. */
static bool resolve(int directory, const char *path, unsigned *found, const char **name)
{
    static const char root[] = MACHINE_PATH "/";
    if (!machine_is_on())
        return false;
    if (strcmp(path, MACHINE_BOOT_PATH) == 0) {
        *found = BOOT_DIRECTORY;
        *name = ".";
        return true;
    }
    if (path[0] == '/') {
        if (strncmp(path, root, sizeof root - 1) != 0)
            return false;
        *found = (unsigned)(path[sizeof root - 1] - 'a');
        *name = path[sizeof root] == '/' ? path + sizeof root + 1 : ".";
        return *found < DIRECTORIES;
    }
    const struct machine_handle *handle = machine_handle_of(directory);
    if (!handle || handle->file)
        return false;
    *found = handle->directory;
    *name = path;
    return true;
}

bool machine_openat(int at, const char *path, int flags, mode_t mode, int *descriptor,
                    const void *place)
{
    unsigned directory;
    const char *text;
    if (!resolve(at, path, &directory, &text))
        return false;
    bool names_file = directory != BOOT_DIRECTORY && strcmp(text, ".") != 0;
    if (names_file && !(flags & O_CREAT) && !machine_names_find(directory, text).file) {
        *descriptor = machine_fail(ENOENT); /* thousands of these, when a store is made */
        return true;
    }
    enter(place);
    if (directory == BOOT_DIRECTORY && faults.rates.boot_untold) {
        *descriptor = machine_fail(ENOENT);
        return true;
    }
    if (strcmp(text, ".") == 0) {
        *descriptor = machine_handle_open(NULL, directory);
        return true;
    }
    struct machine_name name = machine_names_find(directory, text);
    if (name.file && flags & O_CREAT && flags & O_EXCL) {
        *descriptor = machine_fail(EEXIST);
    } else if (name.file) {
        if (flags & O_TRUNC) {
            memset(name.file->cache, 0, at_least(name.file->cache_top, name.file->size));
            machine_file_take_blocks(name.file, 0, MACHINE_FILE_BYTES);
            machine_file_set_size(name.file, 0);
        }
        *descriptor = machine_handle_open(name.file, directory);
    } else if (!(flags & O_CREAT)) {
        *descriptor = machine_fail(ENOENT);
    } else if (machine_free_pages() == 0) {
        *descriptor = machine_fail(ENOSPC);
    } else {
        struct machine_change made = {NAME_SET, name, {0}};
        made.name.file = machine_file_make(mode);
        made.name.file->changed_ns = machine_clock_now_ns();
        machine_names_change(&made);
        *descriptor = machine_handle_open(made.name.file, directory);
    }
    if (*descriptor >= 0)
        machine_handle(*descriptor)->appends = flags & O_APPEND;
    return true;
}

int machine_close(int descriptor, const void *place)
{
    enter(place);
    machine_handle_close(machine_handle(descriptor));
    return 0;
}

/* Nobody else locks the machine's files. */
int machine_fcntl(int descriptor, int command, void *argument)
{
    const struct machine_handle *handle = machine_handle(descriptor);
    if (command == F_DUPFD_CLOEXEC)
        return machine_handle_open(handle->file, handle->directory);
    if (command == F_GETLK)
        ((struct flock *)argument)->l_type = F_UNLCK;
    return 0;
}

static void describe(const struct machine_file *file, unsigned directory, struct stat *facts)
{
    *facts = (struct stat){.st_dev = (dev_t)getpid(),
                           .st_ino = 2 + directory,
                           .st_mode = S_IFDIR | 0700,
                           .st_nlink = 2,
                           .st_uid = geteuid(),
                           .st_gid = getegid()};
    if (!file)
        return;
    facts->st_ino = 16 + (ino_t)machine_file_number(file);
    facts->st_mode = S_IFREG | file->mode;
    facts->st_size = (off_t)file->size;
    facts->st_ctim = (struct timespec){(time_t)(file->changed_ns / 1000000000),
                                       (long)(file->changed_ns % 1000000000)};
    facts->st_nlink = 0;
    const struct machine_name *name;
    for (unsigned i = 0; (name = machine_names_nth(i)); i++)
        facts->st_nlink += name->file == file;
    for (unsigned page = 0; page < MACHINE_FILE_PAGES; page++)
        facts->st_blocks += file->has_block[page] * (MACHINE_PAGE_BYTES / 512);
}

void machine_fstat(int descriptor, struct stat *facts)
{
    const struct machine_handle *handle = machine_handle(descriptor);
    describe(handle->file, handle->directory, facts);
}

bool machine_fstatat(int at, const char *path, struct stat *facts, int *result)
{
    unsigned directory;
    const char *text;
    if (!resolve(at, path, &directory, &text))
        return false;
    struct machine_name name = machine_names_find(directory, text);
    bool is_there = name.file || strcmp(text, ".") == 0;
    *result = is_there ? 0 : machine_fail(ENOENT);
    if (is_there && facts)
        describe(name.file, directory, facts);
    return true;
}

int machine_fchmod(int descriptor, mode_t mode)
{
    struct machine_handle *handle = machine_handle(descriptor);
    if (handle->file)
        handle->file->mode = mode;
    return 0;
}

void machine_statvfs(struct statvfs *facts)
{
    uint64_t free = machine_free_pages();
    *facts = (struct statvfs){.f_bsize = MACHINE_PAGE_BYTES,
                              .f_frsize = MACHINE_PAGE_BYTES,
                              .f_blocks = free + machine_used_pages(),
                              .f_bfree = free,
                              .f_bavail = free};
}

off_t machine_lseek(int descriptor, off_t offset, int whence)
{
    const struct machine_file *file = machine_handle_file(descriptor);
    struct machine_handle *handle = machine_handle(descriptor);
    if (whence == SEEK_HOLE)
        return (off_t)file->size;
    if (whence == SEEK_SET || whence == SEEK_CUR || whence == SEEK_END) {
        off_t from = whence == SEEK_CUR ? handle->position : 0;
        from += whence == SEEK_END ? (off_t)file->size : 0;
        if (offset < -from)
            return machine_fail(EINVAL);
        return handle->position = from + offset;
    }
    return (uint64_t)offset < file->size ? offset : machine_fail(ENXIO);
}

int machine_allocate(int descriptor, off_t offset, off_t bytes, const void *place)
{
    enter(place);
    struct machine_file *file = machine_handle_file(descriptor);
    uint64_t end = (uint64_t)(offset + bytes);
    if (end > MACHINE_FILE_BYTES)
        return machine_fail(ENOSPC);
    uint64_t given = machine_file_give_blocks(file, (uint64_t)offset, end);
    if (given < end)
        return machine_fail(ENOSPC);
    if (end > file->size)
        machine_file_set_size(file, end);
    return 0;
}

int machine_punch(int descriptor, off_t bytes, const void *place)
{
    enter(place);
    struct machine_file *file = machine_handle_file(descriptor);
    uint64_t end = at_most((uint64_t)bytes, file->size);
    memset(file->cache, 0, end);
    machine_file_take_blocks(file, 0, end);
    return 0;
}

int machine_truncate(int descriptor, off_t bytes, const void *place)
{
    enter(place);
    struct machine_file *file = machine_handle_file(descriptor);
    uint64_t size = (uint64_t)bytes;
    if (size > MACHINE_FILE_BYTES)
        return machine_fail(EFBIG);
    if (size < file->size) {
        memset(file->cache + size, 0, file->size - size);
        machine_file_take_blocks(file, size, MACHINE_FILE_BYTES);
    }
    machine_file_set_size(file, size);
    return 0;
}

ssize_t machine_pread(int descriptor, void *to, size_t bytes, off_t offset, const void *place)
{
    enter(place);
    if (machine_handle(descriptor)->directory == BOOT_DIRECTORY)
        return machine_read_boot(to, bytes, offset);
    struct machine_file *file = machine_handle_file(descriptor);
    if (seeded_one_in(&faults.random, faults.rates.reads))
        return machine_fail_io();
    if ((uint64_t)offset >= file->size)
        return 0;
    bytes = at_most(bytes, file->size - (uint64_t)offset);
    if (seeded_one_in(&faults.random, faults.rates.interrupts)) {
        if (seeded_one_in(&faults.random, 2))
            return machine_fail(EINTR);
        if (bytes > 1)
            bytes = 1 + seeded_below(&faults.random, bytes);
    }
    memcpy(to, file->cache + offset, bytes);
    return (ssize_t)bytes;
}

ssize_t machine_pwrite(int descriptor, const void *from, size_t bytes, off_t offset,
                       const void *place)
{
    bool dies = begin_call(place);
    struct machine_file *file = machine_handle_file(descriptor);
    bool fails = seeded_one_in(&faults.random, faults.rates.writes);
    size_t part = bytes;
    if (dies || fails)
        part = at_most(
            seeded_some_of(&faults.random, (bytes + MACHINE_PAGE_BYTES - 1) / MACHINE_PAGE_BYTES) *
                MACHINE_PAGE_BYTES,
            bytes);
    else if (bytes >= SECTOR_BYTES && seeded_one_in(&faults.random, faults.rates.interrupts))
        part = seeded_below(&faults.random, bytes);
    if (part == 0 && !dies && !fails && bytes > 0)
        return machine_fail(EINTR);
    size_t done = machine_file_put(file, from, part, (uint64_t)offset);
    file->changed_ns = machine_clock_now_ns();
    if (dies)
        schedule_lose_own(place);
    if (fails)
        return machine_fail_io();
    return done == 0 && bytes > 0 ? machine_fail(ENOSPC) : (ssize_t)done;
}

ssize_t machine_read(int descriptor, void *to, size_t bytes, const void *place)
{
    ssize_t done =
        machine_pread(descriptor, to, bytes, machine_handle(descriptor)->position, place);
    if (done > 0)
        machine_handle(descriptor)->position += done;
    return done;
}

ssize_t machine_write(int descriptor, const void *from, size_t bytes, const void *place)
{
    const struct machine_handle *handle = machine_handle(descriptor);
    off_t at = handle->appends ? (off_t)machine_handle_file(descriptor)->size : handle->position;
    ssize_t done = machine_pwrite(descriptor, from, bytes, at, place);
    if (done > 0)
        machine_handle(descriptor)->position = at + done;
    return done;
}

static bool never(const void *what)
{
    (void)what;
    return false;
}

static void take_time(const void *place)
{
    schedule_wait(never, NULL, schedule_clock_ns() + seeded_below(&faults.random, SYNC_MAX_NS),
                  place);
}

int machine_fsync(int descriptor, const void *place)
{
    bool dies = begin_call(place);
    const struct machine_handle *handle = machine_handle(descriptor);
    struct machine_file *file = handle->file;
    bool fails = seeded_one_in(&faults.random, file ? faults.rates.syncs : faults.rates.dir_syncs);
    if (dies && file)
        machine_file_write_back(file, &faults.random, false);
    if (dies)
        schedule_lose_own(place);
    bool is_slow = seeded_one_in(&faults.random, 2); /* what is written meanwhile is covered then */
    if (is_slow)
        take_time(place);
    if (!file)
        machine_names_commit(fails ? seeded_some_of(&faults.random, machine_names_pending())
                                   : machine_names_pending());
    else if (fails)
        machine_file_fail_to_sync(file, &faults.random);
    else
        machine_file_sync(file);
    if (file && file->has_error) {
        file->has_error = false;
        fails = true;
    }
    if (!is_slow)
        take_time(place);
    return fails ? machine_fail_io() : 0;
}

bool machine_rename(int at, const char *from, const char *to, bool exchange, int *result,
                    const void *place)
{
    unsigned directory;
    const char *text;
    if (!resolve(at, from, &directory, &text))
        return false;
    enter(place);
    struct machine_change change = {exchange ? NAME_EXCHANGED : NAME_MOVED,
                                    machine_names_find(directory, from),
                                    machine_names_find(directory, to)};
    if (!change.name.file || (exchange && !change.to.file)) {
        *result = machine_fail(ENOENT);
        return true;
    }
    *result = 0;
    machine_names_change(&change);
    change.name.file->changed_ns = machine_clock_now_ns();
    if (exchange)
        change.to.file->changed_ns = machine_clock_now_ns();
    return true;
}

bool machine_unlink(int at, const char *path, int *result, const void *place)
{
    unsigned directory;
    const char *text;
    if (!resolve(at, path, &directory, &text))
        return false;
    struct machine_change removed = {NAME_REMOVED, machine_names_find(directory, text), {0}};
    if (!removed.name.file) { /* thousands of these, when a store is made */
        *result = machine_fail(ENOENT);
        return true;
    }
    enter(place);
    *result = 0;
    removed.name = machine_names_find(directory, text);
    if (removed.name.file)
        machine_names_change(&removed);
    return true;
}

struct dirent *machine_list(int descriptor)
{
    static struct dirent entry;
    struct machine_handle *handle = machine_handle(descriptor);
    const struct machine_name *name;
    while ((name = machine_names_nth(handle->next))) {
        handle->next++;
        if (name->directory != handle->directory)
            continue;
        strcpy(entry.d_name, name->text);
        return &entry;
    }
    return NULL;
}
