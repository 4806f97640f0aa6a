/*
 * machine_file: a file as programs see it in the page cache, and beside it what the disk has of it
 * by now: pages, lengths and blocks. machine.h says how the disk behaves.
 */
#ifndef MQKV_TESTS_EXPLORE_MACHINE_FILE_H
#define MQKV_TESTS_EXPLORE_MACHINE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MACHINE_PAGE_BYTES 4096u
#define MACHINE_FILE_BYTES (UINT64_C(2) << 20) /* of the largest file */
#define MACHINE_FILE_PAGES (MACHINE_FILE_BYTES / MACHINE_PAGE_BYTES)
#define PENDING_SIZES      64u

struct machine_file {
    bool in_use;
    uint8_t *cache; /* what programs see; zeros from `size` on */
    uint8_t *disk;
    uint64_t size, disk_size;
    uint64_t cache_top, disk_top; /* nothing but zeros behind these */
    uint64_t pending_sizes[PENDING_SIZES];
    unsigned pending_count;
    uint8_t has_block[MACHINE_FILE_PAGES];
    uint8_t
        is_lost[MACHINE_FILE_PAGES]; /* taken for clean, and not on disk, as long as it is ... */
    uint64_t lost_sum[MACHINE_FILE_PAGES];
    bool has_error;                /* the disk has refused a page, and nobody was told */
    bool stays_in_memory;          /* another program maps it */
    unsigned handles, maps, names; /* in use; names: in the cache or on disk or on the way */
    mode_t mode;
    uint64_t changed_ns; /* its content or a name of it, by the clock of the day */
};

static inline uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* There are no files any more. */
void machine_files_forget(void);

/* A new, empty file, which nobody has yet. */
struct machine_file *machine_file_make(mode_t mode);

/* Somebody has given up a handle, a mapping or a name of it: it goes if nobody has it any more.
 * NULL is harmless. */
void machine_file_release(struct machine_file *file);

/* The file whose memory that is, or NULL; its number, below that of all files; one of those in use,
 * or NULL. */
struct machine_file *machine_file_at(const void *memory);
unsigned machine_file_number(const struct machine_file *file);
struct machine_file *machine_file_any(uint64_t *random);

/* Pages of the disk that have data, and that are free. */
uint64_t machine_used_pages(void);
uint64_t machine_free_pages(void);

/* Gives the range blocks, as far as there are any: returns where it ends. */
uint64_t machine_file_give_blocks(struct machine_file *file, uint64_t from, uint64_t end);

/* Empties the range of pages, whose blocks are free again. */
void machine_file_take_blocks(struct machine_file *file, uint64_t from, uint64_t end);

/* The file has another length, which gets to the disk after those before it. */
void machine_file_set_size(struct machine_file *file, uint64_t size);

/* Writes to the page cache: returns how much there was room for. */
uint64_t machine_file_put(struct machine_file *file, const void *from, uint64_t bytes,
                          uint64_t offset);

/* Some of what is not on disk gets there. power_goes: pages may be on their way. */
void machine_file_write_back(struct machine_file *file, uint64_t *random, bool power_goes);

void machine_file_sync(struct machine_file *file);
void machine_file_fail_to_sync(struct machine_file *file, uint64_t *random);

/* The pages that are clean, or taken for it, are read from the disk when they are needed next. */
void machine_file_forget_clean(struct machine_file *file, uint64_t from);

/* All that the disk may be found to have of the file, without torn sectors, as numbers below this:
 * any number of the new lengths, in their order, with any of the pages. Where there are more than
 * 12 pages, some share their fate. */
uint64_t machine_file_states(const struct machine_file *file);

/* The disk has it in that state. */
void machine_file_take_state(struct machine_file *file, uint64_t state);

/* The power comes back: the page cache of all files is what the disk has. */
void machine_files_wake_up(uint64_t *random);

/* The same, without anything getting to the disk any more. */
void machine_files_wake_up_as_they_are(uint64_t *random);

#endif
