#include "tests/explore/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/explore/explore.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/seeded_schedule.h"

#define PAGE          4096u
#define SECTOR        512u
#define FILE_BYTES    (UINT64_C(2) << 20) /* of the largest file */
#define FILE_PAGES    (FILE_BYTES / PAGE)
#define FILES         192u
#define NAMES         128u
#define NAME_BYTES    48u
#define PENDING       64u
#define HANDLES       256u
#define FIRST_HANDLE  (1 << 20) /* no descriptor of the operating system is as high */
#define MAPS          256u
#define SHARED_NAMES  8u
#define SYNC_MAX_NS   UINT64_C(300000)
#define PLENTY_PAGES  (UINT64_C(1) << 20)
#define EAGER_PERCENT 30u /* how often the disk writes of its own accord, at most */
#define DIRECTORIES   4u

/* What stands for a directory where the boot's number is open. */
#define BOOT_DIRECTORY DIRECTORIES
#define BOOT_PATH      "/proc/sys/kernel/random/boot_id"

struct machine_file {
    bool in_use;
    uint8_t *cache; /* what programs see; zeros from `size` on */
    uint8_t *disk;
    uint64_t size, disk_size;
    uint64_t cache_top, disk_top; /* nothing but zeros behind these */
    uint64_t pending_sizes[PENDING];
    unsigned pending_count;
    uint8_t has_block[FILE_PAGES];
    uint8_t is_lost[FILE_PAGES]; /* taken for clean, and not on disk, as long as it is ... */
    uint64_t lost_sum[FILE_PAGES];
    bool has_error;                /* the disk has refused a page, and nobody was told */
    bool stays_in_memory;          /* another program maps it */
    unsigned handles, maps, names; /* in use; names: in the cache or on disk or on the way */
    mode_t mode;
};

struct machine_name {
    unsigned directory;
    char text[NAME_BYTES];
    struct machine_file *file;
};

struct machine_change {
    enum { NAME_SET, NAME_EXCHANGED, NAME_MOVED, NAME_REMOVED } kind;
    struct machine_name name, to;
};

struct directory {
    struct machine_name names[NAMES];
    unsigned count;
};

struct handle {
    bool in_use;
    struct machine_file *file; /* NULL: a directory */
    unsigned directory;
    unsigned process;
    unsigned next; /* of the listing */
};

/* A mapping of a file, or of memory that a process asked for. */
struct map {
    uint8_t *begin;
    size_t bytes;
    struct machine_file *file;
    unsigned process;
};

static struct {
    bool runs;
    struct machine_faults faults;
    struct machine_file files[FILES];
    struct directory cached, on_disk;
    struct machine_change pending[PENDING];
    unsigned pending_count;
    struct handle handles[HANDLES];
    struct map maps[MAPS];
    unsigned map_count;
    char shared_names[SHARED_NAMES][NAME_BYTES];
    unsigned shared_count;
    uint64_t random; /* of the calls */
    uint64_t seed;
    uint32_t cuts;
    uint32_t boots;
    uint32_t die_in; /* calls; 0: never */
    unsigned eager_percent;
    bool has_failed;
    int64_t clock_offset_ms;
    uint64_t latest_ms;
} machine;

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014) */
static uint64_t next_of(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t below(uint64_t *random, uint64_t bound)
{
    return next_of(random) % bound;
}

static bool one_in(uint64_t *random, uint64_t n)
{
    return n != 0 && below(random, n) == 0;
}

/* None, all, or any number between. */
static uint64_t some_of(uint64_t *random, uint64_t most)
{
    uint64_t way = below(random, 3);
    return way == 0 ? 0 : way == 1 ? most : below(random, most + 1);
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Files on disk -------------------------------------------------------------------------------- */

static uint64_t page_sum(const uint8_t *page)
{
    return XXH3_64bits(page, PAGE);
}

/* Whether the page would not be written by a sync, though the disk has something else. */
static bool is_lost(struct machine_file *file, unsigned page)
{
    if (file->is_lost[page] && page_sum(file->cache + page * PAGE) != file->lost_sum[page])
        file->is_lost[page] = false; /* it was changed again */
    return file->is_lost[page];
}

static void lose_page(struct machine_file *file, unsigned page)
{
    file->is_lost[page] = true;
    file->lost_sum[page] = page_sum(file->cache + page * PAGE);
}

static bool is_dirty(struct machine_file *file, unsigned page)
{
    const uint8_t *at = file->cache + page * PAGE;
    if (memcmp(at, file->disk + page * PAGE, PAGE) == 0)
        return false;
    if (!file->has_block[page] && (at[0] != 0 || memcmp(at, at + 1, PAGE - 1) != 0))
        explore_fail("page %u of a file was written through a mapping and has no disk block", page);
    return !is_lost(file, page);
}

static void set_disk_size(struct machine_file *file, uint64_t size)
{
    if (size < file->disk_size) {
        memset(file->disk + size, 0, file->disk_top > size ? file->disk_top - size : 0);
        file->disk_top = at_most(file->disk_top, size);
    }
    file->disk_size = size;
}

static void commit_sizes(struct machine_file *file, uint64_t count)
{
    for (unsigned i = 0; i < count; i++)
        set_disk_size(file, file->pending_sizes[i]);
    file->pending_count -= (unsigned)count;
    memmove(file->pending_sizes, file->pending_sizes + count,
            file->pending_count * sizeof file->pending_sizes[0]);
}

static void note_size(struct machine_file *file, uint64_t size)
{
    if (size == file->size)
        return;
    if (file->pending_count == PENDING)
        commit_sizes(file, 1);
    file->pending_sizes[file->pending_count++] = file->size = size;
}

static void put_on_disk(struct machine_file *file, unsigned page)
{
    uint64_t at = (uint64_t)page * PAGE;
    memcpy(file->disk + at, file->cache + at, at_most(PAGE, file->disk_size - at));
    file->disk_top = at_least(file->disk_top, at_most(at + PAGE, file->disk_size));
}

/* What lies beyond a truncation that is not on disk yet has other blocks there. */
static uint64_t writable_size(const struct machine_file *file)
{
    uint64_t size = file->disk_size;
    for (unsigned i = 0; i < file->pending_count; i++)
        size = at_most(size, (file->pending_sizes[i] + PAGE - 1) / PAGE * PAGE);
    return size;
}

/* Pages from here on are zeros in both. */
static unsigned pages_in_use(struct machine_file *file)
{
    if (file->maps > 0) /* somebody may have stored up to the file's end */
        file->cache_top = file->size;
    return (unsigned)((at_least(file->cache_top, file->disk_top) + PAGE - 1) / PAGE);
}

/* Of the bytes of a sector that change, some get there, from the first on. */
static void tear_sector(uint64_t *random, uint8_t *disk, const uint8_t *cache, uint64_t bytes)
{
    uint64_t first = 0, last = bytes;
    while (first < bytes && disk[first] == cache[first])
        first++;
    while (last > first && disk[last - 1] == cache[last - 1])
        last--;
    memcpy(disk + first, cache + first, below(random, last - first + 1));
}

static void tear_page(uint64_t *random, struct machine_file *file, unsigned page)
{
    uint64_t at = (uint64_t)page * PAGE, end = at_most(at + PAGE, file->disk_size);
    for (; at < end; at += SECTOR) {
        uint64_t bytes = at_most(SECTOR, end - at);
        switch (below(random, 4)) {
        case 0:
            tear_sector(random, file->disk + at, file->cache + at, bytes);
            break;
        case 1:
            break;
        default:
            memcpy(file->disk + at, file->cache + at, bytes);
        }
    }
    file->disk_top = at_least(file->disk_top, end);
}

/* Some of what is not on disk gets there. power_goes: pages may be on their way. */
static void write_back(struct machine_file *file, uint64_t *random, bool power_goes)
{
    commit_sizes(file, some_of(random, file->pending_count));
    if (file->pending_count > 0 && file->pending_sizes[0] > file->disk_size && one_in(random, 2))
        set_disk_size(file,
                      file->disk_size + below(random, file->pending_sizes[0] - file->disk_size));
    uint64_t percent = below(random, 2) == 0 ? some_of(random, 100) : 80;
    uint64_t size = at_most(writable_size(file), (uint64_t)pages_in_use(file) * PAGE);
    for (unsigned page = 0; (uint64_t)page * PAGE < size; page++) {
        if (!is_dirty(file, page))
            continue;
        if (!power_goes && one_in(random, machine.faults.write_back)) {
            lose_page(file, page);
            file->has_error = machine.has_failed = true;
        } else if (below(random, 100) < percent) {
            put_on_disk(file, page);
        } else if (power_goes && one_in(random, 8)) {
            tear_page(random, file, page);
        }
    }
}

static void sync_file(struct machine_file *file)
{
    commit_sizes(file, file->pending_count);
    for (unsigned page = 0, end = pages_in_use(file); page < end; page++)
        if ((uint64_t)page * PAGE < file->disk_size && is_dirty(file, page))
            put_on_disk(file, page);
}

static void fail_to_sync(struct machine_file *file, uint64_t *random)
{
    machine.has_failed = true;
    commit_sizes(file, some_of(random, file->pending_count));
    uint64_t size = at_most(writable_size(file), (uint64_t)pages_in_use(file) * PAGE);
    for (unsigned page = 0; (uint64_t)page * PAGE < size; page++) {
        uint64_t way = below(random, 4);
        if (!is_dirty(file, page))
            continue;
        if (way == 0)
            put_on_disk(file, page);
        else if (way != 1)
            lose_page(file, page);
    }
}

/* The pages that are clean, or taken for it, are read from the disk when they are needed next. */
static void drop_clean_pages(struct machine_file *file, uint64_t from)
{
    if (file->stays_in_memory)
        return;
    for (unsigned page = (unsigned)(from / PAGE), end = pages_in_use(file); page < end; page++) {
        if (!is_lost(file, page))
            continue;
        memcpy(file->cache + page * PAGE, file->disk + page * PAGE, PAGE);
        file->is_lost[page] = false;
    }
}

static uint64_t used_pages(void)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < FILES; i++)
        for (unsigned page = 0; machine.files[i].in_use && page < FILE_PAGES; page++)
            count += machine.files[i].has_block[page];
    return count;
}

static uint64_t free_pages(void)
{
    if (machine.faults.disk_bytes == 0)
        return PLENTY_PAGES;
    uint64_t all = machine.faults.disk_bytes / PAGE, used = used_pages();
    return all > used ? all - used : 0;
}

/* Gives the range blocks, as far as there are any: returns where it ends. */
static uint64_t give_blocks(struct machine_file *file, uint64_t from, uint64_t end)
{
    uint64_t left = UINT64_MAX;
    for (uint64_t page = from / PAGE; page * PAGE < end; page++) {
        if (file->has_block[page])
            continue;
        if (left == UINT64_MAX)
            left = free_pages();
        if (left == 0)
            return at_least(page * PAGE, from);
        left--;
        file->has_block[page] = true;
    }
    return end;
}

/* The files' beginning and end ----------------------------------------------------------------- */

static void reserve_memory(void)
{
    if (machine.files[0].cache)
        return;
    uint8_t *memory = mmap(NULL, FILES * 2 * FILE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        explore_fail("no memory for the machine's files");
    for (unsigned i = 0; i < FILES; i++) {
        machine.files[i].cache = memory + (uint64_t)2 * i * FILE_BYTES;
        machine.files[i].disk = machine.files[i].cache + FILE_BYTES;
    }
}

static void free_file(struct machine_file *file)
{
    file->cache_top = at_least(file->cache_top, file->size); /* it may have been mapped */
    memset(file->cache, 0, file->cache_top);
    memset(file->disk, 0, file->disk_top);
    uint8_t *cache = file->cache, *disk = file->disk;
    memset(file, 0, sizeof *file);
    file->cache = cache;
    file->disk = disk;
}

static void maybe_free(struct machine_file *file)
{
    if (file && file->in_use && file->handles == 0 && file->maps == 0 && file->names == 0)
        free_file(file);
}

static struct machine_file *make_file(mode_t mode)
{
    for (unsigned i = 0; i < FILES; i++) {
        struct machine_file *file = &machine.files[i];
        if (file->in_use)
            continue;
        file->in_use = true;
        file->mode = mode;
        file->stays_in_memory = one_in(&machine.random, 8);
        return file;
    }
    explore_fail("the machine has at most %u files", FILES);
}

/* Names ---------------------------------------------------------------------------------------- */

static struct machine_name *find_name(struct directory *in, unsigned directory, const char *text)
{
    for (unsigned i = 0; i < in->count; i++)
        if (in->names[i].directory == directory && strcmp(in->names[i].text, text) == 0)
            return &in->names[i];
    return NULL;
}

static void remove_name(struct directory *in, const struct machine_name *name)
{
    struct machine_name *found = find_name(in, name->directory, name->text);
    if (!found)
        return;
    struct machine_file *file = found->file;
    *found = in->names[--in->count];
    file->names--;
    maybe_free(file);
}

static void set_name(struct directory *in, const struct machine_name *name,
                     struct machine_file *file)
{
    if (!file)
        explore_fail("a name without a file");
    file->names++;
    remove_name(in, name);
    if (in->count == NAMES)
        explore_fail("the machine has at most %u names", NAMES);
    in->names[in->count] = *name;
    in->names[in->count++].file = file;
}

static void apply_change(struct directory *in, const struct machine_change *change)
{
    switch (change->kind) {
    case NAME_SET:
        set_name(in, &change->name, change->name.file);
        break;
    case NAME_EXCHANGED:
        set_name(in, &change->name, change->to.file);
        set_name(in, &change->to, change->name.file);
        break;
    case NAME_MOVED:
        set_name(in, &change->to, change->name.file);
        remove_name(in, &change->name);
        break;
    case NAME_REMOVED:
        remove_name(in, &change->name);
        break;
    }
}

static void release_change(const struct machine_change *change)
{
    struct machine_file *files[] = {change->name.file, change->to.file};
    for (unsigned i = 0; i < 2; i++)
        if (files[i]) {
            files[i]->names--;
            maybe_free(files[i]);
        }
}

static void commit_names(uint64_t count)
{
    for (unsigned i = 0; i < count; i++) {
        apply_change(&machine.on_disk, &machine.pending[i]);
        release_change(&machine.pending[i]);
    }
    machine.pending_count -= (unsigned)count;
    memmove(machine.pending, machine.pending + count,
            machine.pending_count * sizeof machine.pending[0]);
}

static void change_name(const struct machine_change *change)
{
    if (machine.pending_count == PENDING)
        commit_names(1);
    if (change->name.file)
        change->name.file->names++;
    if (change->to.file)
        change->to.file->names++;
    machine.pending[machine.pending_count++] = *change;
    apply_change(&machine.cached, change);
}

static struct machine_name name_in(unsigned directory, const char *text)
{
    struct machine_name name = {.directory = directory};
    if (strlen(text) >= sizeof name.text)
        explore_fail("the machine's names are shorter than %s", text);
    strcpy(name.text, text);
    struct machine_name *found = find_name(&machine.cached, directory, text);
    name.file = found ? found->file : NULL;
    return name;
}

/* Calls ---------------------------------------------------------------------------------------- */

bool machine_runs(void)
{
    return machine.runs && schedule_is_running();
}

static struct handle *handle_of(int descriptor)
{
    if (descriptor < FIRST_HANDLE || descriptor >= FIRST_HANDLE + (int)HANDLES)
        return NULL;
    struct handle *handle = &machine.handles[descriptor - FIRST_HANDLE];
    return machine.runs && handle->in_use ? handle : NULL;
}

bool machine_has(int descriptor)
{
    return handle_of(descriptor) != NULL;
}

static struct handle *handle_needed(int descriptor)
{
    struct handle *handle = handle_of(descriptor);
    if (!handle)
        explore_fail("a call on a descriptor that is not open");
    return handle;
}

static struct machine_file *file_needed(int descriptor)
{
    struct machine_file *file = handle_needed(descriptor)->file;
    if (!file)
        explore_fail("a call on the descriptor of a directory");
    return file;
}

static int open_handle(struct machine_file *file, unsigned directory)
{
    for (unsigned i = 0; i < HANDLES; i++) {
        struct handle *handle = &machine.handles[i];
        if (handle->in_use)
            continue;
        *handle = (struct handle){true, file, directory, schedule_process(), 0};
        if (file)
            file->handles++;
        return FIRST_HANDLE + (int)i;
    }
    errno = EMFILE;
    return -1;
}

static void close_handle(struct handle *handle)
{
    handle->in_use = false;
    if (handle->file) {
        handle->file->handles--;
        maybe_free(handle->file);
    }
}

static void write_some_back(void)
{
    if (below(&machine.random, 100) >= machine.eager_percent)
        return;
    if (one_in(&machine.random, 4))
        commit_names(some_of(&machine.random, machine.pending_count));
    struct machine_file *file = &machine.files[below(&machine.random, FILES)];
    for (unsigned i = 0; i < FILES && !file->in_use; i++)
        file = &machine.files[(unsigned)(file - machine.files + 1) % FILES];
    if (file->in_use)
        write_back(file, &machine.random, false);
}

/* Begins a call. True: the process is to die in it. */
static bool begin_call(const void *place)
{
    schedule_step(place);
    if (schedule_delays_stores())
        delayed_stores_flush(schedule_thread());
    write_some_back();
    return machine.die_in > 0 && --machine.die_in == 0;
}

static void enter(const void *place)
{
    if (begin_call(place))
        schedule_lose_own(place);
}

static int fail(int error_number)
{
    errno = error_number;
    return -1;
}

static int io_error(void)
{
    machine.has_failed = true;
    return fail(EIO);
}

/* The directory that a path names, or that the name is in. False: it is none of the machine's. */
static bool resolve(int directory, const char *path, unsigned *found, const char **name)
{
    static const char root[] = MACHINE_PATH "/";
    if (!machine.runs)
        return false;
    if (strcmp(path, BOOT_PATH) == 0) {
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
    const struct handle *handle = handle_of(directory);
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
    enter(place);
    if (directory == BOOT_DIRECTORY && machine.faults.boot_untold) {
        *descriptor = fail(ENOENT);
        return true;
    }
    if (strcmp(text, ".") == 0) {
        *descriptor = open_handle(NULL, directory);
        return true;
    }
    struct machine_name name = name_in(directory, text);
    if (name.file && flags & O_CREAT && flags & O_EXCL) {
        *descriptor = fail(EEXIST);
    } else if (name.file) {
        if (flags & O_TRUNC) {
            memset(name.file->cache, 0, at_least(name.file->cache_top, name.file->size));
            memset(name.file->has_block, 0, sizeof name.file->has_block);
            memset(name.file->is_lost, 0, sizeof name.file->is_lost);
            note_size(name.file, 0);
        }
        *descriptor = open_handle(name.file, directory);
    } else if (!(flags & O_CREAT)) {
        *descriptor = fail(ENOENT);
    } else if (free_pages() == 0) {
        *descriptor = fail(ENOSPC);
    } else {
        struct machine_change made = {NAME_SET, name, {0}};
        made.name.file = make_file(mode);
        change_name(&made);
        *descriptor = open_handle(made.name.file, directory);
    }
    return true;
}

int machine_close(int descriptor, const void *place)
{
    enter(place);
    close_handle(handle_needed(descriptor));
    return 0;
}

/* Nobody else locks the machine's files. */
int machine_fcntl(int descriptor, int command, void *argument)
{
    const struct handle *handle = handle_needed(descriptor);
    if (command == F_DUPFD_CLOEXEC)
        return open_handle(handle->file, handle->directory);
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
    facts->st_ino = (ino_t)(16 + (file - machine.files));
    facts->st_mode = S_IFREG | file->mode;
    facts->st_size = (off_t)file->size;
    facts->st_nlink = 0;
    for (unsigned i = 0; i < machine.cached.count; i++)
        facts->st_nlink += machine.cached.names[i].file == file;
    for (unsigned page = 0; page < FILE_PAGES; page++)
        facts->st_blocks += file->has_block[page] * (PAGE / 512);
}

void machine_fstat(int descriptor, struct stat *facts)
{
    const struct handle *handle = handle_needed(descriptor);
    describe(handle->file, handle->directory, facts);
}

bool machine_fstatat(int at, const char *path, struct stat *facts, int *result)
{
    unsigned directory;
    const char *text;
    if (!resolve(at, path, &directory, &text))
        return false;
    struct machine_name name = name_in(directory, text);
    bool is_there = name.file || strcmp(text, ".") == 0;
    *result = is_there ? 0 : fail(ENOENT);
    if (is_there && facts)
        describe(name.file, directory, facts);
    return true;
}

int machine_fchmod(int descriptor, mode_t mode)
{
    struct handle *handle = handle_needed(descriptor);
    if (handle->file)
        handle->file->mode = mode;
    return 0;
}

void machine_statvfs(struct statvfs *facts)
{
    uint64_t free = free_pages();
    *facts = (struct statvfs){.f_bsize = PAGE,
                              .f_frsize = PAGE,
                              .f_blocks = free + used_pages(),
                              .f_bfree = free,
                              .f_bavail = free};
}

off_t machine_lseek(int descriptor, off_t offset, int whence)
{
    const struct machine_file *file = file_needed(descriptor);
    if (whence == SEEK_HOLE)
        return (off_t)file->size;
    return (uint64_t)offset < file->size ? offset : fail(ENXIO);
}

int machine_allocate(int descriptor, off_t offset, off_t bytes, const void *place)
{
    enter(place);
    struct machine_file *file = file_needed(descriptor);
    uint64_t end = (uint64_t)(offset + bytes);
    if (end > FILE_BYTES)
        return fail(ENOSPC);
    uint64_t given = give_blocks(file, (uint64_t)offset, end);
    if (given < end)
        return fail(ENOSPC);
    if (end > file->size)
        note_size(file, end);
    return 0;
}

int machine_punch(int descriptor, off_t bytes, const void *place)
{
    enter(place);
    struct machine_file *file = file_needed(descriptor);
    uint64_t end = at_most((uint64_t)bytes, file->size);
    memset(file->cache, 0, end);
    memset(file->has_block, 0, end / PAGE);
    memset(file->is_lost, 0, end / PAGE);
    return 0;
}

int machine_truncate(int descriptor, off_t bytes, const void *place)
{
    enter(place);
    struct machine_file *file = file_needed(descriptor);
    uint64_t size = (uint64_t)bytes;
    if (size > FILE_BYTES)
        return fail(EFBIG);
    if (size < file->size) {
        uint64_t first = (size + PAGE - 1) / PAGE;
        memset(file->cache + size, 0, file->size - size);
        memset(file->has_block + first, 0, FILE_PAGES - first);
        memset(file->is_lost + first, 0, FILE_PAGES - first);
    }
    note_size(file, size);
    return 0;
}

static ssize_t read_boot(void *to, size_t bytes, off_t offset)
{
    char text[64];
    size_t length =
        (size_t)snprintf(text, sizeof text, "%08x-0000-4000-8000-%012llx\n", machine.boots + 1,
                         (unsigned long long)(machine.seed & 0xffffffffffff));
    if ((size_t)offset >= length)
        return 0;
    bytes = at_most(bytes, length - (size_t)offset);
    memcpy(to, text + offset, bytes);
    return (ssize_t)bytes;
}

ssize_t machine_pread(int descriptor, void *to, size_t bytes, off_t offset, const void *place)
{
    enter(place);
    if (handle_needed(descriptor)->directory == BOOT_DIRECTORY)
        return read_boot(to, bytes, offset);
    struct machine_file *file = file_needed(descriptor);
    if (one_in(&machine.random, machine.faults.reads))
        return io_error();
    if ((uint64_t)offset >= file->size)
        return 0;
    bytes = at_most(bytes, file->size - (uint64_t)offset);
    if (one_in(&machine.random, machine.faults.interrupts)) {
        if (one_in(&machine.random, 2))
            return fail(EINTR);
        if (bytes > 1)
            bytes = 1 + below(&machine.random, bytes);
    }
    memcpy(to, file->cache + offset, bytes);
    return (ssize_t)bytes;
}

static size_t put_bytes(struct machine_file *file, const void *from, uint64_t bytes,
                        uint64_t offset)
{
    if (offset + bytes > FILE_BYTES)
        bytes = offset < FILE_BYTES ? FILE_BYTES - offset : 0;
    bytes = give_blocks(file, offset, offset + bytes) - offset;
    if (bytes == 0)
        return 0;
    memcpy(file->cache + offset, from, bytes);
    file->cache_top = at_least(file->cache_top, offset + bytes);
    for (uint64_t page = offset / PAGE; page * PAGE < offset + bytes; page++)
        file->is_lost[page] = false;
    if (offset + bytes > file->size)
        note_size(file, offset + bytes);
    return bytes;
}

ssize_t machine_pwrite(int descriptor, const void *from, size_t bytes, off_t offset,
                       const void *place)
{
    bool dies = begin_call(place);
    struct machine_file *file = file_needed(descriptor);
    bool fails = one_in(&machine.random, machine.faults.writes);
    size_t part = bytes;
    if (dies || fails)
        part = at_most(some_of(&machine.random, (bytes + PAGE - 1) / PAGE) * PAGE, bytes);
    else if (bytes >= SECTOR && one_in(&machine.random, machine.faults.interrupts))
        part = below(&machine.random, bytes);
    if (part == 0 && !dies && !fails && bytes > 0)
        return fail(EINTR);
    size_t done = put_bytes(file, from, part, (uint64_t)offset);
    if (dies)
        schedule_lose_own(place);
    if (fails)
        return io_error();
    return done == 0 && bytes > 0 ? fail(ENOSPC) : (ssize_t)done;
}

static bool never(const void *what)
{
    (void)what;
    return false;
}

static void take_time(const void *place)
{
    schedule_wait(never, NULL, schedule_clock_ns() + below(&machine.random, SYNC_MAX_NS), place);
}

int machine_fsync(int descriptor, const void *place)
{
    bool dies = begin_call(place);
    const struct handle *handle = handle_needed(descriptor);
    struct machine_file *file = handle->file;
    bool fails = one_in(&machine.random, file ? machine.faults.syncs : machine.faults.dir_syncs);
    if (dies && file)
        write_back(file, &machine.random, false);
    if (dies)
        schedule_lose_own(place);
    bool is_slow = one_in(&machine.random, 2); /* what is written meanwhile is covered then */
    if (is_slow)
        take_time(place);
    if (!file)
        commit_names(fails ? some_of(&machine.random, machine.pending_count)
                           : machine.pending_count);
    else if (fails)
        fail_to_sync(file, &machine.random);
    else
        sync_file(file);
    if (file && file->has_error) {
        file->has_error = false;
        fails = true;
    }
    if (!is_slow)
        take_time(place);
    return fails ? io_error() : 0;
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
                                    name_in(directory, from), name_in(directory, to)};
    *result = change.name.file && (change.to.file || !exchange) ? 0 : fail(ENOENT);
    if (*result == 0)
        change_name(&change);
    return true;
}

bool machine_unlink(int at, const char *path, int *result, const void *place)
{
    unsigned directory;
    const char *text;
    if (!resolve(at, path, &directory, &text))
        return false;
    struct machine_change removed = {NAME_REMOVED, name_in(directory, text), {0}};
    if (!removed.name.file) { /* thousands of these, when a store is made */
        *result = fail(ENOENT);
        return true;
    }
    enter(place);
    *result = 0;
    removed.name = name_in(directory, text);
    if (removed.name.file)
        change_name(&removed);
    return true;
}

/* Listing -------------------------------------------------------------------------------------- */

struct dirent *machine_list(int descriptor)
{
    static struct dirent entry;
    struct handle *handle = handle_needed(descriptor);
    while (handle->next < machine.cached.count) {
        const struct machine_name *name = &machine.cached.names[handle->next++];
        if (name->directory != handle->directory)
            continue;
        strcpy(entry.d_name, name->text);
        return &entry;
    }
    return NULL;
}

/* Memory --------------------------------------------------------------------------------------- */

static void add_map(uint8_t *begin, size_t bytes, struct machine_file *file)
{
    if (machine.map_count == MAPS)
        explore_fail("the machine has at most %u mappings", MAPS);
    machine.maps[machine.map_count++] = (struct map){begin, bytes, file, schedule_process()};
}

/* A mapping that others may see shows the page cache itself; a private one is a copy. */
void *machine_map(size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
    struct machine_file *file = file_needed(descriptor);
    (void)protection;
    if (bytes > FILE_BYTES || (uint64_t)offset + bytes > FILE_BYTES) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (flags & MAP_SHARED) {
        if (offset == 0) {
            file->maps++;
            add_map(file->cache, bytes, file);
        }
        return file->cache + offset;
    }
    uint8_t *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED)
        return copy;
    memcpy(copy, file->cache + offset, at_most(bytes, file->size - (uint64_t)offset));
    add_map(copy, bytes, NULL);
    return copy;
}

/* Memory of the operating system's, which goes with its process. */
void machine_note_map(void *begin, size_t bytes)
{
    const uint8_t *at = begin;
    for (unsigned i = 0; i < machine.map_count; i++) {
        const struct map *map = &machine.maps[i];
        if (at >= map->begin && at + bytes <= map->begin + map->bytes)
            return;
    }
    add_map(begin, bytes, NULL);
}

static bool is_in_files(const uint8_t *at)
{
    return machine.files[0].cache && at >= machine.files[0].cache &&
           at < machine.files[0].cache + FILES * 2 * FILE_BYTES;
}

bool machine_has_memory(const void *at)
{
    return machine.runs && is_in_files(at);
}

static void drop_map(struct map *map)
{
    struct machine_file *file = map->file;
    *map = machine.maps[--machine.map_count];
    if (file) {
        file->cache_top = file->size;
        file->maps--;
        maybe_free(file);
    }
}

/* True: it was a file's, and nothing is left to do. */
bool machine_unmap(void *begin, size_t bytes)
{
    uint8_t *from = begin, *end = from + bytes;
    bool is_file = machine_has_memory(begin);
    for (unsigned i = 0; i < machine.map_count; i++) {
        struct map *map = &machine.maps[i];
        uint8_t *map_end = map->begin + map->bytes;
        if (from >= map_end || end <= map->begin || (is_file && !map->file) ||
            map->process != schedule_process())
            continue;
        if (is_file || (from <= map->begin && end >= map_end)) {
            drop_map(map);
            if (is_file)
                return true;
            i--;
        } else if (from <= map->begin) {
            map->begin = end;
            map->bytes = (size_t)(map_end - end);
        } else {
            map->bytes = (size_t)(from - map->begin);
            if (end < map_end)
                add_map(end, (size_t)(map_end - end), NULL);
        }
    }
    return is_file;
}

void machine_forget(int descriptor, off_t offset)
{
    drop_clean_pages(file_needed(descriptor), (uint64_t)offset);
}

void machine_in_memory(const void *at, size_t bytes, unsigned char *pages)
{
    size_t number = (size_t)((const uint8_t *)at - machine.files[0].cache) / (2 * FILE_BYTES);
    memset(pages, machine.files[number].stays_in_memory, (bytes + PAGE - 1) / PAGE);
}

void machine_note_shared(const char *name)
{
    for (unsigned i = 0; i < machine.shared_count; i++)
        if (strcmp(machine.shared_names[i], name) == 0)
            return;
    if (machine.shared_count == SHARED_NAMES || strlen(name) >= NAME_BYTES)
        explore_fail("too many shared objects, or too long a name: %s", name);
    strcpy(machine.shared_names[machine.shared_count++], name);
}

/* Clock and boot ------------------------------------------------------------------------------- */

uint64_t machine_clock_ns(uint64_t clock_ns)
{
    /* Some day in 2026. */
    uint64_t now_ns =
        clock_ns + UINT64_C(1790000000000000000) + (uint64_t)(machine.clock_offset_ms * 1000000);
    machine.latest_ms = at_least(machine.latest_ms, now_ns / 1000000);
    return now_ns;
}

/* The machine ---------------------------------------------------------------------------------- */

static void forget_everything(void)
{
    while (machine.map_count > 0) {
        struct map map = machine.maps[machine.map_count - 1];
        drop_map(&machine.maps[machine.map_count - 1]);
        if (!map.file)
            munmap(map.begin, map.bytes);
    }
    for (unsigned i = 0; i < FILES; i++)
        if (machine.files[i].in_use)
            free_file(&machine.files[i]);
    for (unsigned i = 0; i < machine.shared_count; i++)
        shm_unlink(machine.shared_names[i]);
    memset(machine.handles, 0, sizeof machine.handles);
    machine.cached.count = machine.on_disk.count = machine.pending_count = 0;
    machine.shared_count = 0;
}

void machine_begin(void)
{
    reserve_memory();
    forget_everything();
    memset(&machine.faults, 0, sizeof machine.faults);
    machine.runs = true;
    machine.seed = machine.random = schedule_random();
    machine.cuts = machine.boots = machine.die_in = 0;
    machine.eager_percent = (unsigned)some_of(&machine.random, EAGER_PERCENT);
    machine.has_failed = false;
    machine.clock_offset_ms = 0;
    machine.latest_ms = 0;
}

void machine_end(void)
{
    forget_everything();
    machine.runs = false;
}

static struct kept {
    unsigned count;
    struct kept_file {
        struct machine_name name;
        mode_t mode;
        uint64_t size, top;
        uint8_t *content;
    } files[NAMES];
} kept[MACHINE_KEPT];

void machine_keep(unsigned number)
{
    for (unsigned i = 0; i < machine.cached.count; i++) {
        const struct machine_file *file = machine.cached.names[i].file;
        uint64_t top = at_most(file->cache_top, file->size);
        uint8_t *content = malloc(top + 1);
        if (!content)
            explore_fail("no memory for what the machine keeps");
        memcpy(content, file->cache, top);
        kept[number].files[i] =
            (struct kept_file){machine.cached.names[i], file->mode, file->size, top, content};
        kept[number].count = i + 1;
    }
}

bool machine_put_back(unsigned number)
{
    for (unsigned i = 0; i < kept[number].count; i++) {
        const struct kept_file *from = &kept[number].files[i];
        struct machine_file *file = make_file(from->mode);
        memcpy(file->cache, from->content, from->top);
        memcpy(file->disk, from->content, from->top);
        file->cache_top = file->disk_top = from->top;
        file->size = file->disk_size = from->size;
        memset(file->has_block, true, (from->size + PAGE - 1) / PAGE);
        set_name(&machine.cached, &from->name, file);
        set_name(&machine.on_disk, &from->name, file);
    }
    return kept[number].count > 0;
}

void machine_set_faults(const struct machine_faults *faults)
{
    machine.faults = *faults;
}

bool machine_has_failed(void)
{
    return machine.has_failed;
}

void machine_die_at(uint32_t count)
{
    machine.die_in = count;
}

void machine_bury(unsigned process)
{
    for (unsigned i = 0; i < HANDLES; i++)
        if (machine.handles[i].in_use && machine.handles[i].process == process)
            close_handle(&machine.handles[i]);
    for (unsigned i = machine.map_count; i-- > 0;) {
        struct map map = machine.maps[i];
        if (map.process != process)
            continue;
        drop_map(&machine.maps[i]);
        if (!map.file)
            munmap(map.begin, map.bytes);
    }
    machine.die_in = 0;
}

static void wake_up(struct machine_file *file, uint64_t *random)
{
    write_back(file, random, true);
    set_disk_size(file, file->disk_size); /* what lies beyond is gone */
    file->cache_top = at_least(file->cache_top, file->size);
    memset(file->cache, 0, file->cache_top);
    memcpy(file->cache, file->disk, file->disk_top);
    file->cache_top = file->disk_top;
    file->size = file->disk_size;
    file->pending_count = 0;
    file->has_error = false;
    memset(file->is_lost, 0, sizeof file->is_lost);
    bool is_sparse =
        one_in(random, 2); /* blocks that were not written to were not given for good */
    for (unsigned page = 0; page < FILE_PAGES; page++) {
        const uint8_t *at = file->cache + page * PAGE;
        bool is_there = (uint64_t)page * PAGE < file->size;
        bool is_zero = !is_there || (at[0] == 0 && memcmp(at, at + 1, PAGE - 1) == 0);
        file->has_block[page] = is_there && !(is_zero && is_sparse);
    }
}

void machine_cut_power(void)
{
    uint64_t random = machine.seed + ++machine.cuts;
    commit_names(some_of(&random, machine.pending_count));
    for (; machine.pending_count > 0; machine.pending_count--)
        release_change(&machine.pending[machine.pending_count - 1]);
    for (unsigned i = 0; i < machine.on_disk.count; i++)
        machine.on_disk.names[i].file->names++;
    while (machine.cached.count > 0) {
        struct machine_name name = machine.cached.names[0];
        remove_name(&machine.cached, &name);
    }
    machine.cached = machine.on_disk;
    for (unsigned i = 0; i < FILES; i++)
        if (machine.files[i].in_use)
            wake_up(&machine.files[i], &random);
    for (unsigned i = 0; i < machine.shared_count; i++)
        shm_unlink(machine.shared_names[i]);
    machine.shared_count = 0;
    machine.boots++;
    machine.has_failed = false;
}

void machine_move_clock(int64_t by_ms)
{
    machine.clock_offset_ms += by_ms;
}

uint64_t machine_latest_ms(void)
{
    return machine.latest_ms;
}
