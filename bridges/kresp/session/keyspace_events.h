/*
 * keyspace_events: what clients are told of changed keys (notify-keyspace-events of Redis): which
 * events, as letters, and the messages that tell of one.
 *
 * The store's feed of changes tells only that a key was put, deleted, or has expired: these are the
 * events "set", "del" and "expired".
 */
#ifndef MQKV_KRESP_SESSION_KEYSPACE_EVENTS_H
#define MQKV_KRESP_SESSION_KEYSPACE_EVENTS_H

#include "bridges/kresp/channels/redis_channels.h"
#include "mqkv/clientk.h"

#define KEYSPACE_EVENTS_BYTES 17u /* of all letters, with the end */

/* What Redis says of letters that it does not know. */
#define KEYSPACE_EVENTS_INVALID "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."

/* Reads letters; false: one of them is unknown. */
bool keyspace_events_parse(struct kv_slice letters, unsigned *events);

/* Writes the letters as Redis does. */
void keyspace_events_write(unsigned events, char letters[KEYSPACE_EVENTS_BYTES]);

/* Returns true if some change of a key is told. */
bool keyspace_events_tell(unsigned events);

/* Publishes the change, as far as it is told. */
void keyspace_events_publish(struct redis_channels *channels, unsigned events,
                             const struct clientk_change *change);

#endif
