/*
 * tracking_table: which clients have to be told of which changed keys (CLIENT TRACKING), so that
 * they forget what they keep of them: of the keys that a client has read since it was last told, or
 * of all that begin with its prefixes.
 *
 * A key is remembered before it is read, and what a client is told comes behind the replies to what
 * it has asked: so a change is never told before the value that it changes.
 *
 * Memory is bounded, and nobody is waited for. For a user at most TRACKING_READS_OF_USER keys are
 * remembered, in about half of what the user may have of the buffers; then the oldest is forgotten,
 * and its client is told as if the key had changed. A client that is to be told of more than
 * TRACKING_UNTOLD_BYTES, because it does not read, or whose user has no memory left, is told that
 * everything has changed.
 *
 * Threads: any; the lock covers all of it, and is taken before that of the channels.
 */
#ifndef MQKV_KRESP_CHANNELS_TRACKING_TABLE_H
#define MQKV_KRESP_CHANNELS_TRACKING_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bridges/kresp/channels/redis_channels.h"

#define TRACKING_UNTOLD_BYTES ((size_t)1024 * 1024)

/* Each change is compared with all prefixes: all clients of a user together have at most so
 * many. */
#define TRACKING_PREFIXES_OF_USER 1024u

/* To forget them takes a few hundredths of a second, when a client goes. A key counts once for each
 * client that has read it. */
#define TRACKING_READS_OF_USER 131072u

/* So many keys of a user are remembered even where buffers are short, if there is memory at all. */
#define TRACKING_LEAST_READS 256u

struct tracked_read;

/* A prefix of one client. */
struct tracked_prefix {
    struct tracked_prefix *next;
    struct kv_slice name;
    char bytes[];
};

/* What is remembered for all clients of a user; start from {0}. */
struct tracking_share {
    struct tracked_read *oldest, *newest;
    size_t reads, prefixes;
};

/* A client; tracked_client_init makes it one that is told of nothing. */
struct tracked_client {
    struct redis_inbox *inbox; /* is rung when there is something to tell */
    struct tracking_share *share;
    void *reads; /* of struct tracked_read, by tsearch(3) */
    struct tracked_prefix *prefixes;
    struct byte_buffer untold; /* struct untold_change, each with the key behind it */
    bool has_lost;             /* it is to be told that everything has changed */
    bool is_listed;
    bool is_broadcast;                      /* it is told by its prefixes */
    struct tracked_client *previous, *next; /* in the table's list */
};

struct untold_change {
    uint64_t version; /* of the change; 0: the key was forgotten for want of memory */
    size_t size;      /* of the key */
};

/* Start from {.channels}, which outlive it. */
struct tracking_table {
    struct redis_channels *channels;
    pthread_mutex_t lock;
    void *keys;                        /* of struct tracked_key, by tsearch(3) */
    struct tracked_client *clients[2]; /* lists: those who read, those who have prefixes */
    size_t client_count, key_count, read_count, prefix_count;
};

/* inbox, share and owner, to whom the memory is counted, outlive the client. */
void tracked_client_init(struct tracked_client *client, struct redis_inbox *inbox,
                         struct tracking_share *share, struct buffer_owner *owner);

/* The client is told from now on. It must not be listed. */
void tracking_table_enter(struct tracking_table *table, struct tracked_client *client,
                          bool is_broadcast);

/* The client is told of nothing any more; forgets all of it. Harmless if it is not listed. */
void tracking_table_leave(struct tracking_table *table, struct tracked_client *client);

/* The client, which has entered, wants to be told of keys that begin so. False: its user has too
 * many prefixes, or no memory. */
bool tracking_table_add_prefix(struct tracking_table *table, struct tracked_client *client,
                               struct kv_slice prefix);

/* The client is about to read the key. */
void tracking_table_remember(struct tracking_table *table, struct tracked_client *client,
                             struct kv_slice key);

/* The key has changed, or any key may have. */
void tracking_table_tell(struct tracking_table *table, struct kv_slice key, uint64_t version);
void tracking_table_tell_all(struct tracking_table *table);

/* Moves what the client is to be told to *untold, which is empty, with the client's owner, and
 * becomes the caller's. Returns true if it is told that everything has changed. */
bool tracking_table_take(struct tracking_table *table, struct tracked_client *client,
                         struct byte_buffer *untold);

struct tracking_counts {
    size_t clients, keys, reads, prefixes;
};

struct tracking_counts tracking_table_count(struct tracking_table *table);

#endif
