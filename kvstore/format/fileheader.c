#include "kvstore/format/fileheader.h"

#include <string.h>
#include <xxhash.h>

#include "common/memory/cursor.h"
#include "kvstore/format/file_chapters.h"
#include "kvstore/format/sizes.h"

#define MAGIC_BYTES            8
#define IDENTITY_CHECKED_BYTES 40u
#define FILE_FORMAT_AT         8u
#define PROGRESS_CHECKED_BYTES 24u
#define PROGRESS_SETTLED_AT    32u
#define PROGRESS_SLOTS         2u
#define NOTE_CHECKED_BYTES     24u
#define FIRST_NOTE_SECTOR      (1 + PROGRESS_SLOTS)
#define SECTOR_BYTES           512u

_Static_assert(IDENTITY_CHECKED_BYTES + 8 == FILE_IDENTITY_BYTES, "layout");
_Static_assert(PROGRESS_CHECKED_BYTES + 8 == PROGRESS_SETTLED_AT, "layout");
_Static_assert(PROGRESS_SETTLED_AT + 2 * 8 == FILE_PROGRESS_BYTES, "layout");
_Static_assert(NOTE_CHECKED_BYTES + 8 == FILE_NOTE_PLACE_BYTES, "layout");
_Static_assert(FILE_NOTE_BYTES + 8 == NOTE_CHECKED_BYTES, "layout");
_Static_assert(SECTOR_BYTES *(FIRST_NOTE_SECTOR + FILE_NOTE_STREAM) + FILE_NOTE_PLACE_BYTES <=
                   FILE_CHAPTERS_OFFSET,
               "the notes end before the chapters");
_Static_assert(FILE_CHAPTERS_OFFSET + FILE_CHAPTERS_BYTES == FILE_HEADER_BYTES, "layout");

static const char magic[MAGIC_BYTES + 1] = "mqkvdata";

/* The checksum takes the version for that of a new file, so that one store changes the version: at
 * no moment is the header damaged. */
static uint64_t identity_checksum(const uint8_t *page)
{
    uint8_t checked[IDENTITY_CHECKED_BYTES];
    memcpy(checked, page, sizeof checked);
    store_u32(checked + FILE_FORMAT_AT, FILE_FORMAT_VERSION);
    return XXH3_64bits(checked, sizeof checked);
}

void fileheader_write_identity(uint8_t *page, const struct file_identity *identity)
{
    struct write_cursor cursor = write_cursor(page, FILE_IDENTITY_BYTES);
    write_bytes(&cursor, magic, MAGIC_BYTES);
    write_u32(&cursor, identity->format_version);
    write_u32(&cursor, identity->datafiles);
    write_u32(&cursor, identity->number);
    write_u32(&cursor, 0);
    write_u64(&cursor, identity->store_seed);
    write_u64(&cursor, identity->salt);
    write_u64(&cursor, identity_checksum(page));
}

enum fileheader_verdict fileheader_read_identity(const uint8_t *page,
                                                 struct file_identity *identity)
{
    memset(identity, 0, sizeof *identity);
    struct read_cursor cursor = read_cursor(page, FILE_IDENTITY_BYTES);
    if (memcmp(read_bytes(&cursor, MAGIC_BYTES), magic, MAGIC_BYTES) != 0)
        return FILEHEADER_FOREIGN;
    /* Compared before the checksum, which another format may keep elsewhere. */
    identity->format_version = read_u32(&cursor);
    if (identity->format_version < FILE_FORMAT_VERSION ||
        identity->format_version > FILE_FORMAT_NEWEST)
        return FILEHEADER_OTHER_FORMAT;
    identity->datafiles = read_u32(&cursor);
    identity->number = read_u32(&cursor);
    read_u32(&cursor);
    identity->store_seed = read_u64(&cursor);
    identity->salt = read_u64(&cursor);
    if (read_u64(&cursor) != identity_checksum(page))
        return FILEHEADER_DAMAGED;
    return FILEHEADER_VALID;
}

uint32_t fileheader_write_format(uint8_t *page, uint32_t format_version)
{
    store_u32(page + FILE_FORMAT_AT, format_version);
    return FILE_FORMAT_AT;
}

static uint32_t progress_slot_offset(uint64_t slot)
{
    return (uint32_t)(SECTOR_BYTES * (1 + slot));
}

uint32_t fileheader_progress_offset(const struct file_progress *progress)
{
    return progress_slot_offset(progress->sequence % PROGRESS_SLOTS);
}

/* Of the number in `slot`, together with the slot's sequence. */
static uint64_t settled_checksum(const uint8_t *slot, uint64_t salt)
{
    uint8_t checked[16];
    memcpy(checked, slot, 8);
    memcpy(checked + 8, slot + PROGRESS_SETTLED_AT, 8);
    return XXH3_64bits_withSeed(checked, sizeof checked, salt);
}

void fileheader_write_progress(uint8_t *page, uint64_t salt, const struct file_progress *progress)
{
    uint8_t *slot = page + fileheader_progress_offset(progress);
    struct write_cursor cursor = write_cursor(slot, FILE_PROGRESS_BYTES);
    write_u64(&cursor, progress->sequence);
    write_u64(&cursor, progress->synced_offset);
    write_u64(&cursor, progress->version_floor);
    write_u64(&cursor, XXH3_64bits_withSeed(slot, PROGRESS_CHECKED_BYTES, salt));
    write_u64(&cursor, progress->settled);
    write_u64(&cursor, 0);
    if (progress->settled != 0)
        store_u64(slot + PROGRESS_SETTLED_AT + 8, settled_checksum(slot, salt));
}

static bool read_slot(const uint8_t *slot, uint64_t salt, struct file_progress *progress)
{
    struct read_cursor cursor = read_cursor(slot, FILE_PROGRESS_BYTES);
    progress->sequence = read_u64(&cursor);
    progress->synced_offset = read_u64(&cursor);
    progress->version_floor = read_u64(&cursor);
    bool sound = read_u64(&cursor) == XXH3_64bits_withSeed(slot, PROGRESS_CHECKED_BYTES, salt);
    progress->settled = read_u64(&cursor);
    if (progress->settled != 0 && read_u64(&cursor) != settled_checksum(slot, salt))
        progress->settled = 0;
    return sound;
}

/* Of the newer slot the part behind its checksum may be torn, or not be written yet. What is
 * settled stays so: the older one says what was known before. */
bool fileheader_read_progress(const uint8_t *page, uint64_t salt, struct file_progress *progress)
{
    bool found = false;
    uint64_t settled = 0;
    for (uint32_t slot = 0; slot < PROGRESS_SLOTS; slot++) {
        struct file_progress candidate;
        if (!read_slot(page + progress_slot_offset(slot), salt, &candidate))
            continue;
        settled = at_least(settled, candidate.settled);
        if (!found || candidate.sequence > progress->sequence)
            *progress = candidate;
        found = true;
    }
    if (found)
        progress->settled = settled;
    return found;
}

uint32_t fileheader_note_offset(enum file_note note)
{
    return SECTOR_BYTES * (FIRST_NOTE_SECTOR + (uint32_t)note);
}

void fileheader_write_note(uint8_t *page, enum file_note note, uint64_t salt,
                           const uint8_t bytes[FILE_NOTE_BYTES])
{
    uint8_t *at = page + fileheader_note_offset(note);
    struct write_cursor cursor = write_cursor(at, FILE_NOTE_PLACE_BYTES);
    write_bytes(&cursor, bytes, FILE_NOTE_BYTES);
    write_u64(&cursor, 0);
    write_u64(&cursor, XXH3_64bits_withSeed(at, NOTE_CHECKED_BYTES, salt));
}

enum fileheader_note_state fileheader_read_note(const uint8_t *page, enum file_note note,
                                                uint64_t salt, uint8_t bytes[FILE_NOTE_BYTES])
{
    static const uint8_t none[FILE_NOTE_PLACE_BYTES];
    const uint8_t *at = page + fileheader_note_offset(note);
    memset(bytes, 0, FILE_NOTE_BYTES);
    if (memcmp(at, none, sizeof none) == 0)
        return FILEHEADER_NOTE_ABSENT;
    struct read_cursor cursor = read_cursor(at + NOTE_CHECKED_BYTES, 8);
    if (read_u64(&cursor) != XXH3_64bits_withSeed(at, NOTE_CHECKED_BYTES, salt))
        return FILEHEADER_NOTE_DAMAGED;
    memcpy(bytes, at, FILE_NOTE_BYTES);
    return FILEHEADER_NOTE_VALID;
}

void fileheader_write_hash_key(uint8_t *page, const struct file_identity *identity)
{
    uint8_t bytes[FILE_NOTE_BYTES];
    store_u64(bytes, identity->hash_key.words[0]);
    store_u64(bytes + 8, identity->hash_key.words[1]);
    if (!hash_key_is_none(&identity->hash_key))
        fileheader_write_note(page, FILE_NOTE_HASH_KEY, identity->salt, bytes);
}

void fileheader_read_hash_key(const uint8_t *page, struct file_identity *identity)
{
    uint8_t bytes[FILE_NOTE_BYTES];
    fileheader_read_note(page, FILE_NOTE_HASH_KEY, identity->salt, bytes);
    identity->hash_key = (struct hash_key){{load_u64(bytes), load_u64(bytes + 8)}};
}

/* Offsets are multiples of 8. */
#define NOTED_OFFSET_UNIT 8u

bool fileheader_write_replaced(uint8_t *page, uint64_t salt, const struct file_replaced *replaced)
{
    uint8_t bytes[FILE_NOTE_BYTES];
    uint64_t end = replaced->end / NOTED_OFFSET_UNIT;
    uint64_t begin = replaced->begin / NOTED_OFFSET_UNIT;
    if (end > UINT32_MAX || begin > UINT32_MAX)
        return false;
    store_u64(bytes, replaced->salt);
    store_u64(bytes + 8, end | begin << 32);
    fileheader_write_note(page, FILE_NOTE_REPLACED, salt, bytes);
    return true;
}

void fileheader_read_replaced(const uint8_t *page, uint64_t salt, struct file_replaced *replaced)
{
    uint8_t bytes[FILE_NOTE_BYTES];
    fileheader_read_note(page, FILE_NOTE_REPLACED, salt, bytes);
    uint64_t offsets = load_u64(bytes + 8);
    *replaced = (struct file_replaced){.salt = load_u64(bytes),
                                       .end = (offsets & UINT32_MAX) * NOTED_OFFSET_UNIT,
                                       .begin = (offsets >> 32) * NOTED_OFFSET_UNIT};
}

void fileheader_write_stream(uint8_t *page, uint64_t salt, uint64_t stream)
{
    uint8_t bytes[FILE_NOTE_BYTES] = {0};
    store_u64(bytes, stream);
    fileheader_write_note(page, FILE_NOTE_STREAM, salt, bytes);
}

uint64_t fileheader_read_stream(const uint8_t *page, uint64_t salt)
{
    uint8_t bytes[FILE_NOTE_BYTES];
    fileheader_read_note(page, FILE_NOTE_STREAM, salt, bytes);
    return load_u64(bytes);
}
