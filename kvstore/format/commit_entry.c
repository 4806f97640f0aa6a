#include "kvstore/format/commit_entry.h"

#include <string.h>
#include <xxhash.h>

#include "common/memory/cursor.h"

#define MAGIC_BYTES          8
#define HEADER_CHECKED_BYTES 32u
#define CHECKSUM_BYTES       8u

_Static_assert(HEADER_CHECKED_BYTES + CHECKSUM_BYTES <= COMMIT_HEADER_BYTES, "layout");
_Static_assert(24 + 8 == COMMIT_ENTRY_BYTES, "layout");

static const char magic[MAGIC_BYTES + 1] = "mqkvcmit";

void commit_header_write(uint8_t *page, uint64_t store_seed, uint64_t epoch)
{
    memcpy(page, magic, MAGIC_BYTES);
    store_u32(page + 8, COMMIT_FORMAT_VERSION);
    store_u32(page + 12, 0);
    store_u64(page + 16, store_seed);
    store_u64(page + 24, epoch);
    store_u64(page + HEADER_CHECKED_BYTES, XXH3_64bits(page, HEADER_CHECKED_BYTES));
}

bool commit_header_read(const uint8_t *page, uint64_t store_seed, uint64_t *epoch)
{
    *epoch = load_u64(page + 24);
    return memcmp(page, magic, MAGIC_BYTES) == 0 && load_u32(page + 8) == COMMIT_FORMAT_VERSION &&
           load_u64(page + 16) == store_seed &&
           load_u64(page + HEADER_CHECKED_BYTES) == XXH3_64bits(page, HEADER_CHECKED_BYTES);
}

static uint64_t commit_entry_checksum(const uint8_t *at, uint32_t size, uint64_t epoch,
                                      uint64_t place)
{
    return XXH3_64bits_withSeed(at + CHECKSUM_BYTES, COMMIT_ENTRY_BYTES - CHECKSUM_BYTES + size,
                                epoch ^ place);
}

void commit_entry_write(uint8_t *at, const struct commit_entry *entry, uint64_t epoch,
                        uint64_t place)
{
    uint64_t end = COMMIT_ENTRY_BYTES + (uint64_t)entry->size;
    store_u32(at + 8, entry->size);
    store_u32(at + 12, entry->number);
    store_u64(at + 16, entry->salt);
    store_u64(at + 24, entry->offset);
    memset(at + end, 0, commit_entry_size(entry->size) - end);
    store_u64(at, commit_entry_checksum(at, entry->size, epoch, place));
}

bool commit_entry_read(const uint8_t *at, uint64_t available, uint64_t epoch, uint64_t place,
                       struct commit_entry *entry)
{
    if (available < COMMIT_ENTRY_BYTES)
        return false;
    entry->size = load_u32(at + 8);
    entry->number = load_u32(at + 12);
    entry->salt = load_u64(at + 16);
    entry->offset = load_u64(at + 24);
    return entry->size > 0 && commit_entry_size(entry->size) <= available &&
           load_u64(at) == commit_entry_checksum(at, entry->size, epoch, place);
}
