#include "kvstore/log/kept_pages.h"

#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/memory/machine_sizes.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/fileio.h"

/* Bytes that are looked at in one go. A multiple of the page size of every machine. */
#define WINDOW_BYTES (UINT64_C(4) << 20)
_Static_assert(WINDOW_BYTES % PAGE_BYTES == 0, "windows begin where pages do");

/* Bytes that are read and written with one call. */
#define PIECE_BYTES (UINT64_C(64) << 10)

/* Which of the machine's pages in a window are in memory. */
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

/* Returns where the pages end that are in memory and begin at `offset`, or a piece of them. */
static uint64_t end_of_piece(const struct page_window *window, uint64_t offset, uint64_t end)
{
    uint64_t at = offset;
    end = at_most(end, offset + PIECE_BYTES);
    while (at < end && (window->in_memory[(at - window->from) / window->page_bytes] & 1) != 0)
        at += PAGE_BYTES;
    return at_most(at, end);
}

static int write_window(const struct page_window *window, int fd, uint64_t from, uint64_t end,
                        bool *any)
{
    uint8_t piece[PIECE_BYTES];
    KV_ASSERT(from >= window->from && end <= window->from + WINDOW_BYTES);
    while (from < end) {
        uint64_t piece_end = end_of_piece(window, from, end);
        if (piece_end > from) {
            ssize_t got = fileio->read_at(fd, piece, piece_end - from, (off_t)from);
            if (got < 0)
                return -1;
            if (got > 0 && fileio->write_at(fd, piece, (size_t)got, (off_t)from) < 0)
                return -1;
            *any = true;
        }
        from = at_least(piece_end, from + PAGE_BYTES);
    }
    return 0;
}

int kept_pages_write(int fd, uint64_t from, uint64_t end)
{
    bool any = false;
    struct page_window window;
    struct statfs facts;
    /* Such a file has no disk, and all its pages are in memory for good. */
    if (fstatfs(fd, &facts) == 0 && facts.f_type == TMPFS_MAGIC)
        return 0;
    for (uint64_t at = from / WINDOW_BYTES * WINDOW_BYTES; at < end; at += WINDOW_BYTES) {
        uint64_t window_end = at_most(at + WINDOW_BYTES, end);
        page_window_look(&window, fd, at, window_end - at);
        if (write_window(&window, fd, at_least(at, from), window_end, &any) != 0)
            return -1;
    }
    return any ? fileio->sync_data(fd) : 0;
}
