/*
 * nats_turns: the order of the transactions of this daemon in a shard: how many are under way at
 * once, and that those with a key in common are so one after the other, as they came. Those of
 * other daemons, and operations on single keys, may come in between: the servers say so.
 *
 * Threads: any.
 */
#ifndef MQKV_NATSKV_NATS_TURNS_H
#define MQKV_NATSKV_NATS_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The servers have 50 open batches of a stream at most, those of all daemons. */
#define TURNS_AT_ONCE 8u

/* A transaction in the order. */
struct shard_turn {
    const uint64_t *keys; /* hashes */
    uint32_t key_count;
    struct shard_turn *next; /* of those under way, or of those that wait */

    /* Called once, when it may begin; no lock held. */
    void (*begin)(struct shard_turn *turn);
};

/* The transactions of one shard. */
struct shard_turns {
    pthread_mutex_t lock; /* covers what follows */
    struct shard_turn *under_way, *first, **last;
    uint32_t count; /* of those under way */
    bool advancing; /* a thread looks who may begin */
    bool again;     /* something has changed meanwhile */
};

void nats_turns_init(struct shard_turns *turns);
void nats_turns_destroy(struct shard_turns *turns);

/* Puts the transaction at the end of the order. It may begin, and be over, before this returns. */
void nats_turns_take(struct shard_turns *turns, struct shard_turn *turn);

/* The transaction is over. */
void nats_turns_end(struct shard_turns *turns, struct shard_turn *turn);

#endif
