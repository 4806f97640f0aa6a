#include "clientk/combining/turn.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/assert/assert.h"

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "a futex is a plain word");

static unsigned wake_word(unsigned sleeper)
{
    return sleeper / 32 % TURN_WAKE_WORDS;
}

static uint32_t wake_bit(unsigned sleeper)
{
    return UINT32_C(1) << sleeper % 32;
}

/* Giving ------------------------------------------------------------------------------------ */

void turn_give(struct turn *turn, enum turn_state state, struct wake_list *to_wake)
{
    unsigned sleeper = turn->sleeper;
    uint32_t before = atomic_exchange(&turn->state, state);
    KV_ASSERT(state == TURN_FINISHED || state == TURN_TO_LEAD);
    KV_ASSERT(before == TURN_WAITING || before == TURN_SLEEPING);
    if (before != TURN_SLEEPING)
        return;
    to_wake->bits[wake_word(sleeper)] |= wake_bit(sleeper);
    to_wake->any = true;
}

void turn_wake(_Atomic uint32_t wakes[TURN_WAKE_WORDS], struct wake_list *list)
{
    if (!list->any)
        return;
    list->any = false;
    for (unsigned i = 0; i < TURN_WAKE_WORDS; i++) {
        if (list->bits[i] == 0)
            continue;
        atomic_fetch_add(&wakes[i], 1);
        syscall(SYS_futex, &wakes[i], FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL,
                list->bits[i]);
        list->bits[i] = 0;
    }
}

/* Waiting ----------------------------------------------------------------------------------- */

/* A wire_attempt: 1 once the leader has given the turn. */
static ssize_t look_at_turn(void *context)
{
    struct turn *turn = context;
    return atomic_load_explicit(&turn->state, memory_order_acquire) != TURN_WAITING;
}

enum turn_state turn_await(struct turn *turn, _Atomic uint32_t wakes[TURN_WAKE_WORDS],
                           struct wire_waiter *waiter)
{
    if (wire_wait(waiter, look_at_turn, turn) == 0) {
        /* The word is read before the state: a leader that gives the turn later changes the word,
         * too, and the kernel sees that. */
        _Atomic uint32_t *word = &wakes[wake_word(turn->sleeper)];
        uint32_t seen = atomic_load(word);
        uint32_t state = TURN_WAITING;
        bool sleeps = atomic_compare_exchange_strong(&turn->state, &state, TURN_SLEEPING);
        while (sleeps && atomic_load(&turn->state) == TURN_SLEEPING) {
            syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL,
                    wake_bit(turn->sleeper));
            seen = atomic_load(word);
        }
    }
    return (enum turn_state)atomic_load(&turn->state);
}
