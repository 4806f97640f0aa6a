/*
 * channel_link: what joins the channels of several kresp of one store: messages travel through keys
 * of the store.
 *
 * A kresp whose clients subscribe says so in one key, again and again, and watches those keys that
 * are kresp's own (redis_store.h). A kresp whose clients publish reads that key. If it names
 * another kresp, the messages of a batch are put together into a key of the publisher's, whose
 * changes the others are told, each once and in order; if not, nothing is written. What is put
 * expires soon, and what nobody hears is lost.
 *
 * A user whom the store denies them reaches the clients of the same kresp alone.
 *
 * The link also follows the store's feed of changes of all keys, while clients are told of them
 * (keyspace_events.h, tracking_table.h). If it has missed changes, or the feed is ill, those who
 * track keys are told that everything has changed.
 *
 * Threads: any; the link has one of its own, from the first subscription on.
 */
#ifndef MQKV_KRESP_SESSION_CHANNEL_LINK_H
#define MQKV_KRESP_SESSION_CHANNEL_LINK_H

#include "bridges/kresp/channels/tracking_table.h"
#include "bridges/kresp/session/redis_store.h"

/* The bytes that a message takes besides its channel and itself. */
#define CHANNEL_LINK_HEADER_BYTES (2 * sizeof(uint32_t))

struct channel_link;

/* Makes the link of the channels of the table; both outlive it, as the store does. NULL: no
 * memory. */
struct channel_link *channel_link_new(struct redis_store *store, struct tracking_table *tracking);

/* Ends its thread. NULL is harmless. No other thread uses it any more. */
void channel_link_free(struct channel_link *link);

/* A client subscribes, and nobody waits here. True: messages of other kresp come, or the store has
 * refused (then it is asked again, until it does not). False: that will be known after the next
 * redis_channels_wake. NULL is harmless. */
bool channel_link_join(struct channel_link *link);

/* Has the clients of this kresp told of these events of keys (keyspace_events.h). Returns the
 * number of the request, for channel_link_answer; nobody waits here. */
uint64_t channel_link_ask_events(struct channel_link *link, unsigned events);

/* A client has entered the table. Returns the number of the request; it is answered when the table
 * is told of every later change. */
uint64_t channel_link_ask_tracking(struct channel_link *link);

enum link_answer {
    LINK_IS_BUSY, /* it will be known after the next redis_channels_wake */
    LINK_TELLS,   /* every later event is told, as this request or a later one wanted it */
    LINK_REFUSES  /* *error says why the feed cannot be followed; events are those of before */
};

enum link_answer channel_link_answer(struct channel_link *link, uint64_t request,
                                     struct kv_error *error);

/* Returns the events that are told. */
unsigned channel_link_events(struct channel_link *link);

/* Sends the messages, each two sizes of uint32_t, channel and message, to the other kresp that have
 * subscribers, and empties the buffer. What cannot be sent is lost, and the log says so. */
void channel_link_send(struct channel_link *link, struct byte_buffer *messages);

#endif
