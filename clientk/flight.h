/*
 * flight: one message of a pipeline, with the tags of its operations, from its first operation to its
 * last result. What must be sent again, for want of room or after the server was restarted, is parked:
 * copied out of the message, to be built into another.
 */
#ifndef MQKV_CLIENTK_FLIGHT_H
#define MQKV_CLIENTK_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clientk/batch.h"
#include "clientk/connection.h"
#include "clientk/exchange.h"
#include "clientk/key_set.h"
#include "clientk/order_guard.h"

/* What is to be known of an operation without decoding it. */
struct flight_note {
    void *tag;
    uint64_t key_hash;
    bool writes;
    bool uncertain; /* it was sent before, and may have been executed then */
};

/* Start from {0}. */
struct flight {
    struct batch batch;
    struct exchange exchange;
    struct order_guard guard;
    struct flight_note *notes; /* batch.count of them */
    size_t notes_capacity;
    uint64_t deadline_ms;
    bool in_flight; /* its keys are in the set */
};

/* An operation that waits to be sent again; its key and value follow in the same memory. */
struct parked {
    struct parked *next;
    struct wire_operation operation;
    void *tag;
    uint64_t value_bytes; /* that it is known to read; 0: not known */
    bool uncertain;       /* a write that may have been executed */
};

struct parked_list {
    struct parked *first;
    struct parked **end; /* where the next one is linked in */
};
void parked_init(struct parked_list *list);

/* Appends a copy. NULL: no memory. */
struct parked *park(struct parked_list *list, const struct wire_operation *operation, void *tag);

/* Moves all of `from` behind those of `to`. */
void parked_append(struct parked_list *to, struct parked_list *from);

/* Takes the first one off the list, to be freed with free. NULL: it is empty. */
struct parked *unpark(struct parked_list *list);

/* Makes the flight an empty message that may use the given region of the segment. False: no memory. */
bool flight_begin(struct flight *flight, struct connection *connection, uint64_t region_start,
                  uint64_t region_end);

/* Adds the operation with its tag: as batch_add. FULL also for the sake of order. */
enum batch_verdict flight_add(struct flight *flight, const struct wire_operation *operation,
                              void *tag);
enum batch_verdict flight_add_parked(struct flight *flight, const struct parked *parked);

/* Calls visit with each operation, in order; one whose value is in the segment gets it from there.
 * visit must not change the flight. */
typedef void (*flight_visit)(void *context, const struct wire_operation *operation,
                             const struct flight_note *note);
void flight_each(const struct flight *flight, flight_visit visit, void *context);

/* Enters its keys into the set. False: no memory, and none was entered. */
bool flight_enter_keys(struct flight *flight, struct key_set *keys);
void flight_leave_keys(struct flight *flight, struct key_set *keys);

void flight_free(struct flight *flight);

#endif
