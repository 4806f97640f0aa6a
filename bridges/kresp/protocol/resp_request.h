/*
 * resp_request: reads requests of the Redis protocol (RESP arrays of bulk strings, and inline
 * commands) out of a buffer, in place. A request may arrive in any pieces: bytes that were read are
 * not read again.
 *
 * Any bytes give requests or one protocol error, in time linear in their number. The memory that a
 * request takes is bounded by its limits. A request that exceeds them is no protocol error: its
 * bytes are dropped as they come, and it is given out as oversized, so that the connection lives
 * on.
 */
#ifndef MQKV_KRESP_PROTOCOL_RESP_REQUEST_H
#define MQKV_KRESP_PROTOCOL_RESP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/protocol/byte_buffer.h"
#include "mqkv/slice.h"

/* The longest line without an end, as in Redis. */
#define RESP_MAX_LINE_BYTES ((size_t)64 * 1024)

/* The largest bulk string that Redis takes by default (proto-max-bulk-len): a larger one ends the
 * connection. */
#define RESP_MAX_BULK_BYTES ((int64_t)512 * 1024 * 1024)

/* What an argument counts besides its bytes. */
#define RESP_ARGUMENT_OVERHEAD_BYTES 32u

struct resp_limits {
    size_t max_argument_bytes; /* limit of one argument */
    size_t max_request_bytes;  /* limit of all arguments of a request, with their overhead */
    int64_t max_arguments;     /* a request with more ends the connection */
    bool unauthenticated;      /* apply the lower limits of a client that has not said who it is */
};

/* Where an argument lies, counted from the first byte in the buffer. */
struct resp_span {
    size_t offset, size;
};

/* State between two calls; start from {0}. Its users read `count` alone. */
struct resp_request {
    size_t count;             /* arguments of the request that was given out */
    struct byte_buffer spans; /* an array of struct resp_span */
    size_t first;             /* where the request begins that is being read, or was given out */
    size_t at;        /* how far the request was read; first and at are counted as spans are */
    int64_t expected; /* arguments of the array that is being read; 0: none is being read */
    int64_t
        bulk_bytes; /* size of the argument that is being read; -1: its length has not come yet */
    size_t request_bytes; /* bytes of the arguments so far, with overhead */
    bool started;         /* the fields above are in use */
    bool given_out;       /* the next call begins a new request */
    bool oversized;
};

enum resp_outcome {
    RESP_REQUEST,    /* a request of `count` arguments, 1 or more */
    RESP_OVERSIZED,  /* an argument or the whole was too large: nothing of it is kept */
    RESP_INCOMPLETE, /* more bytes are needed */
    RESP_BAD         /* see `problem`; the caller closes the connection */
};

#define RESP_PROBLEM_BYTES 64

/* Reads the next request. RESP_BAD: *problem is what Redis says behind "Protocol error: ". Between
 * calls the buffer may only grow at its end and, by resp_request_release, shrink at its start; an
 * inline command is unquoted in it. */
enum resp_outcome resp_request_next(struct resp_request *request, struct byte_buffer *buffer,
                                    const struct resp_limits *limits,
                                    char problem[RESP_PROBLEM_BYTES]);

/* Returns argument i of the request that was given out; borrowed from the buffer until that
 * changes. */
static inline struct kv_slice resp_request_argument(const struct resp_request *request,
                                                    const struct byte_buffer *buffer, size_t i)
{
    struct resp_span span;
    memcpy(&span, request->spans.data + i * sizeof span, sizeof span);
    return kv_slice(buffer->data + buffer->start + span.offset, span.size);
}

/* The next call gives out the last request again. */
void resp_request_repeat(struct resp_request *request);

/* Takes out of the buffer what was given out, or must be dropped. */
void resp_request_release(struct resp_request *request, struct byte_buffer *buffer);

/* Returns the bytes that the buffer lacks for the argument that is being read; 0: not known. */
size_t resp_request_missing(const struct resp_request *request, const struct byte_buffer *buffer);

/* Gives back the memory that a request of many arguments took. The buffer must be empty. */
void resp_request_shrink(struct resp_request *request);

void resp_request_free(struct resp_request *request);

#endif
