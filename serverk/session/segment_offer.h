/*
 * segment_offer: how a session offers its value segment (wire/value_segment.h).
 *
 * Threads: any that holds the session.
 */
#ifndef MQKV_SERVERK_SESSION_SEGMENT_OFFER_H
#define MQKV_SERVERK_SESSION_SEGMENT_OFFER_H

#include "common/memory/cursor.h"
#include "serverk/session/hello.h"
#include "wire/message.h"

/* Answers a SEGMENT message of the session: opens the segment and sends a REPLY. */
void segment_offer_answer(const struct hello_terms *terms, struct session *session,
                          const struct wire_header *header, struct read_cursor *body);

#endif
