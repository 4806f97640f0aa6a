#include "serverk/session/segment_offer.h"

#include <string.h>
#include <unistd.h>

#include "common/report/error.h"
#include "serverk/session/deliver.h"

/* Offsets in a segment have 32 bits. */
#define MAX_SEGMENT_BYTES (1ull << 32)

/* Opens the offered segment for the session. */
static enum kv_status take_segment(const struct hello_terms *terms, struct session *session,
                                   const struct wire_segment_offer *offer, struct kv_error *error)
{
    pid_t pid = 0;
    char name[WIRE_QUEUE_NAME_BYTES];
    if (offer->name.size >= sizeof name ||
        !wire_queue_name_parse(offer->name.data, offer->name.size, terms->queue, WIRE_REPLY_SEGMENT,
                               &pid) ||
        pid != session->named_pid)
        return kv_error_set(error, KV_BAD_REQUEST, "the segment is not named after process %ld",
                            (long)session->named_pid);
    if (offer->bytes > MAX_SEGMENT_BYTES)
        return kv_error_set(error, KV_LIMIT, "a segment cannot be larger than 4 GiB");
    memcpy(name, offer->name.data, offer->name.size);
    name[offer->name.size] = '\0';
    /* What its owner does with it (fallocate, say) makes every read and write of it wait: so those
     * of other users are taken only where the client cannot know better, and never mapped. */
    bool map = session->uid == geteuid();
    if (!map && geteuid() != 0)
        return kv_error_set(error, KV_DENIED,
                            "the server (uid %lu) takes no segment of another user (uid %lu): send "
                            "large values in parts",
                            (unsigned long)geteuid(), (unsigned long)session->uid);
    struct wire_segment *segment;
    enum kv_status status =
        wire_segment_open(name, offer->bytes, session->uid, map, &segment, error);
    if (status != KV_OK)
        return status;
    if (session_add_segment(session, segment, name))
        return KV_OK;
    wire_segment_close(segment);
    return kv_error_set(error, KV_LIMIT, "a session can change its segment %u times",
                        SESSION_MAX_SEGMENTS - 1);
}

void segment_offer_answer(const struct hello_terms *terms, struct session *session,
                          const struct wire_header *header, struct read_cursor *body)
{
    struct wire_segment_offer offer;
    struct kv_error error = {0};
    enum kv_status status = wire_get_segment_offer(body, &offer);
    if (status != KV_OK)
        kv_error_set(&error, status, "malformed SEGMENT message");
    else
        status = take_segment(terms, session, &offer, &error);
    deliver_failure(terms->sessions, session, header->request_id, status, error.text);
}
