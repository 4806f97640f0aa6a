/*
 * nats_entry: an entry as a message of a stream: the value as its data; expiry, and whether it is
 * the tombstone of a deleted key, in its header. Nothing in it makes the server remove it: servers
 * that are killed while they remove what has a TTL of theirs lose other messages (CLUSTER.md).
 */
#ifndef MQKV_NATSKV_NATS_ENTRY_H
#define MQKV_NATSKV_NATS_ENTRY_H

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"

#define NATS_MESSAGE_ID_BYTES 40u

/* What was found of a key. */
struct nats_entry {
    bool present;      /* there is a value that has not expired */
    uint64_t sequence; /* of the last message, a tombstone's too; 0: there is none */
    uint64_t expiry_ms;
    struct kv_slice value;                  /* borrowed from the message, or `own` */
    uint8_t *own;                           /* malloc'ed */
    char message_id[NATS_MESSAGE_ID_BYTES]; /* "": it has none, or a longer one */
};

void nats_entry_free(struct nats_entry *entry);

/* Reads the answer to a STREAM.MSG.GET (JSON), or to a DIRECT.GET. KV_OK: also if there is no such
 * message. owned: the value is copied. KV_NO_SERVER: the stream cannot answer for now. KV_IO: the
 * answer makes no sense.
 * KV_NO_MEMORY. */
enum kv_status nats_entry_from_json(struct kv_slice answer, struct nats_entry *entry);
enum kv_status nats_entry_from_message(natsMsg *message, bool owned, struct nats_entry *entry);

/* The status number in the header of an answer without a message; 0: it has none. */
unsigned nats_entry_status(natsMsg *message);

/* Only what the header says, whatever time it is. */
void nats_entry_headers(natsMsg *message, bool *tombstone, uint64_t *expiry_ms);

/* The value of a header that the server adds to those of a message that it hands out: the last one,
 * as the message may have one of that name itself. NULL: there is none. */
const char *nats_entry_added(natsMsg *message, const char *name);

/* How a message is written. */
struct nats_writing {
    const char *subject;
    struct kv_slice value;
    uint64_t expiry_ms;
    bool tombstone;
    bool conditional; /* the subject's last message must have that sequence; 0: there is none */
    uint64_t sequence;
    const char *message_id;
};

/* False: out of memory. */
bool nats_entry_to_message(const struct nats_writing *writing, const char *reply,
                           natsMsg **message);

#endif
