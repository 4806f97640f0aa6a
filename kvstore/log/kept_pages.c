#include "kvstore/log/kept_pages.h"

#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/memory/machine_sizes.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/fileio.h"

/* Looked at in one go. It begins where a page of any machine does. */
#define WINDOW_BYTES (UINT64_C(4) << 20)

/* Read and written with one call. */
#define PIECE_BYTES (UINT64_C(64) << 10)

/* Of a window: which of the machine's pages are in memory. */
struct page_window {
    uint64_t from;
    uint64_t page_bytes;
    unsigned char in_memory[WINDOW_BYTES / PAGE_BYTES]; /* the lowest bit of each */
};

static void page_window_look(struct page_window *window, int fd, uint64_t from, uint64_t size)
{
    void *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, (off_t)from);
    window->from = from;
    window->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    if (at == MAP_FAILED || mincore(at, size, window->in_memory) != 0)
        memset(window->in_memory, 1, sizeof window->in_memory);
    if (at != MAP_FAILED)
        munmap(at, size);
}

static bool is_in_memory(const struct page_window *window, uint64_t offset)
{
    return (window->in_memory[(offset - window->from) / window->page_bytes] & 1) != 0;
}

static int write_again(int fd, uint64_t offset, uint64_t size)
{
    uint8_t piece[PIECE_BYTES];
    ssize_t got = fileio->read_at(fd, piece, size, (off_t)offset);
    if (got <= 0)
        return (int)got;
    return fileio->write_at(fd, piece, (size_t)got, (off_t)offset) < 0 ? -1 : 0;
}

/* Where the pages in memory end that begin at the offset, or a piece of them. */
static uint64_t end_of_piece(const struct page_window *window, uint64_t offset, uint64_t end)
{
    uint64_t at = offset;
    end = at_most(end, offset + PIECE_BYTES);
    while (at < end && is_in_memory(window, at))
        at += PAGE_BYTES;
    return at_most(at, end);
}

static int write_window(const struct page_window *window, int fd, uint64_t from, uint64_t end,
                        bool *any)
{
    while (from < end) {
        uint64_t piece_end = end_of_piece(window, from, end);
        if (piece_end > from && write_again(fd, from, piece_end - from) != 0)
            return -1;
        *any |= piece_end > from;
        from = at_least(piece_end, from + PAGE_BYTES);
    }
    return 0;
}

/* There is no disk behind the pages of such a file, and all of them are in memory for good. */
static bool is_only_in_memory(int fd)
{
    struct statfs facts;
    return fstatfs(fd, &facts) == 0 && facts.f_type == TMPFS_MAGIC;
}

int kept_pages_write(int fd, uint64_t from, uint64_t end)
{
    bool any = false;
    struct page_window window;
    if (is_only_in_memory(fd))
        return 0;
    for (uint64_t at = from / WINDOW_BYTES * WINDOW_BYTES; at < end; at += WINDOW_BYTES) {
        uint64_t window_end = at_most(at + WINDOW_BYTES, end);
        page_window_look(&window, fd, at, window_end - at);
        if (write_window(&window, fd, at_least(at, from), window_end, &any) != 0)
            return -1;
    }
    return any ? fileio->sync_data(fd) : 0;
}
