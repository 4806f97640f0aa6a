/*
 * reply: one REPLY being built in a worker's buffer: results in order, values where they fit: in
 * the message; in the reply window (the stretch of the session's segment that the request named);
 * or, where neither does, in a reply larger than a message, which is then sent in fragments
 * (fragments.h).
 *
 * A request whose sender takes a short reply (WIRE_REQUEST_MAY_STOP) ends with the first operation
 * for whose result there is no room: it and those behind it are not executed. Of any other request
 * every operation gets its result, whatever happens to values: room for the fields of those to come
 * is never given away, and reply_start refuses a request before anything is executed if even they
 * would not fit.
 */
#ifndef MQKV_SERVERK_EXECUTE_REPLY_H
#define MQKV_SERVERK_EXECUTE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/kvstore.h"
#include "serverk/session/session.h"
#include "wire/message.h"
#include "wire/operation.h"

struct reply {
    struct session *session;
    struct fragment_budget *budget;
    struct write_cursor cursor; /* its end is the limit for now */
    size_t buffer_bytes;        /* the limit once it is extended */
    bool reserved;  /* it may be extended without asking: fragments are reserved for it */
    bool extended;  /* may be larger than a message: fragments are reserved */
    bool too_large; /* it wanted to be, and could not */
    bool may_stop;  /* it need not have a result for each operation */
    uint16_t results;
    uint16_t results_to_come;

    struct wire_segment *segment; /* NULL: no reply window */
    uint32_t window_at;           /* its next free byte, as offset in the segment */
    uint32_t window_end;
    uint8_t *scratch; /* for a segment that is not mapped; of scratch_bytes */
    size_t scratch_bytes;
    size_t scratch_used; /* the most of it at a time */
};

/* Returns true if the reply takes no other result, and is to be sent as it is. */
bool reply_is_full(const struct reply *reply);

/* Returns true if `results` more results without values fit the message, whatever becomes of
 * values. */
bool reply_has_room(const struct reply *reply, unsigned results);

/* Where a value may be put, and how much of it. */
enum reply_place_kind { PLACE_NONE, PLACE_MESSAGE, PLACE_WINDOW };

struct reply_place {
    enum reply_place_kind kind;
    uint8_t *at;
    size_t capacity;
};

/* buffer and scratch stay the caller's. budget NULL: it must not become larger than a message,
 * unless `reserved`: the caller has reserved fragments, and gives them back. KV_OVERLOADED: see
 * above. */
enum kv_status reply_start(struct reply *reply, struct session *session,
                           struct fragment_budget *budget, bool reserved,
                           const struct wire_header *request, uint8_t *buffer, size_t buffer_bytes,
                           uint8_t *scratch, size_t scratch_bytes);

/* The place for a value of unknown size (needed 0) or of that size. The value is written there, and
 * then one of the two below called, before anything else. PLACE_NONE: it fits nowhere. */
struct reply_place reply_place(struct reply *reply, size_t needed_bytes);

/* The place with the most room that is there without asking for more. */
struct reply_place reply_largest_place(struct reply *reply);

/* Adds a result whose value was written at the place; result->value.size tells how much of it. A
 * value that the window does not take after all (its memory is gone, or there is none left) goes
 * where there is room without it. False: there is none (nothing was added). */
bool reply_add_placed(struct reply *reply, struct wire_result *result,
                      const struct reply_place *place);

/* Adds a result without a value in the message. */
void reply_add(struct reply *reply, const struct wire_result *result);

/* What a result says beside its status. */
static inline void result_tell_version(struct wire_result *result, uint64_t version)
{
    result->flags |= WIRE_RESULT_HAS_VERSION;
    result->version = version;
}

static inline void result_tell_number(struct wire_result *result, int64_t number)
{
    result->flags |= WIRE_RESULT_HAS_NUMBER;
    result->number = number;
}

/* The entry's version, and its expiry if it has one. */
static inline void result_tell_entry(struct wire_result *result, const struct kvstore_entry *entry)
{
    result_tell_version(result, entry->version);
    if (entry->expiry_ms == 0)
        return;
    result->flags |= WIRE_RESULT_HAS_EXPIRY;
    result->expiry_ms = entry->expiry_ms;
}

/* The size of a value that the reply does not have. */
static inline void result_tell_size(struct wire_result *result, size_t value_bytes)
{
    result->flags |= WIRE_RESULT_NO_VALUE;
    result->value = kv_slice(NULL, value_bytes);
}

/* Gives up the reply: nothing of it is sent. */
void reply_abandon(struct reply *reply);

/* The finished message. */
struct kv_slice reply_finish(struct reply *reply);

#endif
