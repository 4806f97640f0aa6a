#include "serverk/session/deliver.h"

#include <string.h>

/* Fragments and failures are built on the stack; a client with larger messages gets fragments of
 * this size. */
#define PIECE_MAX_BYTES 8192u

static size_t send_bytes(struct session_table *table, struct session *session, const void *message,
                         size_t size)
{
    return session_send(table, session, message, size) ? size : 0;
}

static size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t deliver_failure(struct session_table *table, struct session *session, uint64_t request_id,
                       enum kv_status status, const char *sentence)
{
    uint8_t message[WIRE_HEADER_BYTES + KV_ERROR_TEXT_BYTES];
    struct write_cursor cursor =
        write_cursor(message, smaller_size(session->reply_bytes, sizeof message));
    struct wire_header header = deliver_header(session, request_id, status);
    wire_put_header(&cursor, &header);
    write_bytes(&cursor, sentence, smaller_size(strlen(sentence), write_cursor_left(&cursor)));
    return send_bytes(table, session, message, write_cursor_used(&cursor));
}

size_t deliver_fragment(struct session_table *table, struct fragment_budget *budget,
                        struct session *session, uint64_t request_id, uint32_t offset)
{
    uint8_t message[PIECE_MAX_BYTES];
    struct write_cursor cursor =
        write_cursor(message, smaller_size(session->reply_bytes, sizeof message));
    struct wire_header header = {.kind = WIRE_REPLY_PART,
                                 .session = session->id,
                                 .request_id = request_id,
                                 .secret = session->nonce};
    bool found = fragments_next_fragment(&session->fragments, budget, &header, offset, &cursor);
    if (!found && fragments_reply_given_up(&session->fragments, request_id))
        return deliver_failure(
            table, session, request_id, KV_NO_MEMORY,
            "executed, but its reply was not fetched for 5 s while others needed "
            "the server's memory for large messages");
    if (!found)
        return deliver_failure(table, session, request_id, KV_BAD_REQUEST,
                               "no such fragment of a reply is waiting");
    return send_bytes(table, session, message, write_cursor_used(&cursor));
}

size_t deliver_extended(struct session_table *table, struct fragment_budget *budget,
                        struct session *session, struct kv_slice reply)
{
    if (reply.size <= session->reply_bytes) {
        fragments_cancel(&session->fragments, budget);
        return send_bytes(table, session, reply.data, reply.size);
    }
    struct read_cursor cursor = read_cursor(reply.data, reply.size);
    struct wire_header header = {0};
    wire_get_header(&cursor, &header);
    if (!fragments_store(&session->fragments, budget, header.request_id, reply.data, reply.size))
        return deliver_failure(table, session, header.request_id, KV_NO_MEMORY,
                               "executed, but the server has no memory for so large a reply");
    return deliver_fragment(table, budget, session, header.request_id, 0);
}
