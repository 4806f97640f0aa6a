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

/* True if `name` may be given to -m. "." and ".." after the '/' may not: they are directories. */
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

/* Forms the name of a valid base; pid is used by the client's three, number by all but
 * LOCK and READ_LANE. */
void wire_queue_name(char out[WIRE_QUEUE_NAME_BYTES], const char *base, enum wire_queue_role role,
                     pid_t pid, unsigned number);

/* True if `name` (no NUL needed) is exactly what wire_queue_name forms for that role under base,
 * with whatever pid and number (so that the server opens nothing but reply queues, segments and
 * rings of its own clients); *pid (may be NULL) gets the pid in it, 0 where it has none. */
bool wire_queue_name_parse(const char *name, size_t name_bytes, const char *base,
                           enum wire_queue_role role, pid_t *pid);

#endif
