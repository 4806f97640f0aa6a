/*
 * queue_name: the names of queues and segments, all formed and parsed here, from the one NAME of -m
 * (default /serverk; one '/', then 1..64 of [A-Za-z0-9._-]):
 *   NAME            request lane 0 (HELLO goes here)
 *   NAME.l<j>       request lane j >= 1
 *   NAME.b<j>       bulk lane j >= 0 (messages up to the kernel's default 8,192 bytes)
 *   NAME.g<j>       guest lane j >= 0, of one user who is not the daemon's
 *   NAME.read       the lane of those who may only read; HELLO goes here, too
 *   NAME.lock       1 x 1 byte, mode 0600: whoever holds F_WRLCK on it is the server
 *   NAME.c<pid>.<n> a client's reply queue; unlinked as soon as the server has it open
 *   NAME.s<pid>.<n> a client's shared-memory segment (shm_open); likewise
 *   NAME.r<pid>.<n> a client's ring for replies (shm_open, reply_ring.h); likewise
 */
#ifndef MQKV_WIRE_QUEUE_NAME_H
#define MQKV_WIRE_QUEUE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WIRE_DEFAULT_QUEUE_NAME  "/serverk"
#define WIRE_BASE_NAME_MAX_CHARS 64u
#define WIRE_QUEUE_NAME_BYTES    128u /* any name formed here, NUL included */

/* Returns true if `name` may be given to -m. "/." and "/.." may not: they are directories. */
bool wire_name_valid(const char *name);

enum wire_queue_role {
    WIRE_LANE,
    WIRE_BULK_LANE,
    WIRE_GUEST_LANE,
    WIRE_READ_LANE,
    WIRE_LOCK,
    WIRE_REPLY_QUEUE,
    WIRE_REPLY_SEGMENT,
    WIRE_REPLY_RING
};

/* Writes to `out` the name that `base` has in that role. `pid` is part of the names of clients
 * (REPLY_QUEUE, REPLY_SEGMENT, REPLY_RING), `number` of all but LOCK and READ_LANE. */
void wire_queue_name(char out[WIRE_QUEUE_NAME_BYTES], const char *base, enum wire_queue_role role,
                     pid_t pid, unsigned number);

/* Returns true if `name`, of name_bytes bytes, is exactly what wire_queue_name forms for `base` and
 * `role` with some pid and number. So the server opens nothing but reply queues, segments and rings
 * of its own clients. *pid (may be NULL): the pid in the name, 0 if it has none. */
bool wire_queue_name_parse(const char *name, size_t name_bytes, const char *base,
                           enum wire_queue_role role, pid_t *pid);

#endif
