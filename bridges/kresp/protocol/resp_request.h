/*
 * resp_request: reads requests of the Redis protocol (RESP arrays of bulk strings, and inline
 * commands) out of a buffer, in place. A request may arrive in any pieces: what was read is not
 * read again.
 *
 * Any bytes give requests or one protocol error, in time linear in their number. The memory that a
 * request takes is bounded by its limits. A request beyond them is no error of the protocol: its
 * bytes are thrown away as they come, and it is given out as oversized, so that the connection
 * lives on.
 */
#ifndef MQKV_KRESP_PROTOCOL_RESP_REQUEST_H
#define MQKV_KRESP_PROTOCOL_RESP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "mqkv/slice.h"

/* A line without its end may be so long, as in Redis. */
#define RESP_MAX_LINE_BYTES ((size_t)64 * 1024)

/* What Redis takes at most by default (proto-max-bulk-len): more ends the connection. */
#define RESP_MAX_BULK_BYTES ((int64_t)512 * 1024 * 1024)

/* What is counted for an argument beside its bytes. */
#define RESP_ARGUMENT_OVERHEAD_BYTES 32u

struct resp_limits {
    size_t max_argument_bytes; /* of one argument */
    size_t max_request_bytes;  /* of all arguments of a request, their overhead included */
    int64_t max_arguments;     /* more end the connection */
    bool unauthenticated;      /* the lower limits of a client that has not said who it is */
};

/* Where an argument lies, counted from the first byte in the buffer. */
struct resp_span {
    size_t offset, size;
};

/* State between two calls; start from {0}. Plain data of this module, but for count. */
struct resp_request {
    size_t count;             /* arguments of the request that was given out */
    struct byte_buffer spans; /* of struct resp_span */
    size_t first;             /* where the request begins that is being read, or was given out */
    size_t at;                /* what was read so far; both counted as spans are */
    int64_t expected;         /* arguments of the array that is being read; 0: none is */
    int64_t bulk_bytes;       /* of the argument that is being read; -1: its length is to come */
    size_t request_bytes;     /* of the arguments so far, with overhead */
    bool started;             /* the fields above hold something */
    bool given_out;           /* the next call begins a new request */
    bool oversized;
};

enum resp_outcome {
    RESP_REQUEST,    /* a request of `count` arguments, 1 or more */
    RESP_OVERSIZED,  /* an argument or the whole was too large: nothing of it is kept */
    RESP_INCOMPLETE, /* more bytes are needed */
    RESP_BAD         /* see problem; the connection is to be closed */
};

#define RESP_PROBLEM_BYTES 64

/* The next request. RESP_BAD: problem is what Redis says behind "Protocol error: ". The buffer may
 * only grow at its end and, by resp_request_release, shrink at its start; an inline command is
 * unquoted in it. */
enum resp_outcome resp_request_next(struct resp_request *request, struct byte_buffer *buffer,
                                    const struct resp_limits *limits,
                                    char problem[RESP_PROBLEM_BYTES]);

/* Argument i of the request that was given out; borrowed from the buffer until it changes. */
static inline struct kv_slice resp_request_argument(const struct resp_request *request,
                                                    const struct byte_buffer *buffer, size_t i)
{
    struct resp_span span;
    memcpy(&span, request->spans.data + i * sizeof span, sizeof span);
    return kv_slice(buffer->data + buffer->start + span.offset, span.size);
}

/* The request that was given out last comes again with the next call. */
void resp_request_hold(struct resp_request *request);

/* Takes out of the buffer what was given out, or is to be thrown away. */
void resp_request_release(struct resp_request *request, struct byte_buffer *buffer);

/* The bytes that the buffer lacks for the argument that is being read; 0: not known. */
size_t resp_request_missing(const struct resp_request *request, const struct byte_buffer *buffer);

/* Gives back the memory that a request of many arguments took. With nothing in the buffer any
 * more. */
void resp_request_shrink(struct resp_request *request);

void resp_request_free(struct resp_request *request);

#endif
