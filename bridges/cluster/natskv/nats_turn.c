#include "bridges/cluster/natskv/nats_turn.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_turn_run.h"

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

static struct key_turn **find_key_turn(struct key_turns *turns, const char *subject, uint64_t hash)
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

/* Whether it can go with those of the run. */
static bool fits(const struct key_turn *turn, const struct engine_operation *operation)
{
    return turn->run_count == 0 ||
           (turn->run_count < NATSKV_FOLD && is_read(operation) == turn->reads);
}

/* Makes a run of those at the front that can go together; how long they may take is what the most
 * patient of them has, but never longer than servers know message ids. Returns those whose deadline
 * has come while they waited: they are in no run. The run may be empty then. */
static struct engine_operation *take_run(struct key_turn *turn)
{
    uint64_t now_ms = clock_monotonic_coarse_ms();
    struct engine_operation *late = NULL, **late_end = &late, **run_end = &turn->run;
    turn->run = NULL;
    turn->run_count = turn->tries = 0;
    turn->deadline_ms = 0;
    while (turn->first) {
        struct engine_operation *operation = turn->first;
        bool is_late = operation->deadline_ms <= now_ms;
        if (!is_late && !fits(turn, operation))
            break;
        turn->first = operation->next;
        operation->next = NULL;
        struct engine_operation ***end = is_late ? &late_end : &run_end;
        **end = operation;
        *end = &operation->next;
        if (is_late)
            continue;
        turn->reads = is_read(operation);
        turn->run_count++;
        if (operation->deadline_ms > turn->deadline_ms)
            turn->deadline_ms = operation->deadline_ms;
    }
    if (turn->deadline_ms > now_ms + NATS_PATIENCE_MS)
        turn->deadline_ms = now_ms + NATS_PATIENCE_MS;
    return late;
}

/* Where the patience that is over was the engine's, time is left to who waits. What his request has
 * behind it would wait as long: those before it get no answer, or others write the key all the
 * time. */
static void finish_late(struct engine_operation *late)
{
    while (late) {
        struct engine_operation *next = late->next;
        late->next = NULL;
        nats_finish(late, late->bounded ? KV_NO_SERVER : KV_DEADLINE,
                    late->bounded ? NATS_NO_TURN : NULL);
        late = next;
    }
}

/* Those that wait are next; without any the turn is gone. Takes over the lock of the turns. */
static void begin_locked(struct key_turn *turn)
{
    struct key_turns *turns = turn->turns;
    struct engine_operation *late = take_run(turn);
    bool runs = turn->run_count > 0;
    if (!runs)
        *find_key_turn(turns, turn->subject, turn->hash) = turn->next;
    pthread_mutex_unlock(&turns->lock);
    finish_late(late);
    if (runs)
        nats_turn_begin(turn);
    else
        free(turn);
}

/* key_turn.over. */
static void begin_next(struct key_turn *turn)
{
    pthread_mutex_lock(&turn->turns->lock);
    begin_locked(turn);
}

static struct key_turn *create_key_turn(struct key_turns *turns, const char *subject,
                                        uint32_t shard, uint64_t hash)
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
    nats_bound_deadline(operation); /* counted from now, however long it waits */
    pthread_mutex_lock(&turns->lock);
    struct key_turn **link = find_key_turn(turns, subject, hash);
    struct key_turn *turn = *link;
    bool idle = !turn;
    if (!turn)
        turn = *link = create_key_turn(turns, subject, shard, hash);
    if (turn) {
        struct engine_operation **end = turn->first ? &turn->last->next : &turn->first;
        *end = turn->last = operation;
    }
    if (turn && idle) {
        begin_locked(turn);
        return;
    }
    pthread_mutex_unlock(&turns->lock);
    if (!turn)
        nats_finish(operation, KV_NO_MEMORY, NULL);
}
