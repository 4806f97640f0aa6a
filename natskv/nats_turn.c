#include "natskv/nats_turn.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/time/clock.h"
#include "natskv/nats_turn_run.h"

#define CHAINS 4096u

struct key_turns {
    struct nats_engine *engine;
    pthread_mutex_t lock; /* chains, and what waits at each turn */
    struct key_turn *chains[CHAINS];
};

struct key_turns *nats_turns_create(struct nats_engine *engine)
{
    struct key_turns *turns = calloc(1, sizeof *turns);
    if (!turns)
        return NULL;
    turns->engine = engine;
    pthread_mutex_init(&turns->lock, NULL);
    return turns;
}

void nats_turns_free(struct key_turns *turns)
{
    if (!turns)
        return;
    pthread_mutex_destroy(&turns->lock);
    free(turns);
}

/* Turns ---------------------------------------------------------------------------------------- */

static struct key_turn **find(struct key_turns *turns, const char *subject, uint64_t hash)
{
    struct key_turn **link = &turns->chains[hash % CHAINS];
    while (*link && strcmp((*link)->subject, subject) != 0)
        link = &(*link)->next;
    return link;
}

static bool is_read(const struct engine_operation *operation)
{
    return operation->opcode == ENGINE_GET || operation->opcode == ENGINE_EXISTS;
}

/* Takes those at the front that can go together; how long they may take is what the most patient of
 * them has. */
static void take_run(struct key_turn *turn)
{
    struct engine_operation **link = &turn->first;
    bool reads = is_read(turn->first);
    uint64_t until_ms = clock_monotonic_coarse_ms() + NATS_PATIENCE_MS;
    turn->run = turn->first;
    turn->run_count = 0;
    turn->deadline_ms = 0;
    while (*link && is_read(*link) == reads && turn->run_count < NATSKV_FOLD) {
        uint64_t deadline_ms = (*link)->deadline_ms ? (*link)->deadline_ms : until_ms;
        if (deadline_ms > turn->deadline_ms)
            turn->deadline_ms = deadline_ms;
        turn->run_count++;
        link = &(*link)->next;
    }
    turn->first = *link;
    *link = NULL;
    if (turn->deadline_ms > until_ms)
        turn->deadline_ms = until_ms;
    turn->reads = reads;
    turn->tries = 0;
}

/* key_turn.over: those that wait are next. The turn may be gone then. */
static void begin_next(struct key_turn *turn)
{
    struct key_turns *turns = turn->turns;
    pthread_mutex_lock(&turns->lock);
    bool more = turn->first != NULL;
    if (more)
        take_run(turn);
    else
        *find(turns, turn->subject, turn->hash) = turn->next;
    pthread_mutex_unlock(&turns->lock);
    if (more)
        nats_turn_begin(turn);
    else
        free(turn);
}

static struct key_turn *create(struct key_turns *turns, const char *subject, uint32_t shard,
                               uint64_t hash)
{
    size_t size = strlen(subject) + 1;
    struct key_turn *turn = calloc(1, sizeof *turn + size);
    if (!turn)
        return NULL;
    turn->turns = turns;
    turn->engine = turns->engine;
    turn->shard = shard;
    turn->hash = hash;
    turn->over = begin_next;
    memcpy(turn->subject, subject, size);
    return turn;
}

void nats_turns_take(struct key_turns *turns, struct engine_operation *operation, uint32_t shard,
                     const char *encoded)
{
    char subject[NATS_SUBJECT_BYTES];
    int size = snprintf(subject, sizeof subject, "$KV.%s_%" PRIu32 ".%s",
                        turns->engine->bucket.name, shard, encoded);
    uint64_t hash = XXH3_64bits(subject, (size_t)size);
    operation->next = NULL;
    pthread_mutex_lock(&turns->lock);
    struct key_turn **link = find(turns, subject, hash);
    struct key_turn *turn = *link;
    bool idle = !turn;
    if (!turn)
        turn = *link = create(turns, subject, shard, hash);
    if (turn) {
        struct engine_operation **end = turn->first ? &turn->last->next : &turn->first;
        *end = turn->last = operation;
    }
    if (turn && idle)
        take_run(turn);
    pthread_mutex_unlock(&turns->lock);
    if (!turn)
        nats_finish(operation, KV_NO_MEMORY, NULL);
    else if (idle)
        nats_turn_begin(turn);
}
