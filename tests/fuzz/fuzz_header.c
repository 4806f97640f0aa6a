/*
 * covers: kvstore/format/fileheader.c
 *
 * The header page of a data file under libFuzzer: any page is read to a verdict; what reads as
 * valid is written to a page that reads as the same; the newer valid progress counts, and one that
 * is damaged never. A note is given out only if its checksum holds.
 *
 *   byte 0     bit 0: make the checksum of the identity hold; bit 1, 2: that of progress slot 0, 1;
 *              bit 3: the magic is there; bit 4: the checksums of the notes
 *   the rest   the page, as far as it goes: identity (48 bytes), slot 0, slot 1, the notes of the
 *              boot and of the hash key (32 bytes each)
 */
#include "tests/fuzz/fuzzing.h"

#include <xxhash.h>

#include "common/memory/cursor.h"
#include "kvstore/format/file_chapters.h"
#include "kvstore/format/fileheader.h"

enum { FIX_IDENTITY = 1, FIX_SLOT_0 = 2, FIX_SLOT_1 = 4, WITH_MAGIC = 8, FIX_NOTES = 16 };

#define IDENTITY_BYTES 48u
#define CHECKSUM_BYTES 8u

static const uint32_t slot_offsets[] = {512, 1024};
static const enum file_note notes[] = {FILE_NOTE_BOOT, FILE_NOTE_HASH_KEY, FILE_NOTE_STREAM};
#define NOTES (sizeof notes / sizeof notes[0])

/* Copies the part of the input that is for this part of the page. */
static void fill(uint8_t *part, size_t bytes, const uint8_t **data, size_t *size)
{
    size_t taken = *size < bytes ? *size : bytes;
    memcpy(part, *data, taken);
    *data += taken;
    *size -= taken;
}

/* Makes the checksum at the end of 32 bytes hold. */
static void seal(uint8_t *at, uint64_t salt)
{
    store_u64(at + FILE_PROGRESS_BYTES - CHECKSUM_BYTES,
              XXH3_64bits_withSeed(at, FILE_PROGRESS_BYTES - CHECKSUM_BYTES, salt));
}

static void make_page(uint8_t *page, const uint8_t *data, size_t size)
{
    uint8_t control = size > 0 ? data[0] : 0;
    data += size > 0;
    size -= size > 0;
    memset(page, 0, FILE_HEADER_BYTES);
    fill(page, IDENTITY_BYTES, &data, &size);
    for (int slot = 0; slot < 2; slot++)
        fill(page + slot_offsets[slot], FILE_PROGRESS_BYTES, &data, &size);
    for (size_t i = 0; i < NOTES; i++)
        fill(page + fileheader_note_offset(notes[i]), FILE_NOTE_PLACE_BYTES, &data, &size);
    if (control & WITH_MAGIC)
        memcpy(page, "mqkvdata\1\0\0\0", 12);
    if (control & FIX_IDENTITY)
        store_u64(page + IDENTITY_BYTES - CHECKSUM_BYTES,
                  XXH3_64bits(page, IDENTITY_BYTES - CHECKSUM_BYTES));
    uint64_t salt = load_u64(page + 32);
    for (int slot = 0; slot < 2; slot++)
        if (control & (FIX_SLOT_0 << slot))
            seal(page + slot_offsets[slot], salt);
    for (size_t i = 0; i < NOTES && control & FIX_NOTES; i++)
        seal(page + fileheader_note_offset(notes[i]), salt);
}

static bool same_identity(const struct file_identity *one, const struct file_identity *other)
{
    return one->format_version == other->format_version && one->datafiles == other->datafiles &&
           one->number == other->number && one->store_seed == other->store_seed &&
           one->salt == other->salt;
}

static void check_identity(const uint8_t *page)
{
    struct file_identity identity, again;
    uint8_t *copy = calloc(1, FILE_HEADER_BYTES);
    require(copy != NULL);
    if (fileheader_read_identity(page, &identity) == FILEHEADER_VALID) {
        fileheader_write_identity(copy, &identity);
        require(fileheader_read_identity(copy, &again) == FILEHEADER_VALID);
        require(same_identity(&identity, &again));
        copy[33] ^= 1; /* of the salt */
        require(fileheader_read_identity(copy, &again) == FILEHEADER_DAMAGED);
    }
    free(copy);
}

static void check_progress(const uint8_t *page)
{
    uint64_t salt = load_u64(page + 32);
    struct file_progress progress, again;
    if (!fileheader_read_progress(page, salt, &progress))
        return;
    uint8_t *copy = malloc(FILE_HEADER_BYTES);
    require(copy != NULL);
    memcpy(copy, page, FILE_HEADER_BYTES);
    if (progress.sequence < UINT64_MAX) {
        struct file_progress next = {progress.sequence + 1, ~progress.synced_offset,
                                     ~progress.version_floor, ~progress.settled};
        fileheader_write_progress(copy, salt, &next);
        require(fileheader_read_progress(copy, salt, &again));
        require(again.sequence == next.sequence && again.synced_offset == next.synced_offset &&
                again.version_floor == next.version_floor);
        copy[fileheader_progress_offset(&next) + 9] ^= 1; /* a torn write: never believed */
        if (fileheader_read_progress(copy, salt, &again))
            require(again.sequence <= progress.sequence);
    }
    free(copy);
}

static void check_notes(const uint8_t *page)
{
    uint64_t salt = load_u64(page + 32);
    uint8_t *copy = calloc(1, FILE_HEADER_BYTES);
    require(copy != NULL);
    for (size_t i = 0; i < NOTES; i++) {
        uint8_t bytes[FILE_NOTE_BYTES], again[FILE_NOTE_BYTES];
        if (fileheader_read_note(page, notes[i], salt, bytes) != FILEHEADER_NOTE_VALID) {
            require(load_u64(bytes) == 0 && load_u64(bytes + 8) == 0);
            continue;
        }
        fileheader_write_note(copy, notes[i], salt, bytes);
        require(fileheader_read_note(copy, notes[i], salt, again) == FILEHEADER_NOTE_VALID);
        require(memcmp(bytes, again, sizeof bytes) == 0);
        copy[fileheader_note_offset(notes[i]) + 3] ^= 1;
        require(fileheader_read_note(copy, notes[i], salt, again) == FILEHEADER_NOTE_DAMAGED);
    }
    free(copy);
    struct file_identity identity = {.salt = salt};
    fileheader_read_hash_key(page, &identity);
    struct file_chapters chapters;
    file_chapters_read(page, salt, &chapters);
    require(chapters.count <= FILE_CHAPTERS_MOST);
    file_chapters_begin(&chapters, 1, load_u64(page + FILE_CHAPTERS_OFFSET + 24));
    require(chapters.count >= 1 && chapters.count <= FILE_CHAPTERS_MOST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *page = malloc(FILE_HEADER_BYTES);
    require(page != NULL);
    make_page(page, data, size);
    check_identity(page);
    check_progress(page);
    check_notes(page);
    free(page);
    return 0;
}
