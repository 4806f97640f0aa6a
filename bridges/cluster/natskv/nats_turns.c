#include "bridges/cluster/natskv/nats_turns.h"

#include "common/assert/assert.h"

void nats_turns_init(struct shard_turns *turns)
{
    *turns = (struct shard_turns){0};
    turns->last = &turns->first;
    pthread_mutex_init(&turns->lock, NULL);
}

void nats_turns_destroy(struct shard_turns *turns)
{
    pthread_mutex_destroy(&turns->lock);
}

static bool have_key_in_common(const struct shard_turn *one, const struct shard_turn *other)
{
    for (uint32_t i = 0; i < one->key_count; i++)
        for (uint32_t j = 0; j < other->key_count; j++)
            if (one->keys[i] == other->keys[j])
                return true;
    return false;
}

/* Takes the first of those that wait out of their list, if it may begin. */
static struct shard_turn *take_first_turn(struct shard_turns *turns)
{
    struct shard_turn *turn = turns->first;
    if (!turn || turns->count == TURNS_AT_ONCE)
        return NULL;
    for (struct shard_turn *other = turns->under_way; other; other = other->next)
        if (have_key_in_common(turn, other))
            return NULL;
    turns->first = turn->next;
    if (!turns->first)
        turns->last = &turns->first;
    turn->next = turns->under_way;
    turns->under_way = turn;
    turns->count++;
    return turn;
}

/* Begins those that may; by one thread at a time, since one that begins may be over at once. Takes
 * over the lock. */
static void advance_turns(struct shard_turns *turns)
{
    turns->again = true;
    if (turns->advancing) {
        pthread_mutex_unlock(&turns->lock);
        return;
    }
    turns->advancing = true;
    while (turns->again) {
        turns->again = false;
        for (struct shard_turn *turn = take_first_turn(turns); turn;
             turn = take_first_turn(turns)) {
            pthread_mutex_unlock(&turns->lock);
            turn->begin(turn);
            pthread_mutex_lock(&turns->lock);
        }
    }
    turns->advancing = false;
    pthread_mutex_unlock(&turns->lock);
}

void nats_turns_take(struct shard_turns *turns, struct shard_turn *turn)
{
    turn->next = NULL;
    pthread_mutex_lock(&turns->lock);
    *turns->last = turn;
    turns->last = &turn->next;
    advance_turns(turns);
}

void nats_turns_end(struct shard_turns *turns, struct shard_turn *turn)
{
    pthread_mutex_lock(&turns->lock);
    struct shard_turn **link = &turns->under_way;
    while (*link != turn)
        link = &(*link)->next;
    *link = turn->next;
    KV_ASSERT(turns->count > 0);
    turns->count--;
    advance_turns(turns);
}
