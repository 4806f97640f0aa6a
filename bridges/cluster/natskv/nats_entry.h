/*
 * nats_entry: an entry as a message of a stream: the value is its data; its header has the expiry,
 * and says whether it is the tombstone of a deleted key. Nothing in the message makes the server
 * remove it: servers that are killed while they remove messages with a TTL lose others, too
 * (CLUSTER.md).
 */
#ifndef MQKV_NATSKV_NATS_ENTRY_H
#define MQKV_NATSKV_NATS_ENTRY_H

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "mqkv/slice.h"
#include "mqkv/status.h"

#define NATS_MESSAGE_ID_BYTES 40u

/* What a key was found to have. */
struct nats_entry {
    bool present;      /* there is a value that has not expired */
    uint64_t sequence; /* of the last message, even if that is a tombstone; 0: there is none */
    uint64_t expiry_ms;
    struct kv_slice value;                  /* borrowed from the message, or `own` */
    uint8_t *own;                           /* malloc'ed, or NULL */
    char message_id[NATS_MESSAGE_ID_BYTES]; /* "": none, or a longer one */
};

void nats_entry_free(struct nats_entry *entry);

/* Reads the answer to a STREAM.MSG.GET (JSON), or to a DIRECT.GET. KV_OK, also if there is no such
 * message. owned: the value is copied. KV_NO_SERVER: the stream cannot answer now. KV_IO: the
 * answer makes no sense. KV_NO_MEMORY. */
enum kv_status nats_entry_from_json(struct kv_slice answer, struct nats_entry *entry);
enum kv_status nats_entry_from_message(natsMsg *message, bool owned, struct nats_entry *entry);

/* Returns the status number in the header of an answer without a message; 0: it has none. */
unsigned nats_entry_status(natsMsg *message);

/* Reads what the header says, whatever time it is. */
void nats_entry_headers(natsMsg *message, bool *tombstone, uint64_t *expiry_ms);

/* Returns the value of a header that the server adds to a message which it hands out: the last one
 * of that name, since the message itself may have one, too. NULL: there is none. */
const char *nats_entry_added(natsMsg *message, const char *name);

/* Where a message stands in a batch, which the server stores as a whole or not at all. */
struct nats_batch_place {
    const char *id;    /* of the batch */
    uint32_t sequence; /* 1 is the first */
    bool commits;      /* it is the last */
};

/* How a message is written. */
struct nats_writing {
    const char *subject;
    struct kv_slice value;
    uint64_t expiry_ms;
    bool tombstone;
    bool conditional; /* the subject's last message must have `sequence`; 0: none may exist */
    uint64_t sequence;
    const char *expected_of; /* the condition is about this subject; NULL: about its own */
    const char *message_id;
    const struct nats_batch_place *batch; /* NULL: it is in none */
};

/* Makes the message. False: out of memory. */
bool nats_entry_to_message(const struct nats_writing *writing, const char *reply,
                           natsMsg **message);

#endif
