#include "wire/message.h"

/* Offsets of the fields in the header (message.h has the table). */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_STATUS = 6,
    AT_SESSION = 8,
    AT_COUNT = 12,
    AT_FLAGS = 14,
    AT_REQUEST_ID = 16,
    AT_SECRET = 24,
    AT_DEADLINE_MS = 32,
    AT_WINDOW_OFFSET = 40,
    AT_WINDOW_BYTES = 44
};
_Static_assert(AT_WINDOW_BYTES + sizeof(uint32_t) == WIRE_HEADER_BYTES, "the last field ends it");
_Static_assert(WIRE_MIN_REPLY_BYTES > WIRE_HEADER_BYTES + WIRE_RESULT_MAX_FIELD_BYTES,
               "the smallest reply holds a result");

/* The kernel's pids stay below 2^22 (PID_MAX_LIMIT); pid_t is a positive int. */
#define MAX_PID INT32_MAX

/* The fields direct, store_device and store_inode of WELCOME, which come together or not at all. */
#define WELCOME_DIRECT_BYTES 18u
_Static_assert(sizeof((struct wire_welcome *)0)->direct +
                       sizeof((struct wire_welcome *)0)->store_device +
                       sizeof((struct wire_welcome *)0)->store_inode ==
                   WELCOME_DIRECT_BYTES,
               "docs/PROTOCOL.md, WELCOME");

/* Header ------------------------------------------------------------------------------------ */

void wire_put_header(struct write_cursor *cursor, const struct wire_header *header)
{
    uint8_t *bytes = write_room(cursor, WIRE_HEADER_BYTES);
    if (!bytes)
        return;
    store_u32(bytes + AT_MAGIC, WIRE_MAGIC);
    bytes[AT_VERSION] = WIRE_VERSION;
    bytes[AT_KIND] = (uint8_t)header->kind;
    store_u16(bytes + AT_STATUS, (uint16_t)header->status);
    store_u32(bytes + AT_SESSION, header->session);
    store_u16(bytes + AT_COUNT, header->count);
    store_u16(bytes + AT_FLAGS, header->flags);
    store_u64(bytes + AT_REQUEST_ID, header->request_id);
    store_u64(bytes + AT_SECRET, header->secret);
    store_u64(bytes + AT_DEADLINE_MS, header->deadline_ms);
    store_u32(bytes + AT_WINDOW_OFFSET, header->window_offset);
    store_u32(bytes + AT_WINDOW_BYTES, header->window_bytes);
}

enum kv_status wire_get_header(struct read_cursor *cursor, struct wire_header *header)
{
    const uint8_t *bytes = read_bytes(cursor, WIRE_HEADER_BYTES);
    if (!bytes || load_u32(bytes + AT_MAGIC) != WIRE_MAGIC)
        return KV_BAD_REQUEST;
    header->kind = (enum wire_kind)bytes[AT_KIND];
    header->status = (enum kv_status)load_u16(bytes + AT_STATUS);
    header->session = load_u32(bytes + AT_SESSION);
    header->count = load_u16(bytes + AT_COUNT);
    header->flags = load_u16(bytes + AT_FLAGS);
    header->request_id = load_u64(bytes + AT_REQUEST_ID);
    header->secret = load_u64(bytes + AT_SECRET);
    header->deadline_ms = load_u64(bytes + AT_DEADLINE_MS);
    header->window_offset = load_u32(bytes + AT_WINDOW_OFFSET);
    header->window_bytes = load_u32(bytes + AT_WINDOW_BYTES);
    unsigned known_flags = header->kind == WIRE_REQUEST ? WIRE_REQUEST_MAY_STOP
                           : header->kind == WIRE_REPLY ? WIRE_REPLY_MOVED
                                                        : 0;
    if (bytes[AT_VERSION] != WIRE_VERSION || (header->flags & ~known_flags) != 0 ||
        header->kind < WIRE_HELLO || header->kind > WIRE_MORE)
        return KV_UNSUPPORTED;
    return header->count <= WIRE_MAX_OPERATIONS ? KV_OK : KV_BAD_REQUEST;
}

uint8_t wire_message_version(const uint8_t *message)
{
    return message[AT_VERSION];
}

void wire_patch_count(uint8_t *message, uint16_t count)
{
    store_u16(message + AT_COUNT, count);
}

/* Session messages -------------------------------------------------------------------------- */

/* Writes the size of `name` as u16, and its bytes. False: no queue or segment can have that
 * name. */
static bool put_object_name(struct write_cursor *cursor, struct kv_slice name)
{
    if (name.size == 0 || name.size > WIRE_NAME_MAX_BYTES)
        return false;
    write_u16(cursor, (uint16_t)name.size);
    write_bytes(cursor, name.data, name.size);
    return !cursor->failed;
}

/* Reads a name. False: the name is cut short, empty, too long, or holds a NUL, where system calls
 * would end it. */
static bool get_object_name(struct read_cursor *cursor, struct kv_slice *name)
{
    *name = read_slice(cursor, read_u16(cursor));
    return !cursor->failed && name->size > 0 && name->size <= WIRE_NAME_MAX_BYTES &&
           !memchr(name->data, '\0', name->size);
}

bool wire_put_hello(struct write_cursor *cursor, const struct wire_hello *hello)
{
    write_u64(cursor, hello->nonce);
    write_u32(cursor, hello->pid);
    write_u16(cursor, hello->reply_depth);
    write_u16(cursor, hello->threads);
    write_u32(cursor, hello->reply_bytes);
    if (!put_object_name(cursor, hello->reply_queue))
        return false;
    if (hello->abilities != 0)
        write_u16(cursor, hello->abilities);
    return !cursor->failed;
}

/* Reads a field that older peers do not send; their bodies end before it. */
static uint16_t read_optional_u16(struct read_cursor *cursor)
{
    return read_cursor_left(cursor) >= 2 ? read_u16(cursor) : 0;
}

enum kv_status wire_get_hello(struct read_cursor *cursor, struct wire_hello *hello)
{
    hello->nonce = read_u64(cursor);
    hello->pid = read_u32(cursor);
    hello->reply_depth = read_u16(cursor);
    hello->threads = read_u16(cursor);
    hello->reply_bytes = read_u32(cursor);
    if (!get_object_name(cursor, &hello->reply_queue))
        return KV_BAD_REQUEST;
    hello->abilities = read_optional_u16(cursor);
    return hello->pid >= 1 && hello->pid <= MAX_PID ? KV_OK : KV_BAD_REQUEST;
}

bool wire_put_welcome(struct write_cursor *cursor, const struct wire_welcome *welcome)
{
    write_u64(cursor, welcome->cookie);
    write_u64(cursor, welcome->instance);
    write_u64(cursor, welcome->max_value_bytes);
    write_u32(cursor, welcome->server_pid);
    write_u16(cursor, welcome->credits);
    write_u16(cursor, welcome->lane);
    write_u16(cursor, welcome->bulk_lane);
    write_u16(cursor, welcome->flags);
    write_u32(cursor, welcome->lane_bytes);
    write_u32(cursor, welcome->bulk_bytes);
    bool has_direct = welcome->direct != WIRE_DIRECT_OFF;
    if (welcome->lane_family != 0 || has_direct)
        write_u16(cursor, welcome->lane_family);
    if (has_direct) {
        write_u16(cursor, welcome->direct);
        write_u64(cursor, welcome->store_device);
        write_u64(cursor, welcome->store_inode);
        if (welcome->store_number != 0)
            write_u64(cursor, welcome->store_number);
    }
    return !cursor->failed;
}

/* Reads what WELCOME says of direct reads; older servers say nothing. */
static void get_welcome_direct(struct read_cursor *cursor, struct wire_welcome *welcome)
{
    welcome->direct = WIRE_DIRECT_OFF;
    welcome->store_device = welcome->store_inode = welcome->store_number = 0;
    if (read_cursor_left(cursor) < WELCOME_DIRECT_BYTES)
        return;
    uint16_t direct = read_u16(cursor);
    uint64_t device = read_u64(cursor);
    uint64_t inode = read_u64(cursor);
    uint64_t number = read_cursor_left(cursor) >= sizeof number ? read_u64(cursor) : 0;
    if (direct > WIRE_DIRECT_OFFERED)
        return;
    welcome->direct = direct;
    if (direct == WIRE_DIRECT_OFFERED) {
        welcome->store_device = device;
        welcome->store_inode = inode;
        welcome->store_number = number;
    }
}

enum kv_status wire_get_welcome(struct read_cursor *cursor, struct wire_welcome *welcome)
{
    welcome->cookie = read_u64(cursor);
    welcome->instance = read_u64(cursor);
    welcome->max_value_bytes = read_u64(cursor);
    welcome->server_pid = read_u32(cursor);
    welcome->credits = read_u16(cursor);
    welcome->lane = read_u16(cursor);
    welcome->bulk_lane = read_u16(cursor);
    welcome->flags = read_u16(cursor);
    welcome->lane_bytes = read_u32(cursor);
    welcome->bulk_bytes = read_u32(cursor);
    welcome->lane_family = read_optional_u16(cursor);
    get_welcome_direct(cursor, welcome);
    bool valid = !cursor->failed && welcome->credits >= 1 &&
                 welcome->max_value_bytes <= WIRE_MAX_VALUE_BYTES &&
                 welcome->lane_bytes > WIRE_HEADER_BYTES;
    return valid ? KV_OK : KV_BAD_REQUEST;
}

bool wire_put_segment_offer(struct write_cursor *cursor, const struct wire_segment_offer *offer)
{
    write_u64(cursor, offer->bytes);
    return put_object_name(cursor, offer->name);
}

enum kv_status wire_get_segment_offer(struct read_cursor *cursor, struct wire_segment_offer *offer)
{
    offer->bytes = read_u64(cursor);
    return get_object_name(cursor, &offer->name) && offer->bytes > 0 ? KV_OK : KV_BAD_REQUEST;
}

bool wire_put_part(struct write_cursor *cursor, const struct wire_part *part)
{
    write_u32(cursor, part->total_bytes);
    write_u32(cursor, part->offset);
    write_bytes(cursor, part->bytes.data, part->bytes.size);
    return !cursor->failed;
}

enum kv_status wire_get_part(struct read_cursor *cursor, struct wire_part *part)
{
    part->total_bytes = read_u32(cursor);
    part->offset = read_u32(cursor);
    part->bytes = read_slice(cursor, read_cursor_left(cursor));
    if (cursor->failed)
        return KV_BAD_REQUEST;
    if (part->total_bytes == 0)
        return part->bytes.size == 0 ? KV_OK : KV_BAD_REQUEST;
    uint64_t end = (uint64_t)part->offset + part->bytes.size;
    bool valid =
        part->bytes.size > 0 && end <= part->total_bytes && part->total_bytes > WIRE_HEADER_BYTES;
    return valid ? KV_OK : KV_BAD_REQUEST;
}
