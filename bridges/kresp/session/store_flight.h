/*
 * store_flight: operations of a batch that are on their way to serverk while the thread reads other
 * sockets and writes the replies of the batch before. If it waited instead, its clients and the
 * server would have nothing to do meanwhile.
 *
 * Only small writes fly. Reads need no message where they are direct, and large values would need
 * memory for a second session; both are executed before store_flight_begin returns.
 *
 * Threads: one.
 */
#ifndef MQKV_KRESP_SESSION_STORE_FLIGHT_H
#define MQKV_KRESP_SESSION_STORE_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>

#include "mqkv/clientk.h"

struct redis_store;

/* Start from {.store = ...}; only this module uses the other fields. */
struct store_flight {
    struct redis_store *store;
    struct clientk_pipeline *pipeline; /* NULL: there is none */
    bool was_refused;                  /* a pipeline, which is not asked for again */
    size_t under_way;                  /* results that are to come */
};

void store_flight_free(struct store_flight *flight);

/* Executes the operations in order, as redis_store_execute does; nothing else may be under way.
 * True: they are under way: they and their results stay where they are, and nobody looks at the
 * results until store_flight_end. */
bool store_flight_begin(struct store_flight *flight, const struct clientk_operation *operations,
                        size_t count, struct clientk_result *results);

/* Waits until nothing is under way. */
void store_flight_end(struct store_flight *flight);

#endif
