#include "kvstore/format/file_chapters.h"

#include <string.h>
#include <xxhash.h>

#include "common/assert/assert.h"
#include "common/memory/cursor.h"

#define CHECKED_BYTES (FILE_CHAPTERS_BYTES - 8u)

#define GONE_OFFSET (FILE_CHAPTERS_MOST * sizeof(struct file_chapter))

_Static_assert(sizeof(struct file_chapter) == 16, "layout");
_Static_assert(GONE_OFFSET == 4064u - FILE_CHAPTERS_OFFSET, "layout");
_Static_assert(GONE_OFFSET + 3 * sizeof(uint64_t) == CHECKED_BYTES, "layout");

void file_chapters_read(const uint8_t *page, uint64_t salt, struct file_chapters *chapters)
{
    const uint8_t *at = page + FILE_CHAPTERS_OFFSET;
    struct read_cursor cursor = read_cursor(at, FILE_CHAPTERS_BYTES);
    *chapters = (struct file_chapters){.gone.version = UINT64_MAX};
    if (load_u64(at + CHECKED_BYTES) != XXH3_64bits_withSeed(at, CHECKED_BYTES, salt))
        return;
    chapters->gone.version = load_u64(at + GONE_OFFSET);
    chapters->gone.expiry_ms = load_u64(at + GONE_OFFSET + 8);
    chapters->gone.end = load_u64(at + GONE_OFFSET + 16);
    for (uint32_t i = 0; i < FILE_CHAPTERS_MOST; i++) {
        struct file_chapter chapter = {.number = read_u64(&cursor)};
        chapter.begin = read_u64(&cursor);
        if (chapter.number == 0)
            return;
        chapters->list[chapters->count++] = chapter;
    }
}

void file_chapters_write(uint8_t *page, uint64_t salt, const struct file_chapters *chapters)
{
    uint8_t *at = page + FILE_CHAPTERS_OFFSET;
    struct write_cursor cursor = write_cursor(at, FILE_CHAPTERS_BYTES);
    KV_ASSERT(chapters->count <= FILE_CHAPTERS_MOST);
    memset(at, 0, FILE_CHAPTERS_BYTES);
    for (uint32_t i = 0; i < chapters->count; i++) {
        write_u64(&cursor, chapters->list[i].number);
        write_u64(&cursor, chapters->list[i].begin);
    }
    store_u64(at + GONE_OFFSET, chapters->gone.version);
    store_u64(at + GONE_OFFSET + 8, chapters->gone.expiry_ms);
    store_u64(at + GONE_OFFSET + 16, chapters->gone.end);
    store_u64(at + CHECKED_BYTES, XXH3_64bits_withSeed(at, CHECKED_BYTES, salt));
}

void file_chapters_begin(struct file_chapters *chapters, uint64_t number, uint64_t begin)
{
    while (chapters->count > 0 && chapters->list[chapters->count - 1].begin >= begin)
        chapters->count--;
    if (chapters->count == FILE_CHAPTERS_MOST) {
        chapters->count--;
        memmove(chapters->list, chapters->list + 1, chapters->count * sizeof chapters->list[0]);
    }
    KV_ASSERT(number != 0 && chapters->count < FILE_CHAPTERS_MOST);
    chapters->list[chapters->count++] = (struct file_chapter){number, begin};
}

uint64_t file_chapters_at(const struct file_chapters *chapters, uint64_t end)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < chapters->count && chapters->list[i].begin < end; i++)
        number = chapters->list[i].number;
    return number;
}
