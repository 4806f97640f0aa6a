/*
 * allowance: how much one message may do before others get their turn. A message can ask for hours
 * of work in some KiB (4,096 scans that match nothing, appends to a large value): so between its
 * operations, and within long scans, the worker looks whether it is to go on. It stops
 *   - when the message has had its time, counted from when it was received;
 *   - when it has made the store write so much more than it brought along;
 *   - when the deadline of the request has passed;
 *   - when the session has ended, so that nobody waits for the reply.
 * The first operation is always executed: a client that repeats the rest gets to the end.
 *
 * Threads: none of its own; it belongs to the worker that executes the message.
 */
#ifndef MQKV_SERVERK_EXECUTE_ALLOWANCE_H
#define MQKV_SERVERK_EXECUTE_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/time/clock.h"
#include "mqkv/status.h"
#include "serverk/session/session.h"
#include "wire/message.h"

/* docs/PROTOCOL.md 4.6 and serverk(1) state these. */
#define ALLOWANCE_MS          50u           /* of a message, in a worker */
#define ALLOWANCE_WRITE_BYTES (64ull << 20) /* of records, beyond the values that it brought */

struct allowance {
    const struct session *session;
    uint64_t deadline_ms; /* of the request; 0: none */
    uint64_t until_ms;
    uint64_t write_bytes_left;
    unsigned light;         /* operations since the last look that surely took little time */
    enum kv_status verdict; /* KV_OK: go on; for good once it is not */
};

/* Returns whether the time has passed until which the client wanted its request executed. */
static inline bool allowance_deadline_passed(const struct wire_header *request)
{
    return request->deadline_ms != 0 && clock_monotonic_coarse_ms() >= request->deadline_ms;
}

/* received_ns: when the message was received. ms 0: the message has no time at all. */
static inline void allowance_begin(struct allowance *allowance, const struct session *session,
                                   const struct wire_header *request, uint64_t received_ns,
                                   uint32_t ms)
{
    uint64_t received_ms = received_ns / 1000000u;
    *allowance = (struct allowance){.session = session,
                                    .deadline_ms = request->deadline_ms,
                                    .until_ms = ms > 0 ? received_ms + ms : 0,
                                    .write_bytes_left = ALLOWANCE_WRITE_BYTES};
}

/* Looks at time, deadline and session. KV_OK: the message goes on. KV_DEADLINE: its deadline has
 * passed. KV_OVERLOADED: it has had what it may, or nobody waits for it. */
enum kv_status allowance_look(struct allowance *allowance);

/* The number of light operations between two looks. */
#define ALLOWANCE_LIGHT_OPERATIONS 16u

/* Counts an operation that was executed. light: it surely took little time. written_bytes: of its
 * record, without the value that came with it. */
static inline void allowance_note(struct allowance *allowance, bool light, uint64_t written_bytes)
{
    allowance->light = light ? allowance->light + 1 : ALLOWANCE_LIGHT_OPERATIONS;
    allowance->write_bytes_left -=
        written_bytes < allowance->write_bytes_left ? written_bytes : allowance->write_bytes_left;
}

/* Returns whether it is time to look, before the next operation. */
static inline bool allowance_is_due(const struct allowance *allowance)
{
    return allowance->light >= ALLOWANCE_LIGHT_OPERATIONS;
}

#endif
