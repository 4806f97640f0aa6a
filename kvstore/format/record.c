#include "kvstore/format/record.h"

#include <stddef.h>
#include <string.h>

/* The checksum of 88 bytes takes 6.4 ns inlined and 11.5 as a call into libxxhash (gcc 12 -O2,
 * 2.3 GHz Xeon). */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/assert/assert.h"
#include "common/memory/copy.h"
#include "common/memory/cursor.h"
#include "kvstore/format/fileheader.h"
#include "kvstore/format/sizes.h"
#include "kvstore/format/wide_checksum.h"

enum {
    CHECKSUM_AT = 0,
    VALUE_BYTES_AT = 4,
    VERSION_AT = 8,
    KEY_BYTES_AT = 16,
    KIND_AT = 18,
    FLAGS_AT = 19,
    EXPIRY_AT = RECORD_HEADER_BYTES
};

_Static_assert(FLAGS_AT + 1 == RECORD_HEADER_BYTES, "layout");
_Static_assert(EXPIRY_AT + RECORD_EXPIRY_BYTES + RECORD_PART_BYTES == RECORD_MAX_HEADER_BYTES,
               "layout");

#define CHECKSUM_BYTES    4u
/* The value of an extent begins with them, so that what follows is aligned. */
#define EXTENT_ZERO_BYTES (RECORD_EXTENT_HEAD_BYTES - RECORD_HEADER_BYTES)
#define PLACE_BYTES       8u
#define FLAG_EXPIRY       0x01u
#define FLAG_GOES_ON      0x02u
#define FLAG_PART         0x04u
#define FLAG_IN_EXTENT    0x08u
#define USUAL_FLAGS       (FLAG_EXPIRY | FLAG_GOES_ON | FLAG_PART)

/* Where the parts of a record lie, counted from its start. With 64 bits no sum of the fields, at
 * most 4 GiB + 64 KiB, can overflow. */
struct record_layout {
    uint64_t key_at;
    uint64_t value_at;
    uint64_t content_end; /* where the bytes end that the checksum covers */
    uint64_t end;         /* with padding */
};

static inline struct record_layout layout_of(uint64_t key_bytes, uint64_t value_bytes,
                                             unsigned flags)
{
    struct record_layout layout;
    layout.key_at = RECORD_HEADER_BYTES + ((flags & FLAG_EXPIRY) != 0 ? RECORD_EXPIRY_BYTES : 0) +
                    ((flags & FLAG_PART) != 0 ? RECORD_PART_BYTES : 0);
    layout.value_at = layout.key_at + key_bytes;
    layout.content_end = layout.value_at + value_bytes;
    layout.end = record_padded(layout.content_end);
    return layout;
}

static inline unsigned flags_of(const struct record *record)
{
    return (record->expiry_ms != 0 ? FLAG_EXPIRY : 0) | (record->goes_on ? FLAG_GOES_ON : 0) |
           (record->transaction != 0 ? FLAG_PART : 0) | (record->in_extent ? FLAG_IN_EXTENT : 0);
}

/* Returns true unless the record is an extent, the content of one, or placed. */
static inline bool is_usual(const uint8_t *at)
{
    return (load_u16(at + KIND_AT) & (FLAG_IN_EXTENT << 8 | 0xfcu)) == 0;
}

static inline uint32_t checksum_of(const uint8_t *at, uint64_t size, uint64_t seed)
{
    return (uint32_t)(size < WIDE_CHECKSUM_MIN_BYTES ? XXH3_64bits_withSeed(at, size, seed)
                                                     : wide_checksum(at, size, seed));
}

static inline uint32_t record_checksum(const uint8_t *at, uint64_t content_end, uint64_t salt,
                                       uint64_t offset)
{
    return checksum_of(at + CHECKSUM_BYTES, content_end - CHECKSUM_BYTES, salt ^ offset);
}

/* The seed of the checksum of the content of an extent, which covers what is behind the header. */
static uint64_t content_seed(const uint8_t *at, uint64_t salt, uint64_t offset)
{
    return salt ^ offset ^ load_u32(at + VALUE_BYTES_AT) ^
           (uint64_t)load_u32(at + KEY_BYTES_AT) << 32;
}

/* What the checksum of the content of an extent is changed by for its version. */
__attribute__((noinline)) static uint32_t version_checksum(const uint8_t version[8], uint64_t salt,
                                                           uint64_t offset)
{
    return (uint32_t)XXH3_64bits_withSeed(version, sizeof(uint64_t), salt ^ offset);
}

static void copy(uint8_t *to, struct kv_slice from)
{
    copy_bytes(to, from.data, from.size);
}

static bool all_zero(const uint8_t *at, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* Writes what the header has only with some flags. */
__attribute__((noinline)) static void write_extension(uint8_t *at, const struct record *record,
                                                      unsigned flags)
{
    if ((flags & FLAG_EXPIRY) != 0) {
        store_u64(at, record->expiry_ms);
        at += RECORD_EXPIRY_BYTES;
    }
    if ((flags & FLAG_PART) != 0) {
        store_u64(at, record->transaction);
        store_u32(at + 8, record->next_file);
        store_u32(at + 12, record->parts);
    }
}

/* Writes the bytes before the key, except the checksum. */
static inline void write_head(uint8_t *at, const struct record *record, unsigned flags,
                              uint64_t value_bytes)
{
    KV_ASSERT(record->key.size <= UINT16_MAX && value_bytes <= UINT32_MAX);
    KV_ASSERT(!record->goes_on || record->transaction == 0);
    store_u32(at + VALUE_BYTES_AT, (uint32_t)value_bytes);
    store_u64(at + VERSION_AT, record->version);
    store_u16(at + KEY_BYTES_AT, (uint16_t)record->key.size);
    at[KIND_AT] = (uint8_t)record->kind;
    at[FLAGS_AT] = (uint8_t)flags;
    if (flags != 0)
        write_extension(at + EXPIRY_AT, record, flags);
}

/* Also for what is usual. */
__attribute__((noinline)) static uint32_t unusual_checksum(const uint8_t *at, uint64_t content_end,
                                                           uint64_t salt, uint64_t offset)
{
    if ((at[FLAGS_AT] & FLAG_IN_EXTENT) != 0)
        return checksum_of(at + RECORD_HEADER_BYTES, content_end - RECORD_HEADER_BYTES,
                           content_seed(at, salt, offset));
    return record_checksum(
        at, at[KIND_AT] == RECORD_EXTENT ? RECORD_EXTENT_HEAD_BYTES : content_end, salt, offset);
}

uint64_t record_write(uint8_t *at, const struct record *record, struct kv_slice value_tail,
                      uint64_t salt, uint64_t offset)
{
    uint64_t value_bytes = record->value.size + value_tail.size;
    unsigned flags = flags_of(record);
    struct record_layout layout = layout_of(record->key.size, value_bytes, flags);

    store_u64(at + layout.end - RECORD_ALIGNMENT, 0); /* the padding, and what is written over it */
    write_head(at, record, flags, value_bytes);
    copy(at + layout.key_at, record->key);
    copy(at + layout.value_at, record->value);
    copy(at + layout.value_at + record->value.size, value_tail);
    store_u32(at + CHECKSUM_AT, __builtin_expect(is_usual(at), 1)
                                    ? record_checksum(at, layout.content_end, salt, offset)
                                    : unusual_checksum(at, layout.content_end, salt, offset));
    return layout.end;
}

/* Moves bytes from the parts in `left`, in their order, to `to`, which has room for room_bytes.
 * Returns how many. */
static uint64_t take_pieces(struct kv_slice left[], unsigned parts, uint8_t *to,
                            uint64_t room_bytes)
{
    uint64_t taken = 0;
    for (unsigned i = 0; i < parts && taken < room_bytes; i++) {
        uint64_t size = at_most(left[i].size, room_bytes - taken);
        copy(to + taken, kv_slice(left[i].data, size));
        left[i] = kv_slice((const uint8_t *)left[i].data + size, left[i].size - size);
        taken += size;
    }
    return taken;
}

/* How many bytes the piece that begins at `offset` of the file may have. */
static uint64_t piece_limit(uint64_t offset, uint64_t room_bytes)
{
    uint64_t to_multiple = room_bytes - offset % room_bytes;
    return to_multiple < RECORD_MAX_HEADER_BYTES ? room_bytes : to_multiple;
}

int record_write_pieces(const struct record *record, struct kv_slice value_tail, uint64_t salt,
                        uint64_t offset, uint8_t *room, uint64_t room_bytes, record_put *put,
                        void *context)
{
    static const uint8_t padding[RECORD_ALIGNMENT];
    uint64_t value_bytes = record->value.size + value_tail.size;
    unsigned flags = flags_of(record);
    struct record_layout layout = layout_of(record->key.size, value_bytes, flags);
    if (layout.end <= room_bytes)
        return put(context, room, record_write(room, record, value_tail, salt, offset), 0);

    struct wide_stream hashed;
    struct kv_slice left[] = {record->key, record->value, value_tail,
                              kv_slice(padding, layout.end - layout.content_end)};
    store_u32(room + CHECKSUM_AT, 0);
    write_head(room, record, flags, value_bytes);
    wide_stream_begin(&hashed,
                      record->in_extent ? content_seed(room, salt, offset) : salt ^ offset);
    uint64_t filled = layout.key_at;
    uint64_t unhashed_at = record->in_extent ? RECORD_HEADER_BYTES : CHECKSUM_BYTES;
    for (uint64_t done = 0; done < layout.end; done += filled, filled = unhashed_at = 0) {
        filled += take_pieces(left, sizeof left / sizeof left[0], room + filled,
                              piece_limit(offset + done, room_bytes) - filled);
        uint64_t content_left = layout.content_end > done ? layout.content_end - done : 0;
        uint64_t content = at_most(filled, content_left);
        if (content > unhashed_at) /* not in a piece of padding only */
            wide_stream_add(&hashed, room + unhashed_at, content - unhashed_at);
        int result = put(context, room, filled, done);
        if (result != 0)
            return result;
    }
    store_u32(room, (uint32_t)wide_stream_end(&hashed));
    return put(context, room, CHECKSUM_BYTES, CHECKSUM_AT);
}

static inline bool version_is_sound(const uint8_t *at)
{
    uint64_t version = load_u64(at + VERSION_AT);
    return version > 0 && version < RECORD_VERSION_LIMIT;
}

__attribute__((noinline, cold)) static bool unusual_header_is_sound(const uint8_t *at)
{
    uint32_t value_bytes = load_u32(at + VALUE_BYTES_AT);
    bool has_key = load_u16(at + KEY_BYTES_AT) > 0;
    unsigned flags = at[FLAGS_AT];
    bool is_of_kind =
        at[KIND_AT] == RECORD_PUT ? has_key && (flags & ~FLAG_EXPIRY) == FLAG_IN_EXTENT
        : at[KIND_AT] == RECORD_EXTENT
            ? !has_key && flags == 0 && value_bytes % RECORD_ALIGNMENT == EXTENT_ZERO_BYTES
        : at[KIND_AT] == RECORD_POINTER
            ? has_key && value_bytes == PLACE_BYTES && (flags & ~USUAL_FLAGS) == 0
            : false;
    return is_of_kind && version_is_sound(at);
}

/* Inline: it is on the way of every read. */
__attribute__((always_inline)) static inline bool header_is_sound(const uint8_t *at)
{
    uint8_t kind = at[KIND_AT];
    bool is_usual_one =
        (kind == RECORD_PUT || (kind == RECORD_DELETE && load_u32(at + VALUE_BYTES_AT) == 0)) &&
        (at[FLAGS_AT] & ~USUAL_FLAGS) == 0 && load_u16(at + KEY_BYTES_AT) > 0 &&
        version_is_sound(at);
    return __builtin_expect(is_usual_one, 1) || unusual_header_is_sound(at);
}

/* The padding is the last of the record's bytes, fewer than 8. */
static inline bool padding_is_zero(const uint8_t *at, uint64_t content_end, uint64_t end)
{
    uint64_t padding = end - content_end;
    return padding == 0 || load_u64(at + end - 8) >> (64 - 8 * padding) == 0;
}

__attribute__((noinline)) static bool unusual_is_sound(const uint8_t *at, uint64_t content_end,
                                                       uint64_t salt, uint64_t offset)
{
    uint32_t checksum = unusual_checksum(at, content_end, salt, offset);
    if (at[KIND_AT] == RECORD_EXTENT && load_u32(at + RECORD_HEADER_BYTES) != 0)
        return false;
    if ((at[FLAGS_AT] & FLAG_IN_EXTENT) != 0)
        checksum ^= version_checksum(at + VERSION_AT, salt, offset);
    return checksum == load_u32(at + CHECKSUM_AT) &&
           padding_is_zero(at, content_end, record_padded(content_end));
}

/* Inline: it is on the way of every read, from two places. */
__attribute__((always_inline)) static inline bool
content_is_sound(const uint8_t *at, const struct record_layout *layout, uint64_t salt,
                 uint64_t offset)
{
    if (__builtin_expect(!is_usual(at), 0))
        return unusual_is_sound(at, layout->content_end, salt, offset);
    return record_checksum(at, layout->content_end, salt, offset) == load_u32(at + CHECKSUM_AT) &&
           padding_is_zero(at, layout->content_end, layout->end);
}

/* Reads what the header of a record of a transaction says beyond others. False: nothing that may
 * be. */
__attribute__((noinline)) static bool parse_transaction(const uint8_t *at, unsigned flags,
                                                        struct record *record)
{
    record->goes_on = (flags & FLAG_GOES_ON) != 0;
    if ((flags & FLAG_PART) == 0)
        return true;
    at += EXPIRY_AT + ((flags & FLAG_EXPIRY) != 0 ? RECORD_EXPIRY_BYTES : 0);
    record->transaction = load_u64(at);
    record->next_file = load_u32(at + 8);
    record->parts = load_u32(at + 12);
    return !record->goes_on && record->transaction != 0;
}

/* Inline: record_parse is on the way of every lookup. */
__attribute__((always_inline)) static inline enum record_verdict
parse_layout(const uint8_t *at, uint64_t available, struct record *record,
             struct record_layout *layout)
{
    if (available < RECORD_HEADER_BYTES)
        return all_zero(at, available) ? RECORD_END : RECORD_INVALID;
    if (!header_is_sound(at))
        return all_zero(at, RECORD_HEADER_BYTES) ? RECORD_END : RECORD_INVALID;

    uint32_t value_bytes = load_u32(at + VALUE_BYTES_AT);
    uint16_t key_bytes = load_u16(at + KEY_BYTES_AT);
    unsigned flags = at[FLAGS_AT];
    *layout = layout_of(key_bytes, value_bytes, flags);
    if (layout->end > available)
        return RECORD_INVALID;

    record->kind = at[KIND_AT];
    record->version = load_u64(at + VERSION_AT);
    record->in_extent = (flags & FLAG_IN_EXTENT) != 0;
    record->expiry_ms = (flags & FLAG_EXPIRY) != 0 ? load_u64(at + EXPIRY_AT) : 0;
    if ((flags & FLAG_EXPIRY) != 0 && record->expiry_ms == 0)
        return RECORD_INVALID;
    record->goes_on = false;
    record->transaction = 0;
    record->content_at = 0;
    if (__builtin_expect((flags & (FLAG_GOES_ON | FLAG_PART)) != 0, 0) &&
        !parse_transaction(at, flags, record))
        return RECORD_INVALID;
    record->key = kv_slice(at + layout->key_at, key_bytes);
    record->value = kv_slice(at + layout->value_at, value_bytes);
    return RECORD_VALID;
}

enum record_verdict record_parse(const uint8_t *at, uint64_t available, struct record *record,
                                 uint64_t *size_bytes)
{
    struct record_layout layout;
    enum record_verdict verdict = parse_layout(at, available, record, &layout);
    if (verdict == RECORD_VALID)
        *size_bytes = layout.end;
    return verdict;
}

enum record_verdict record_read(const uint8_t *at, uint64_t available, uint64_t salt,
                                uint64_t offset, struct record *record, uint64_t *size_bytes)
{
    struct record_layout layout;
    enum record_verdict verdict = parse_layout(at, available, record, &layout);
    if (verdict != RECORD_VALID)
        return verdict;
    if (!content_is_sound(at, &layout, salt, offset))
        return RECORD_INVALID;
    *size_bytes = layout.end;
    return RECORD_VALID;
}

bool record_is_sound(const uint8_t *at, const struct record *record, uint64_t salt, uint64_t offset)
{
    uint64_t content_end =
        (uint64_t)((const uint8_t *)record->value.data - at) + record->value.size;
    const struct record_layout layout = {.content_end = content_end,
                                         .end = record_padded(content_end)};
    return content_is_sound(at, &layout, salt, offset);
}

/* Extents -------------------------------------------------------------------------------------- */

_Static_assert(RECORD_EXTENT_HEAD_BYTES % RECORD_ALIGNMENT == 0, "content is aligned");

void record_write_extent(uint8_t at[RECORD_EXTENT_HEAD_BYTES], uint64_t version,
                         uint64_t content_bytes, uint64_t salt, uint64_t offset)
{
    KV_ASSERT(content_bytes % RECORD_ALIGNMENT == 0);
    const struct record extent = {.kind = RECORD_EXTENT, .version = version};
    write_head(at, &extent, 0, EXTENT_ZERO_BYTES + content_bytes);
    store_u32(at + RECORD_HEADER_BYTES, 0);
    store_u32(at + CHECKSUM_AT, unusual_checksum(at, RECORD_EXTENT_HEAD_BYTES, salt, offset));
}

void record_number(const struct record *content, uint64_t salt, uint64_t offset,
                   uint8_t checksum[4], uint8_t version[8])
{
    KV_ASSERT(content->in_extent && content->version > 0);
    store_u64(version, content->version);
    store_u32(checksum, load_u32(checksum) ^ version_checksum(version, salt, offset));
}

_Static_assert(RECORD_VERSION_AT == VERSION_AT && CHECKSUM_BYTES == 4, "layout");

void record_place(const struct record *content, uint64_t content_at, uint8_t value[8],
                  struct record *placed)
{
    store_u64(value, content_at);
    *placed = *content;
    placed->kind = RECORD_POINTER;
    placed->value = kv_slice(value, PLACE_BYTES);
    placed->content_at = 0;
    placed->in_extent = false;
}

uint64_t record_placed_at(const struct record *placed, uint64_t offset)
{
    KV_ASSERT(placed->kind == RECORD_POINTER && placed->value.size == PLACE_BYTES);
    uint64_t at = load_u64(placed->value.data);
    return at % RECORD_ALIGNMENT == 0 && at >= FILE_HEADER_BYTES && at < offset &&
                   offset - at >= RECORD_HEADER_BYTES
               ? at
               : 0;
}

bool record_take_place(const struct record *placed, uint64_t content_at, struct record *content)
{
    if (!content->in_extent || content->version != placed->version ||
        content->expiry_ms != placed->expiry_ms)
        return false;
    content->goes_on = placed->goes_on;
    content->transaction = placed->transaction;
    content->next_file = placed->next_file;
    content->parts = placed->parts;
    content->content_at = content_at;
    return true;
}

enum record_verdict record_walk(const uint8_t *file, uint64_t file_bytes, uint64_t salt,
                                uint64_t offset, struct record *record, uint64_t *size_bytes)
{
    enum record_verdict verdict =
        record_read(file + offset, file_bytes - offset, salt, offset, record, size_bytes);
    if (verdict != RECORD_VALID || record->kind != RECORD_POINTER)
        return verdict;
    const struct record placed = *record;
    uint64_t at = record_placed_at(&placed, offset);
    uint64_t content_bytes;
    if (at == 0)
        return RECORD_INVALID;
    /* The checksum last: an extent may have been named by many that are superseded. */
    if (record_parse(file + at, offset - at, record, &content_bytes) == RECORD_VALID &&
        kv_slice_equal(record->key, placed.key) && record_take_place(&placed, at, record) &&
        record_is_sound(file + at, record, salt, at)) {
        record->key = placed.key; /* which stays if the extent gets another content */
        return RECORD_VALID;
    }
    *record = placed;
    record->content_at = at;
    return RECORD_SUPERSEDED;
}
