#include "tests/support/powercut.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kvstore/log/fileio.h"
#include "tests/support/disk_file.h"

#define MAX_FILES         512 /* that were ever there; each holds a descriptor */
#define MAX_PENDING_NAMES 64
#define NAME_BYTES        32
#define SYNC_MAX_NS       300000u
#define UNTRACKED_NAME    "lock" /* a second descriptor, closed, would take the lock away */
#define EAGERNESS_PERCENT 30     /* at most */

struct name {
    char text[NAME_BYTES];
};

struct disk_entry {
    struct name name;
    struct disk_file *file;
};

struct name_change {
    enum { NAME_MADE, NAME_MOVED, NAME_EXCHANGED, NAME_REMOVED } kind;
    struct name name; /* NAME_MOVED: the old one */
    struct name to;
    struct disk_file *file; /* NAME_MADE */
};

/* Covers all that follows. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct random_state internal_random;
static struct disk_file *files[MAX_FILES];
static size_t file_count;
static struct disk_entry entries[MAX_FILES]; /* of the directory, on disk */
static size_t entry_count;
static struct name_change pending_names[MAX_PENDING_NAMES];
static size_t pending_name_count;
static ino_t dir_inode;
static uint64_t
    eagerness_percent; /* how often the disk writes of its own accord: a lazy one loses more */

static void (*hook)(void *context);
static void *hook_context;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "powercut: %s: %s\n", what, strerror(errno));
    abort();
}

static struct name name_of(const char *text)
{
    struct name name;
    require(strlen(text) < sizeof name.text, text);
    strcpy(name.text, text);
    return name;
}

/* NULL: it is not looked after. */
static struct disk_file *file_of(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return NULL;
    for (size_t i = 0; i < file_count; i++)
        if (disk_file_inode(files[i]) == facts.st_ino)
            return files[i];
    return NULL;
}

static struct disk_file *add_file(int dir_fd, const char *name, size_t disk_size)
{
    require(file_count < MAX_FILES, "too many files");
    files[file_count] = disk_file_watch(dir_fd, name, disk_size);
    return files[file_count++];
}

/* Names ---------------------------------------------------------------------------------------- */

static void remove_entry(const struct name *name)
{
    for (size_t i = 0; i < entry_count; i++) {
        if (strcmp(entries[i].name.text, name->text) == 0) {
            entries[i] = entries[--entry_count];
            return;
        }
    }
}

static struct disk_file *find_entry(const struct name *name)
{
    for (size_t i = 0; i < entry_count; i++)
        if (strcmp(entries[i].name.text, name->text) == 0)
            return entries[i].file;
    return NULL;
}

static void set_entry(const struct name *name, struct disk_file *file)
{
    remove_entry(name);
    entries[entry_count++] = (struct disk_entry){*name, file};
}

static void commit_name(const struct name_change *change)
{
    struct disk_file *moved = find_entry(&change->name);
    switch (change->kind) {
    case NAME_MADE:
        set_entry(&change->name, change->file);
        break;
    case NAME_MOVED:
        remove_entry(&change->name);
        set_entry(&change->to, moved);
        break;
    case NAME_EXCHANGED:
        set_entry(&change->name, find_entry(&change->to));
        set_entry(&change->to, moved);
        break;
    case NAME_REMOVED:
        remove_entry(&change->name);
        break;
    }
}

static void commit_names(size_t count)
{
    for (size_t i = 0; i < count; i++)
        commit_name(&pending_names[i]);
    pending_name_count -= count;
    memmove(pending_names, pending_names + count, pending_name_count * sizeof pending_names[0]);
}

static void note_name(const struct name_change *change)
{
    if (pending_name_count == MAX_PENDING_NAMES)
        commit_names(1);
    pending_names[pending_name_count++] = *change;
}

static bool is_tracked(int dir_fd, const char *name)
{
    struct stat facts;
    return fstat(dir_fd, &facts) == 0 && facts.st_ino == dir_inode &&
           strcmp(name, UNTRACKED_NAME) != 0;
}

/* The table ------------------------------------------------------------------------------------ */

static void write_back_some(void)
{
    if (random_below(&internal_random, 100) >= eagerness_percent)
        return;
    if (random_below(&internal_random, 4) == 0)
        commit_names(disk_some_of(&internal_random, pending_name_count));
    if (file_count > 0)
        disk_file_write_back(files[random_below(&internal_random, file_count)], &internal_random);
}

/* Begins a call that changes something: it ends with end_call. */
static void begin_call(void)
{
    if (hook)
        hook(hook_context);
    pthread_mutex_lock(&mutex);
    write_back_some();
}

static void end_call(void)
{
    int saved = errno;
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

/* The rest of a sync, whose effect is on disk. */
static void end_slow_call(void)
{
    struct timespec pause = {.tv_nsec = (long)random_below(&internal_random, SYNC_MAX_NS)};
    end_call();
    nanosleep(&pause, NULL);
}

static int powercut_open_at(int dir_fd, const char *name, int flags, mode_t mode)
{
    if (!(flags & O_CREAT) || !is_tracked(dir_fd, name))
        return fileio_system.open_at(dir_fd, name, flags, mode);
    begin_call();
    bool existed = faccessat(dir_fd, name, F_OK, 0) == 0;
    int fd = fileio_system.open_at(dir_fd, name, flags, mode);
    if (fd >= 0 && existed) {
        disk_file_note_size(file_of(fd));
    } else if (fd >= 0) {
        struct name_change made = {NAME_MADE, name_of(name), name_of(""),
                                   add_file(dir_fd, name, 0)};
        note_name(&made);
    }
    end_call();
    return fd;
}

static int powercut_allocate(int fd, off_t offset, off_t size)
{
    begin_call();
    struct disk_file *file = file_of(fd);
    int result = fileio_system.allocate(fd, offset, size);
    if (file)
        disk_file_note_size(file);
    end_call();
    return result;
}

static int powercut_truncate(int fd, off_t size)
{
    begin_call();
    struct disk_file *file = file_of(fd);
    int result = fileio_system.truncate(fd, size);
    if (file)
        disk_file_note_size(file);
    end_call();
    return result;
}

static ssize_t powercut_write_at(int fd, const void *data, size_t size, off_t offset)
{
    begin_call();
    struct disk_file *file = file_of(fd);
    ssize_t result = fileio_system.write_at(fd, data, size, offset);
    if (file)
        disk_file_note_size(file);
    end_call();
    return result;
}

static int powercut_sync_data(int fd)
{
    begin_call();
    struct disk_file *file = file_of(fd);
    if (file)
        disk_file_sync(file);
    end_slow_call();
    return 0;
}

static int powercut_sync_dir(int dir_fd)
{
    (void)dir_fd;
    begin_call();
    commit_names(pending_name_count);
    end_slow_call();
    return 0;
}

static int powercut_rename_at(int dir_fd, const char *from, const char *to)
{
    begin_call();
    int result = fileio_system.rename_at(dir_fd, from, to);
    struct name_change moved = {NAME_MOVED, name_of(from), name_of(to), NULL};
    if (result == 0)
        note_name(&moved);
    end_call();
    return result;
}

static int powercut_exchange_at(int dir_fd, const char *one, const char *other)
{
    begin_call();
    int result = fileio_system.exchange_at(dir_fd, one, other);
    struct name_change exchanged = {NAME_EXCHANGED, name_of(one), name_of(other), NULL};
    if (result == 0)
        note_name(&exchanged);
    end_call();
    return result;
}

static int powercut_unlink_at(int dir_fd, const char *name)
{
    if (faccessat(dir_fd, name, F_OK, 0) != 0) /* changes nothing */
        return fileio_system.unlink_at(dir_fd, name);
    begin_call();
    int result = fileio_system.unlink_at(dir_fd, name);
    struct name_change removed = {NAME_REMOVED, name_of(name), name_of(""), NULL};
    if (result == 0)
        note_name(&removed);
    end_call();
    return result;
}

/* Each time the power is back the machine starts anew. */
static uint64_t boot_number;

static void powercut_boot_id(uint8_t id[16])
{
    memset(id, 1, 16);
    memcpy(id, &boot_number, sizeof boot_number);
}

static struct fileio powercut_table;

void powercut_install(const char *dir, uint64_t seed)
{
    struct stat facts;
    random_seed(&internal_random, seed);
    boot_number = seed;
    eagerness_percent = disk_some_of(&internal_random, EAGERNESS_PERCENT);
    DIR *listing = opendir(dir);
    require(listing && fstat(dirfd(listing), &facts) == 0, dir);
    dir_inode = facts.st_ino;
    for (const struct dirent *found; (found = readdir(listing));) {
        if (found->d_name[0] == '.' || strcmp(found->d_name, UNTRACKED_NAME) == 0)
            continue;
        require(fstatat(dirfd(listing), found->d_name, &facts, 0) == 0, found->d_name);
        struct name name = name_of(found->d_name);
        set_entry(&name, add_file(dirfd(listing), found->d_name, (size_t)facts.st_size));
    }
    closedir(listing);

    powercut_table = fileio_system;
    powercut_table.open_at = powercut_open_at;
    powercut_table.allocate = powercut_allocate;
    powercut_table.truncate = powercut_truncate;
    powercut_table.write_at = powercut_write_at;
    powercut_table.sync_data = powercut_sync_data;
    powercut_table.sync_dir = powercut_sync_dir;
    powercut_table.rename_at = powercut_rename_at;
    powercut_table.exchange_at = powercut_exchange_at;
    powercut_table.unlink_at = powercut_unlink_at;
    powercut_table.boot_id = powercut_boot_id;
    fileio = &powercut_table;
}

void powercut_clear(void)
{
    fileio = &fileio_system;
    for (size_t i = 0; i < file_count; i++)
        disk_file_free(files[i]);
    file_count = entry_count = pending_name_count = 0;
    hook = NULL;
}

void powercut_set_hook(void (*new_hook)(void *context), void *context)
{
    hook = new_hook;
    hook_context = context;
}

void powercut_write_back(void)
{
    pthread_mutex_lock(&mutex);
    write_back_some();
    pthread_mutex_unlock(&mutex);
}

void powercut_cut(void)
{
    pthread_mutex_lock(&mutex);
}

void powercut_go_on(void)
{
    pthread_mutex_unlock(&mutex);
}

/* What the last moment brings to the disk might have got there without a cut, too: it stays. */
void powercut_restore(const char *dir_out, struct random_state *random)
{
    int dir_fd = open(dir_out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(dir_fd >= 0, dir_out);
    commit_names(disk_some_of(random, pending_name_count));
    for (size_t i = 0; i < entry_count; i++) {
        disk_file_write_back(entries[i].file, random);
        disk_file_restore(entries[i].file, dir_fd, entries[i].name.text);
    }
    close(dir_fd);
}

/* Every state ---------------------------------------------------------------------------------- */

#define MAX_STATES (UINT64_C(1) << 62)

/* The directory on disk, put aside while it is as some of the pending names make it. */
static struct disk_entry kept_entries[MAX_FILES];
static size_t kept_entry_count;

static void look_at_names(size_t count)
{
    memcpy(kept_entries, entries, entry_count * sizeof entries[0]);
    kept_entry_count = entry_count;
    for (size_t i = 0; i < count; i++)
        commit_name(&pending_names[i]);
}

static void look_no_more(void)
{
    memcpy(entries, kept_entries, kept_entry_count * sizeof entries[0]);
    entry_count = kept_entry_count;
}

static uint64_t product(uint64_t a, uint64_t b)
{
    return b != 0 && a > MAX_STATES / b ? MAX_STATES : a * b;
}

/* Of the files that have names once so many of the pending names are there. */
static uint64_t states_with_names(size_t count)
{
    uint64_t states = 1;
    look_at_names(count);
    for (size_t i = 0; i < entry_count; i++)
        states = product(states, disk_file_states(entries[i].file));
    look_no_more();
    return states;
}

uint64_t powercut_states(void)
{
    uint64_t states = 0;
    for (size_t names = 0; names <= pending_name_count; names++)
        states = states_with_names(names) > MAX_STATES - states ? MAX_STATES
                                                                : states + states_with_names(names);
    return states;
}

void powercut_restore_state(const char *dir_out, uint64_t state)
{
    int dir_fd = open(dir_out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(dir_fd >= 0, dir_out);
    size_t names = 0;
    for (uint64_t states; names < pending_name_count; names++, state -= states)
        if (state < (states = states_with_names(names)))
            break;
    look_at_names(names);
    for (size_t i = 0; i < entry_count; i++) {
        uint64_t states = disk_file_states(entries[i].file);
        disk_file_restore_state(entries[i].file, state % states, dir_fd, entries[i].name.text);
        state /= states;
    }
    look_no_more();
    close(dir_fd);
}
