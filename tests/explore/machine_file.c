#include "tests/explore/machine_file.h"

#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "tests/explore/explore.h"
#include "tests/explore/machine_faults.h"
#include "tests/explore/seeded_numbers.h"

#define SECTOR_BYTES 512u
#define FILES        192u
#define PLENTY_PAGES (UINT64_C(1) << 20)

static struct machine_file files[FILES];

/* What is on disk ------------------------------------------------------------------------------ */

static uint64_t page_sum(const uint8_t *page)
{
    return XXH3_64bits(page, MACHINE_PAGE_BYTES);
}

/* Whether the page would not be written by a sync, though the disk has something else. */
static bool is_lost(struct machine_file *file, unsigned page)
{
    if (file->is_lost[page] &&
        page_sum(file->cache + page * MACHINE_PAGE_BYTES) != file->lost_sum[page])
        file->is_lost[page] = false; /* it was changed again */
    return file->is_lost[page];
}

static void lose_page(struct machine_file *file, unsigned page)
{
    file->is_lost[page] = true;
    file->lost_sum[page] = page_sum(file->cache + page * MACHINE_PAGE_BYTES);
}

static bool is_dirty(struct machine_file *file, unsigned page)
{
    const uint8_t *at = file->cache + page * MACHINE_PAGE_BYTES;
    if (memcmp(at, file->disk + page * MACHINE_PAGE_BYTES, MACHINE_PAGE_BYTES) == 0)
        return false;
    if (!file->has_block[page] && (at[0] != 0 || memcmp(at, at + 1, MACHINE_PAGE_BYTES - 1) != 0))
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

void machine_file_set_size(struct machine_file *file, uint64_t size)
{
    if (size == file->size)
        return;
    if (file->pending_count == PENDING_SIZES)
        commit_sizes(file, 1);
    file->pending_sizes[file->pending_count++] = file->size = size;
}

static void put_on_disk(struct machine_file *file, unsigned page)
{
    uint64_t at = (uint64_t)page * MACHINE_PAGE_BYTES;
    memcpy(file->disk + at, file->cache + at, at_most(MACHINE_PAGE_BYTES, file->disk_size - at));
    file->disk_top = at_least(file->disk_top, at_most(at + MACHINE_PAGE_BYTES, file->disk_size));
}

/* What lies beyond a truncation that is not on disk yet has other blocks there. */
static uint64_t writable_size(const struct machine_file *file)
{
    uint64_t size = file->disk_size;
    for (unsigned i = 0; i < file->pending_count; i++)
        size = at_most(size, (file->pending_sizes[i] + MACHINE_PAGE_BYTES - 1) /
                                 MACHINE_PAGE_BYTES * MACHINE_PAGE_BYTES);
    return size;
}

/* Pages from here on are zeros in both. */
static unsigned pages_in_use(struct machine_file *file)
{
    if (file->maps > 0) /* somebody may have stored up to the file's end */
        file->cache_top = file->size;
    return (unsigned)((at_least(file->cache_top, file->disk_top) + MACHINE_PAGE_BYTES - 1) /
                      MACHINE_PAGE_BYTES);
}

/* Of the bytes of a sector that change, some get there, from the first on. */
static void tear_sector(uint64_t *random, uint8_t *disk, const uint8_t *cache, uint64_t bytes)
{
    uint64_t first = 0, last = bytes;
    while (first < bytes && disk[first] == cache[first])
        first++;
    while (last > first && disk[last - 1] == cache[last - 1])
        last--;
    memcpy(disk + first, cache + first, seeded_below(random, last - first + 1));
}

static void tear_page(uint64_t *random, struct machine_file *file, unsigned page)
{
    uint64_t at = (uint64_t)page * MACHINE_PAGE_BYTES,
             end = at_most(at + MACHINE_PAGE_BYTES, file->disk_size);
    for (; at < end; at += SECTOR_BYTES) {
        uint64_t bytes = at_most(SECTOR_BYTES, end - at);
        switch (seeded_below(random, 4)) {
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
void machine_file_write_back(struct machine_file *file, uint64_t *random, bool power_goes)
{
    commit_sizes(file, seeded_some_of(random, file->pending_count));
    if (file->pending_count > 0 && file->pending_sizes[0] > file->disk_size &&
        seeded_one_in(random, 2))
        set_disk_size(file, file->disk_size +
                                seeded_below(random, file->pending_sizes[0] - file->disk_size));
    uint64_t percent = seeded_below(random, 2) == 0 ? seeded_some_of(random, 100) : 80;
    uint64_t size = at_most(writable_size(file), (uint64_t)pages_in_use(file) * MACHINE_PAGE_BYTES);
    for (unsigned page = 0; (uint64_t)page * MACHINE_PAGE_BYTES < size; page++) {
        if (!is_dirty(file, page))
            continue;
        if (!power_goes && seeded_one_in(random, faults.rates.write_back)) {
            lose_page(file, page);
            file->has_error = faults.has_failed = true;
        } else if (seeded_below(random, 100) < percent) {
            put_on_disk(file, page);
        } else if (power_goes && seeded_one_in(random, 8)) {
            tear_page(random, file, page);
        }
    }
}

void machine_file_sync(struct machine_file *file)
{
    commit_sizes(file, file->pending_count);
    for (unsigned page = 0, end = pages_in_use(file); page < end; page++)
        if ((uint64_t)page * MACHINE_PAGE_BYTES < file->disk_size && is_dirty(file, page))
            put_on_disk(file, page);
}

void machine_file_fail_to_sync(struct machine_file *file, uint64_t *random)
{
    faults.has_failed = true;
    commit_sizes(file, seeded_some_of(random, file->pending_count));
    uint64_t size = at_most(writable_size(file), (uint64_t)pages_in_use(file) * MACHINE_PAGE_BYTES);
    for (unsigned page = 0; (uint64_t)page * MACHINE_PAGE_BYTES < size; page++) {
        uint64_t way = seeded_below(random, 4);
        if (!is_dirty(file, page))
            continue;
        if (way == 0)
            put_on_disk(file, page);
        else if (way != 1)
            lose_page(file, page);
    }
}

/* The pages that are clean, or taken for it, are read from the disk when they are needed next. */
void machine_file_forget_clean(struct machine_file *file, uint64_t from)
{
    if (file->stays_in_memory)
        return;
    for (unsigned page = (unsigned)(from / MACHINE_PAGE_BYTES), end = pages_in_use(file);
         page < end; page++) {
        if (!is_lost(file, page))
            continue;
        memcpy(file->cache + page * MACHINE_PAGE_BYTES, file->disk + page * MACHINE_PAGE_BYTES,
               MACHINE_PAGE_BYTES);
        file->is_lost[page] = false;
    }
}

/* Blocks --------------------------------------------------------------------------------------- */

uint64_t machine_used_pages(void)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < FILES; i++)
        for (unsigned page = 0; files[i].in_use && page < MACHINE_FILE_PAGES; page++)
            count += files[i].has_block[page];
    return count;
}

uint64_t machine_free_pages(void)
{
    if (faults.rates.disk_bytes == 0)
        return PLENTY_PAGES;
    uint64_t all = faults.rates.disk_bytes / MACHINE_PAGE_BYTES, used = machine_used_pages();
    return all > used ? all - used : 0;
}

/* Gives the range blocks, as far as there are any: returns where it ends. */
uint64_t machine_file_give_blocks(struct machine_file *file, uint64_t from, uint64_t end)
{
    uint64_t left = UINT64_MAX;
    for (uint64_t page = from / MACHINE_PAGE_BYTES; page * MACHINE_PAGE_BYTES < end; page++) {
        if (file->has_block[page])
            continue;
        if (left == UINT64_MAX)
            left = machine_free_pages();
        if (left == 0)
            return at_least(page * MACHINE_PAGE_BYTES, from);
        left--;
        file->has_block[page] = true;
    }
    return end;
}

void machine_file_take_blocks(struct machine_file *file, uint64_t from, uint64_t end)
{
    uint64_t first = (from + MACHINE_PAGE_BYTES - 1) / MACHINE_PAGE_BYTES,
             last = end / MACHINE_PAGE_BYTES;
    if (first >= last)
        return;
    memset(file->has_block + first, 0, last - first);
    memset(file->is_lost + first, 0, last - first);
}

uint64_t machine_file_put(struct machine_file *file, const void *from, uint64_t bytes,
                          uint64_t offset)
{
    if (offset + bytes > MACHINE_FILE_BYTES)
        bytes = offset < MACHINE_FILE_BYTES ? MACHINE_FILE_BYTES - offset : 0;
    bytes = machine_file_give_blocks(file, offset, offset + bytes) - offset;
    if (bytes == 0)
        return 0;
    memcpy(file->cache + offset, from, bytes);
    file->cache_top = at_least(file->cache_top, offset + bytes);
    for (uint64_t page = offset / MACHINE_PAGE_BYTES; page * MACHINE_PAGE_BYTES < offset + bytes;
         page++)
        file->is_lost[page] = false;
    if (offset + bytes > file->size)
        machine_file_set_size(file, offset + bytes);
    return bytes;
}

/* The files' beginning and end ----------------------------------------------------------------- */

static void reserve_memory(void)
{
    if (files[0].cache)
        return;
    uint8_t *memory = mmap(NULL, FILES * 2 * MACHINE_FILE_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        explore_fail("no memory for the machine's files");
    for (unsigned i = 0; i < FILES; i++) {
        files[i].cache = memory + (uint64_t)2 * i * MACHINE_FILE_BYTES;
        files[i].disk = files[i].cache + MACHINE_FILE_BYTES;
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

void machine_files_forget(void)
{
    for (unsigned i = 0; i < FILES; i++)
        if (files[i].in_use)
            free_file(&files[i]);
}

void machine_file_release(struct machine_file *file)
{
    if (file && file->in_use && file->handles == 0 && file->maps == 0 && file->names == 0)
        free_file(file);
}

struct machine_file *machine_file_make(mode_t mode)
{
    reserve_memory();
    for (unsigned i = 0; i < FILES; i++) {
        struct machine_file *file = &files[i];
        if (file->in_use)
            continue;
        file->in_use = true;
        file->mode = mode;
        file->stays_in_memory = seeded_one_in(&faults.random, 8);
        return file;
    }
    explore_fail("the machine has at most %u files", FILES);
}

struct machine_file *machine_file_at(const void *memory)
{
    const uint8_t *at = memory, *begin = files[0].cache;
    return begin && at >= begin && at < begin + FILES * 2 * MACHINE_FILE_BYTES
               ? &files[(size_t)(at - begin) / (2 * MACHINE_FILE_BYTES)]
               : NULL;
}

unsigned machine_file_number(const struct machine_file *file)
{
    return (unsigned)(file - files);
}

struct machine_file *machine_file_any(uint64_t *random)
{
    struct machine_file *file = &files[seeded_below(random, FILES)];
    for (unsigned i = 0; i < FILES && !file->in_use; i++)
        file = &files[(unsigned)(file - files + 1) % FILES];
    return file->in_use ? file : NULL;
}

/* States --------------------------------------------------------------------------------------- */

#define FATES_MOST 12u /* of pages, each there or not */

/* Brings those pages to the disk whose fate is a bit that is set; returns how many there are that
 * could be. */
static unsigned choose_pages(struct machine_file *file, uint64_t fates)
{
    unsigned pages = 0;
    uint64_t size = at_most(writable_size(file), (uint64_t)pages_in_use(file) * MACHINE_PAGE_BYTES);
    for (unsigned page = 0; (uint64_t)page * MACHINE_PAGE_BYTES < size; page++)
        if (is_dirty(file, page) && fates >> (pages++ % FATES_MOST) & 1)
            put_on_disk(file, page);
    return pages;
}

/* Of a file of which so many new lengths get to the disk. */
static uint64_t states_with_sizes(const struct machine_file *file, uint64_t sizes)
{
    static uint8_t disk[MACHINE_FILE_BYTES]; /* zeros between two calls */
    struct machine_file trial = *file;
    trial.disk = disk;
    memcpy(disk, file->disk, file->disk_top);
    commit_sizes(&trial, sizes);
    unsigned pages = choose_pages(&trial, 0);
    memset(disk, 0, file->disk_top);
    return UINT64_C(1) << at_most(pages, FATES_MOST);
}

uint64_t machine_file_states(const struct machine_file *file)
{
    uint64_t states = 0;
    for (unsigned sizes = 0; sizes <= file->pending_count; sizes++)
        states += states_with_sizes(file, sizes);
    return states;
}

void machine_file_take_state(struct machine_file *file, uint64_t state)
{
    unsigned sizes = 0;
    for (uint64_t states; sizes < file->pending_count; sizes++, state -= states)
        if (state < (states = states_with_sizes(file, sizes)))
            break;
    commit_sizes(file, sizes);
    choose_pages(file, state);
}

/* The power comes back ------------------------------------------------------------------------- */

static void wake_up(struct machine_file *file, uint64_t *random)
{
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
        seeded_one_in(random, 2); /* blocks that were not written to were not given for good */
    for (unsigned page = 0; page < MACHINE_FILE_PAGES; page++) {
        const uint8_t *at = file->cache + page * MACHINE_PAGE_BYTES;
        bool is_there = (uint64_t)page * MACHINE_PAGE_BYTES < file->size;
        bool is_zero = !is_there || (at[0] == 0 && memcmp(at, at + 1, MACHINE_PAGE_BYTES - 1) == 0);
        file->has_block[page] = is_there && !(is_zero && is_sparse);
    }
}

void machine_files_wake_up_as_they_are(uint64_t *random)
{
    for (unsigned i = 0; i < FILES; i++)
        if (files[i].in_use)
            wake_up(&files[i], random);
}

void machine_files_wake_up(uint64_t *random)
{
    for (unsigned i = 0; i < FILES; i++)
        if (files[i].in_use) {
            machine_file_write_back(&files[i], random, true);
            wake_up(&files[i], random);
        }
}
