#include "clientk/combining/turn.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clientk/combining/call.h"

static unsigned word_of(unsigned sleeper)
{
    return sleeper / 32 % TURN_WAKE_WORDS;
}

static uint32_t bit_of(unsigned sleeper)
{
    return UINT32_C(1) << sleeper % 32;
}

/* Giving ------------------------------------------------------------------------------------ */

void turn_give(struct call *call, enum call_turn turn, struct wake_list *to_wake)
{
    unsigned sleeper = call->sleeper;
    if (atomic_exchange(&call->turn, turn) != TURN_SLEEPING)
        return;
    to_wake->bits[word_of(sleeper)] |= bit_of(sleeper);
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

/* A wire_attempt: 1 once the leader has changed the turn. */
static ssize_t look_at_turn(void *context)
{
    struct call *call = context;
    return atomic_load_explicit(&call->turn, memory_order_acquire) != TURN_WAITING;
}

/* Sleeps until the leader has changed the turn. The word is read before the turn: a leader that
 * changes the turn later changes the word too, and the kernel sees that. */
static void sleep_for_turn(struct call *call, _Atomic uint32_t *word)
{
    uint32_t seen = atomic_load(word);
    uint32_t turn = TURN_WAITING;
    if (!atomic_compare_exchange_strong(&call->turn, &turn, TURN_SLEEPING))
        return;
    while (atomic_load(&call->turn) == TURN_SLEEPING) {
        syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL,
                bit_of(call->sleeper));
        seen = atomic_load(word);
    }
}

enum call_turn turn_await(struct call *call, _Atomic uint32_t wakes[TURN_WAKE_WORDS],
                          struct wire_waiter *waiter)
{
    if (wire_wait(waiter, look_at_turn, call) == 0)
        sleep_for_turn(call, &wakes[word_of(call->sleeper)]);
    return (enum call_turn)atomic_load(&call->turn);
}
