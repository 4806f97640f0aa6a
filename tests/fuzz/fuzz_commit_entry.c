/*
 * covers: kvstore/format/commit_entry.c
 *
 * A commit log under libFuzzer: any bytes are read to an end, entry by entry; what reads as an
 * entry lies within them, is written to bytes that read as the same, and is none at another place,
 * in another epoch, or with a bit turned.
 *
 *   byte 0     bit 0: make the checksum of the header hold; bit 1: those of the entries
 *   the rest   the header's 40 bytes, as far as it goes; then entries
 */
#include "tests/fuzz/fuzzing.h"

#include <xxhash.h>

#include "common/memory/cursor.h"
#include "kvstore/format/commit_entry.h"

enum { FIX_HEADER = 1, FIX_ENTRIES = 2 };

#define SEED           UINT64_C(0x1122334455667788)
#define EPOCH          UINT64_C(7)
#define CHECKED_BYTES  32u
#define CHECKSUM_BYTES 8u

static void check_header(const uint8_t *data, size_t size, bool fix)
{
    uint8_t *page = calloc(1, COMMIT_HEADER_BYTES), *again = calloc(1, COMMIT_HEADER_BYTES);
    require(page && again);
    uint64_t epoch, epoch_again;
    memcpy(page, data, size < 40 ? size : 40);
    if (fix)
        store_u64(page + CHECKED_BYTES, XXH3_64bits(page, CHECKED_BYTES));
    if (commit_header_read(page, load_u64(page + 16), &epoch)) {
        commit_header_write(again, load_u64(page + 16), epoch);
        require(commit_header_read(again, load_u64(page + 16), &epoch_again));
        require(epoch == epoch_again);
        require(!commit_header_read(again, load_u64(page + 16) + 1, &epoch_again));
    }
    free(page);
    free(again);
}

/* Makes the checksum of the entry hold, if it could be one. */
static void seal(uint8_t *at, uint64_t available, uint64_t place)
{
    uint64_t content = available < COMMIT_ENTRY_BYTES ? 0 : load_u32(at + 8);
    if (content > 0 && commit_entry_size(content) <= available)
        store_u64(at, XXH3_64bits_withSeed(at + CHECKSUM_BYTES,
                                           COMMIT_ENTRY_BYTES - CHECKSUM_BYTES + content,
                                           EPOCH ^ place));
}

static void check_entry(const uint8_t *at, const struct commit_entry *entry, uint64_t place)
{
    uint64_t size = commit_entry_size(entry->size);
    struct commit_entry again;
    uint8_t *copy = malloc(size);
    require(copy != NULL);
    memcpy(copy, at, size);
    commit_entry_write(copy, entry, EPOCH, place);
    require(commit_entry_read(copy, size, EPOCH, place, &again));
    require(memcmp(&again, entry, sizeof again) == 0);
    require(!commit_entry_read(copy, size, EPOCH + 1, place, &again));
    require(!commit_entry_read(copy, size, EPOCH, place + 8, &again));
    require(!commit_entry_read(copy, size - 1, EPOCH, place, &again));
    copy[COMMIT_ENTRY_BYTES] ^= 1;
    require(!commit_entry_read(copy, size, EPOCH, place, &again));
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t control = size > 0 ? data[0] : 0;
    data += size > 0;
    size -= size > 0;
    check_header(data, size, control & FIX_HEADER);
    size_t left = size > 40 ? size - 40 : 0;
    uint8_t *entries = malloc(left + 1);
    require(entries != NULL);
    memcpy(entries, data + (size - left), left);
    struct commit_entry entry;
    for (uint64_t at = 0; at < left; at += commit_entry_size(entry.size)) {
        if (control & FIX_ENTRIES)
            seal(entries + at, left - at, at);
        if (!commit_entry_read(entries + at, left - at, EPOCH, at, &entry))
            break;
        require(commit_entry_size(entry.size) <= left - at);
        check_entry(entries + at, &entry, at);
    }
    free(entries);
    return 0;
}
