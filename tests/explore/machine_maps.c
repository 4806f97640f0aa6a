#include "tests/explore/machine_maps.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/explore/explore.h"
#include "tests/explore/machine_calls.h"
#include "tests/explore/machine_handles.h"
#include "tests/explore/machine_names.h"
#include "tests/explore/seeded_schedule.h"

#define MAPS         256u
#define SHARED_NAMES 8u

/* A mapping of a file, or of memory that a process asked for. */
struct map {
    uint8_t *begin;
    size_t bytes;
    struct machine_file *file;
    unsigned process;
};

static struct map maps[MAPS];
static unsigned map_count;
static char shared_names[SHARED_NAMES][MACHINE_NAME_BYTES];
static unsigned shared_count;

static void add_map(uint8_t *begin, size_t bytes, struct machine_file *file)
{
    if (map_count == MAPS)
        explore_fail("the machine has at most %u mappings", MAPS);
    maps[map_count++] = (struct map){begin, bytes, file, schedule_process()};
}

/* A mapping that others may see shows the page cache itself; a private one is a copy. */
void *machine_map(size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
    struct machine_file *file = machine_handle_file(descriptor);
    (void)protection;
    if (bytes > MACHINE_FILE_BYTES || (uint64_t)offset + bytes > MACHINE_FILE_BYTES) {
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
    for (unsigned i = 0; i < map_count; i++) {
        const struct map *map = &maps[i];
        if (at >= map->begin && at + bytes <= map->begin + map->bytes)
            return;
    }
    add_map(begin, bytes, NULL);
}

bool machine_has_memory(const void *at)
{
    return machine_is_on() && machine_file_at(at);
}

static void drop_map(struct map *map)
{
    struct machine_file *file = map->file;
    *map = maps[--map_count];
    if (file) {
        file->cache_top = file->size;
        file->maps--;
        machine_file_release(file);
    }
}

/* True: it was a file's, and nothing is left to do. */
bool machine_unmap(void *begin, size_t bytes)
{
    uint8_t *from = begin, *end = from + bytes;
    bool is_file = machine_has_memory(begin);
    for (unsigned i = 0; i < map_count; i++) {
        struct map *map = &maps[i];
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

void machine_maps_forget(void)
{
    while (map_count > 0) {
        struct map map = maps[map_count - 1];
        drop_map(&maps[map_count - 1]);
        if (!map.file)
            munmap(map.begin, map.bytes);
    }
}

void machine_maps_bury(unsigned process)
{
    for (unsigned i = map_count; i-- > 0;) {
        struct map map = maps[i];
        if (map.process != process)
            continue;
        drop_map(&maps[i]);
        if (!map.file)
            munmap(map.begin, map.bytes);
    }
}

void machine_forget(int descriptor, off_t offset)
{
    machine_file_forget_clean(machine_handle_file(descriptor), (uint64_t)offset);
}

void machine_in_memory(const void *at, size_t bytes, unsigned char *pages)
{
    memset(pages, machine_file_at(at)->stays_in_memory,
           (bytes + MACHINE_PAGE_BYTES - 1) / MACHINE_PAGE_BYTES);
}

/* Shared memory -------------------------------------------------------------------------------- */

void machine_note_shared(const char *name)
{
    for (unsigned i = 0; i < shared_count; i++)
        if (strcmp(shared_names[i], name) == 0)
            return;
    if (shared_count == SHARED_NAMES || strlen(name) >= MACHINE_NAME_BYTES)
        explore_fail("too many shared objects, or too long a name: %s", name);
    strcpy(shared_names[shared_count++], name);
}

void machine_shared_forget(void)
{
    for (unsigned i = 0; i < shared_count; i++)
        shm_unlink(shared_names[i]);
    shared_count = 0;
}
